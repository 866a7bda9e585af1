"""`whence models`: the bundled models and their accuracy."""


def models() -> None:
    """List the bundled models with their accuracy on SST's test sentences."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whence.models.bundled import records
    from whence.render.colour import one_line

    table = Table(box=None, pad_edge=False)
    for name in ("model", "reads", "cell", "sizes"):
        table.add_column(name)
    for name in ("five classes", "binary"):
        table.add_column(name, justify="right")
    for name, config in records().items():
        sizes, test = config["architecture"], config["training"]["test"]
        cells = (
            name,
            config["tokenizer"],
            str(sizes["cell"]),
            f"{sizes['embedding']}/{sizes['hidden']}",
            f"{100 * test['five']:.1f} %",
            f"{100 * test['binary']:.1f} %",
        )
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    Console().print(table)

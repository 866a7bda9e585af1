"""`whence models`: what is bundled, and how good it is."""


def models() -> None:
    """List the bundled models with their figures on SST's test sentences."""
    from rich.console import Console
    from rich.table import Table

    from whence.models.bundled import records

    table = Table(box=None, pad_edge=False)
    for name in ("model", "reads", "cell", "sizes"):
        table.add_column(name)
    for name in ("five classes", "binary"):
        table.add_column(name, justify="right")
    for name, config in records().items():
        sizes, test = config["architecture"], config["training"]["test"]
        table.add_row(
            name,
            config["tokenizer"],
            sizes["cell"],
            f"{sizes['embedding']}/{sizes['hidden']}",
            f"{100 * test['five']:.1f} %",
            f"{100 * test['binary']:.1f} %",
        )
    Console().print(table)

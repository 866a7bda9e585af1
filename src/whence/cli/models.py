"""`whence models`: the bundled models and their accuracy."""

from collections.abc import Iterable, Sequence


def models() -> None:
    """List the bundled models: those of texts with their accuracy on SST's test sentences, those of series with their NSE.

    NSE is the Nash–Sutcliffe efficiency of the forecasts in years that the model has not seen.
    """
    from whence.models.bundled import records, series_records

    texts = [
        (
            name,
            config["tokenizer"],
            str(config["architecture"]["cell"]),
            f"{config['architecture']['embedding']}/{config['architecture']['hidden']}",
            *(f"{100 * config['training']['test'][kind]:.1f} %" for kind in ("five", "binary")),
        )
        for name, config in records().items()
    ]
    _print(("model", "reads", "cell", "sizes", "five classes", "binary"), texts)
    for name, config in series_records().items():
        sizes, found = config["architecture"], config["training"]["test"]["efficiency"]
        print()
        outputs = (f"{each['model']:.2f}" for each in found.values())
        row = (name, ", ".join(config["features"]), str(sizes["cell"]), f"{sizes['features']}/{sizes['hidden']}", *outputs)
        _print(
            ("model", "reads", "cell", "sizes", *(f"NSE {output}" if n == 0 else output for n, output in enumerate(found))),
            [row],
        )


def _print(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; what stands after the first four columns are figures."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whence.render.colour import one_line

    table = Table(box=None, pad_edge=False)
    for n, head in enumerate(heads):
        table.add_column(head, justify="left" if n < 4 else "right")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console().print(table)

"""`whence data`: downloads data sets."""

from pathlib import Path
from typing import Annotated

import typer

data = typer.Typer(help="Download data sets.")


@data.callback()
def options() -> None:
    """Download data sets."""


@data.command()
def sst(
    output: Annotated[Path | None, typer.Option(help="The folder to download into; by default the user's cache.")] = None,
) -> None:
    """Download the Stanford Sentiment Treebank and check its hash."""
    from whence.data.download import download_sst
    from whence.render.colour import one_line

    print(f"SST is in {one_line(str(download_sst(output)))}")

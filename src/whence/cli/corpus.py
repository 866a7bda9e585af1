"""`whence corpus`: explains whole corpora, and says what a model has learned from them."""

import typer

corpus = typer.Typer(
    help="Explain whole corpora, and see what a model has learned.", no_args_is_help=True, rich_markup_mode=None
)

"""The `whence` command: mounts its parts, and turns errors into one line and an exit code."""

import sys
from typing import Annotated

import typer

from whence import __version__
from whence.cli.data import data
from whence.cli.explain import explain
from whence.cli.models import models
from whence.cli.train import train
from whence.errors import DataError, InputError, ModelError, TargetError, WhenceError

app = typer.Typer(
    name="whence", help="Whence does a recurrent network's decision come?", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip
app.command()(explain)
app.command()(train)
app.command()(models)
app.add_typer(data, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"whence {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Explain recurrent models: which words spoke for a decision and which against it."""


def main() -> None:
    """Run the command; 0 done, 1 the work failed, 2 the call was wrong."""
    arguments = sys.argv[1:] or ["--help"]
    try:
        app(arguments, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except WhenceError as error:
        if "--debug" in arguments:
            raise
        print(f"whence: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, (InputError, TargetError, ModelError, DataError)) else 1)
    except Exception as error:
        if not hasattr(error, "show"):  # what the command line's own errors have
            raise
        reason = str(error).removeprefix("Value error, ").rstrip(".")
        print(
            f"whence: {reason}; see whence {arguments[0] if not arguments[0].startswith('-') else ''} --help", file=sys.stderr
        )
        sys.exit(2)

"""The `whence` command: its subcommands, and errors as one line and an exit code."""

import os
import sys
from collections.abc import Callable
from errno import EBADF, EDQUOT, EFBIG, EIO, ENOSPC
from io import TextIOWrapper
from typing import Annotated, Any, cast

import typer

from whence import __version__
from whence.cli.bench import bench
from whence.cli.corpus import corpus
from whence.cli.data import data
from whence.cli.doctor import doctor
from whence.cli.evaluate import evaluate
from whence.cli.explain import explain
from whence.cli.importing import import_model
from whence.cli.inspect import inspect
from whence.cli.models import models
from whence.cli.paper import paper
from whence.cli.phrases import phrases
from whence.cli.serve import serve
from whence.cli.streams import drop_output, fill_closed_streams
from whence.cli.summarize import summarize
from whence.cli.train import train
from whence.errors import DataError, InputError, ModelError, TargetError, WhenceError
from whence.render.colour import visible

app = typer.Typer(
    name="whence", help="Whence does a recurrent network's decision come?", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip
app.command()(explain)
app.command()(phrases)
app.command()(summarize)
app.command()(inspect)
app.command()(evaluate)
app.command()(paper)
app.command()(train)
app.command()(serve)
app.command("import")(import_model)
app.command()(models)
app.command()(bench)
app.command()(doctor)
app.add_typer(corpus, name="corpus")
app.add_typer(data, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"whence {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Explain recurrent models: which words spoke for a decision, and which against it."""


def main() -> None:
    """Run the command. Exit codes: 0 done, 1 failed, 2 wrong call, 130 interrupted. An error is printed as one line."""
    fill_closed_streams()
    arguments = sys.argv[1:] or ["--help"]
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = app(arguments, prog_name="whence", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except (Exception, SystemExit) as error:
        if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
            code = 0  # the reader of the pipe closed it
        elif isinstance(error, SystemExit) or "--debug" in flags:
            raise
        else:
            code = _told(error, arguments)
        if isinstance(error, (OSError, SystemExit)):
            drop_output()
    if code == INTERRUPTED:
        print("whence: stopped", file=sys.stderr)
    sys.exit(code)


FULL = (ENOSPC, EDQUOT, EFBIG, EIO)  # what a place says that takes no more
INTERRUPTED = 130  # a shell's exit code for a program that Ctrl-C ended; click uses it too


def _told(error: Exception, arguments: list[str]) -> int:
    """Print an error as one line without control characters, and return the exit code."""
    reason, code = str(error), 1
    if hasattr(error, "show"):  # an error of click, which parses the command line
        reason, code = _wrong_call(error, arguments), 2
    elif isinstance(error, (InputError, TargetError, ModelError, DataError)):
        code = 2
    elif isinstance(error, OSError) and error.errno == EBADF and error.filename is None:
        reason = "standard output is closed, so nothing can be printed; leave it open, or send it to a file or /dev/null"
    elif isinstance(error, OSError) and error.errno in FULL and error.filename is None:
        reason = f"the output cannot be written: {error.strerror}; make room for it, or send it somewhere else"
    elif isinstance(error, FileNotFoundError) and error.filename is not None:
        reason, code = f"{os.fsdecode(error.filename)} does not exist; give the name of a file or folder that does", 2
    elif not isinstance(error, WhenceError):
        reason = f"{type(error).__name__}: {reason}; --debug shows the traceback"
    print(f"whence: {visible(' '.join(reason.split()))}", file=sys.stderr)
    return code


def _wrong_call(error: Any, arguments: list[str]) -> str:
    """The message of a click error, with the option's name and the value that was given for it."""
    reason = error.format_message().replace(": Value error, ", ": ").rstrip(".")
    errors = cast(Callable[[], list[dict[str, object]]], getattr(error.__cause__, "errors", list))
    checked = errors()  # its message may leave the value out
    if checked and (value := repr(checked[0]["input"])) not in reason:
        reason = reason.replace("Invalid value for", f"Invalid value {value} for")
    named = "whence" if arguments[0].startswith("-") else f"whence {arguments[0]}"
    command = error.ctx.command_path if getattr(error, "ctx", None) else named
    return f"{reason}{' See' if reason.endswith('?') else '; see'} {command} --help"

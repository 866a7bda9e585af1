"""`whence serve`: the page and its service."""

import importlib.util
import os
import signal
import sys
from typing import Annotated

import typer

from whence.cli.loading import loaded
from whence.errors import InputError, WhenceError

NEEDED = ("starlette", "uvicorn", "httptools", "pydantic", "prometheus_client")


def serve(
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.", min=0, max=65535)] = 8000,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A model to offer beside the bundled ones, as for explain; several are possible. The first is the default."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="How many processes share the work.", min=1, max=64)] = 1,
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    token: Annotated[
        str | None, typer.Option(help="Ask for this token; better given as the environment variable WHENCE_TOKEN.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name under which the service is reached; several are possible.")
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Write users' texts into the log.")] = False,
) -> None:
    """Serve the page and its API until Ctrl-C or SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)  # until the server has its own
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise WhenceError(f"whence serve needs {', '.join(missing)}; run: pip install 'whence[web]'")
    given = token if token is not None else os.environ.get("WHENCE_TOKEN")
    if given is not None and not (given.strip() and given.isascii()):
        raise InputError("the token is empty or has characters other than ASCII; give another")
    from whence.web.settings import Settings, address, bound

    settings = Settings(host, port, tuple(allow_host or ()), given, log_texts)
    listening = bound(host, port)

    def announce() -> None:
        print(f"whence serves at {address(host, listening)}", flush=True)
        if open:
            import webbrowser

            webbrowser.open(address(host, listening))

    if workers > 1:
        from whence.web.workers import Workers

        Workers(workers, listening, settings, model or [], loaded).run(announce)
    else:
        from whence.web.serving import run

        run(listening, settings, {each: loaded(each) for each in model or []}, announce)


def _leave(*_: object) -> None:
    """Exit at a signal that comes before the server runs."""
    sys.exit(0)

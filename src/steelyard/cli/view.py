"""`steelyard view RUNS...`: the viewer, a web app on this machine alone."""

from __future__ import annotations

import socket
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.finding import find_run

if TYPE_CHECKING:
    from starlette.applications import Starlette

_ADDRESS = "127.0.0.1"


def view(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Run directories, folders of them, or NAMEs of runs/NAME."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8300,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser window.")
    ] = False,
) -> None:
    """Look at runs, live or finished, in a browser on this machine; all of runs/ without RUNS.

    To look from another machine: ssh -L 8300:127.0.0.1:8300 HOST.
    """
    from steelyard.monitor.viewer import Runs, application

    app = application(Runs([find_run(run) for run in runs or ["runs"]]))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_ADDRESS, port))
            listening.listen()  # now, so that the address works as soon as it is printed
        except OSError as error:
            raise ValueError(
                f"port {port} of {_ADDRESS} cannot be used ({error.strerror}): choose another"
                " with --port, or --port 0 for any"
            ) from error
        address = f"http://{_ADDRESS}:{listening.getsockname()[1]}/"
        typer.echo(f"{address}  (Ctrl-C ends it)")
        if browser:
            webbrowser.open(address)
        _serve(app, listening)


def _serve(app: Starlette, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", server_header=False, ws="none", lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[listening])

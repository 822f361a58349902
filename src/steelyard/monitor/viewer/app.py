"""The viewer's web app: static pages, and every view as JSON.

`GET /api/RUN/VIEW?ids=A&ids=B&KEY=VALUE` answers what `steelyard show RUN VIEW A B KEY=VALUE
--json` prints. `GET /api/` lists the runs and the views. Every page is one HTML file that asks for
these.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from steelyard.monitor.scores import Json
from steelyard.monitor.viewer.guard import Guard
from steelyard.monitor.viewer.runs import Runs
from steelyard.monitor.views import VIEWS, view
from steelyard.store import RunNotFound, RunReader, UnknownSchema

STATIC = Path(__file__).parent / "static"


def application(runs: Runs) -> Starlette:
    """The web app that shows `runs`; it never writes."""

    def index(_: Request) -> Response:
        return _json({"runs": runs.listing(), "views": list(VIEWS)})

    def answer(request: Request) -> Response:
        return _answer(runs, request)

    return Starlette(
        routes=[
            Route("/api/", index),
            Route("/api/{run}/{view}", answer),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/", _page),
            Route("/compare", _page),
            Route("/r/{run}", _overview),
            Route("/r/{run}/{page}", _page),
        ],
        middleware=[Middleware(Guard)],
    )


def _page(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")


def _overview(request: Request) -> Response:
    return RedirectResponse(f"/r/{quote(request.path_params['run'], safe='')}/overview")


def _answer(runs: Runs, request: Request) -> Response:
    run, name = request.path_params["run"], request.path_params["view"]
    directory = runs.directories().get(run)
    if directory is None:
        return _error(404, f"no run is called {run!r}")
    if name not in VIEWS:
        return _error(404, f"there is no view {name!r}: choose one of {', '.join(VIEWS)}")
    ids = [
        value if key == "ids" else f"{key}={value}"
        for key, value in request.query_params.multi_items()
    ]
    try:
        with RunReader(directory) as reader:
            return _json(view(reader, name, ids))
    except (RunNotFound, UnknownSchema) as error:
        return _error(404, str(error))
    except ValueError as error:
        return _error(400, str(error))
    except (sqlite3.DatabaseError, OSError) as error:
        return _error(503, f"{directory} cannot be read now: {error}")


def _error(status: int, sentence: str) -> Response:
    return _json({"error": sentence}, status)


def _json(content: Json, status: int = 200) -> Response:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")

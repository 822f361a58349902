"""What keeps other web pages out: Host check, GET only, a strict content-security policy.

A browser sends any page's requests to 127.0.0.1. Without a CORS header that page cannot read the
answers, unless its own name is made to resolve to 127.0.0.1 (DNS rebinding): then the Host header
still carries its name, and is refused here.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

_HEADERS = {
    # Trusted Types turn every innerHTML and its kin into an error: what a model wrote is text.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Guard:
    """Middleware around `app`; refuses with status 403 or 405 before `app` is asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a websocket: nothing here answers one

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = _refusal(scope) or self._app
        await answer(scope, receive, send_guarded)


def _refusal(scope: Scope) -> PlainTextResponse | None:
    headers = Headers(scope=scope)
    if _host_name(headers.get("host", "")) not in LOOPBACK_NAMES:
        return PlainTextResponse("this server answers only to localhost\n", status_code=403)
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != (
        "navigate"
    ):
        return PlainTextResponse("requests of other sites are refused\n", status_code=403)
    if scope["method"] not in ("GET", "HEAD"):
        return PlainTextResponse("only GET\n", status_code=405, headers={"Allow": "GET, HEAD"})
    return None


def _host_name(host: str) -> str:
    """The Host header without its port; a tunnel may come in by any port."""
    name, colon, port = host.lower().rpartition(":")
    if colon and port.isdigit():
        return name
    return host.lower()

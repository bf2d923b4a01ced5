"""The explorer over HTTP, for this machine alone.

What a page of another site could try from the same browser decides what is checked here: a name
that is made to resolve to this machine (the `Host` header must name it, with its port), a request
across origins (no header allows it; `/api` refuses it by `Sec-Fetch-Site` and `Origin`), a script
of someone else's (the content security policy admits files of this server only). Nothing is ever
written, no state names a file.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.util
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from posenc._core.errors import DependencyError, PosencError, bad_argument
from posenc.explore.frame import Steps
from posenc.explore.save import Download, save
from posenc.explore.server.assets import TYPES, assets
from posenc.explore.server.document import document, state_of
from posenc.explore.state.entry import Session

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

ADDRESS = "127.0.0.1"
HOSTS = ("127.0.0.1", "localhost", "[::1]")
PATIENCE = 5  # seconds for a request to arrive and for an answer to be taken
LONGEST_QUERY = 60_000
FAST = 1  # of the levels of gzip: an answer goes no farther than this machine
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
NEVER_KEPT = {"cache-control": "no-store"}
MISSING = "explore needs Starlette and uvicorn: pip install 'posenc[explore]'"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def app(session: Session | None = None, *, port: int | None = None) -> Starlette:
    """The explorer as an ASGI application.

    Parameters
    ----------
    session : Session, optional
        The encodings and embeddings of files.
    port : int, optional
        The port that the `Host` header must name; by default that of the server.

    Returns
    -------
    starlette.applications.Starlette
        Serves `/`, `/static/…`, `/api/frame` and `/api/save` to this machine.

    Raises
    ------
    DependencyError
        If Starlette is not installed.

    Examples
    --------
    >>> from posenc.explore import app
    >>> [route.path for route in app().routes]
    ['/', '/static/{name}', '/api/frame', '/api/save']
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.gzip import GZipMiddleware
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError:
        raise DependencyError(MISSING) from None
    shared = Session() if session is None else session
    files, steps = assets(), Steps(shared)

    def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in files:
            return Response("There is no such page.", 404, media_type="text/plain")
        return Response(
            files[name],
            headers={"content-type": TYPES[name[name.rfind(".") :]], "cache-control": "no-cache"},
        )

    def picture(request: Request) -> Response:
        try:
            state = state_of(f"?{request.url.query}")
        except PosencError as error:
            return Response(str(error), 400, media_type="text/plain")
        data = steps.frame(state)
        kept = dict(NEVER_KEPT)
        if "since" in state and len(data) > 2**16:
            kept["content-encoding"] = "identity"  # to compress it would take longer than to send
        return Response(data, media_type="application/octet-stream", headers=kept)

    def file(request: Request) -> Response:
        try:
            state = state_of(f"?{request.url.query}")
            wanted = state.pop("format", "")
            download = (
                Download("posenc-explore.html", TYPES[".html"], document([state], shared))
                if wanted == "html"
                else save(state, wanted, shared)
            )
        except PosencError as error:
            return Response(
                str(error),
                409 if isinstance(error, DependencyError) else 400,
                media_type="text/plain",
            )
        return Response(
            download.data,
            media_type=download.media_type,
            headers={
                "content-disposition": f'attachment; filename="{download.name}"',
                **NEVER_KEPT,
            },
        )

    return Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", page),
            Route("/api/frame", picture),
            Route("/api/save", file),
        ],
        middleware=[
            Middleware(functools.partial(_Guard, port=port)),
            Middleware(GZipMiddleware, compresslevel=FAST),
        ],
    )


class _Guard:
    """Headers on every answer, and the refusals that come before any of them is thought about."""

    def __init__(
        self, inner: Callable[[Scope, Receive, Send], Awaitable[None]], *, port: int | None = None
    ) -> None:
        self.inner, self.port = inner, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {
                    **message,
                    "headers": [
                        *[(k, v) for k, v in message["headers"] if k.decode() not in HEADERS],
                        *[(k.encode(), v.encode()) for k, v in HEADERS.items()],
                    ],
                }
            await send(message)

        refused = self._refusal(scope)
        if refused is None:
            await self.inner(scope, receive, guarded)
            return
        status, body = refused[0], refused[1].encode()
        await guarded(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", b"text/plain; charset=utf-8"),
                    (b"content-length", str(len(body)).encode()),
                    *([(b"allow", b"GET, HEAD")] if status == 405 else []),
                ],
            }
        )
        body = b"" if scope["method"] == "HEAD" else body
        await guarded({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = [(k.lower(), v) for k, v in scope["headers"]]
        hosts = [v.decode("latin-1") for k, v in headers if k == b"host"]
        port = self.port if self.port is not None else (scope.get("server") or ("", None))[1]
        if len(hosts) != 1 or not _is_here(hosts[0], port):
            return 400, "This server answers to 127.0.0.1 and localhost only."
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "Only GET and HEAD: nothing can be changed here."
        if len(scope.get("query_string", b"")) > LONGEST_QUERY:
            return 414, f"The address is too long: at most {LONGEST_QUERY:,} characters of state."
        if scope["path"].startswith("/api") and _is_foreign(headers, hosts[0]):
            return 403, "Pictures are for the explorer's own page."
        return None


def _is_foreign(headers: list[tuple[bytes, bytes]], host: str) -> bool:
    """Whether a page of another origin asks; browsers that name no site name their origin."""
    sites = [v for k, v in headers if k == b"sec-fetch-site"]
    return any(site not in (b"same-origin", b"none") for site in sites) or any(
        origin != f"http://{host.lower()}"
        for origin in [v.decode("latin-1").lower() for k, v in headers if k == b"origin"]
    )


def _is_here(host: str, port: int | None) -> bool:
    """Whether a `Host` header names this machine, and this port where it names one."""
    name, colon, digits = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, digits = host, ""
    if name.lower() not in HOSTS or (colon and not host.endswith("]") and not digits.isascii()):
        return False
    return (
        not host.endswith(":") and (port in (None, 80))
        if not digits
        else digits.isdigit() and len(digits) <= 5 and (port is None or int(digits) == port)
    )


# --- serving --------------------------------------------------------------------------------------


@contextlib.contextmanager
def bound(port: int = 0) -> Iterator[socket.socket]:
    """A listening socket of this machine alone, closed at the end; port 0 takes a free one.

    Raises `DependencyError` if uvicorn or Starlette is not installed.
    """
    if not all(map(importlib.util.find_spec, ("uvicorn", "starlette"))):
        raise DependencyError(MISSING)  # before an address is printed
    # asyncio lets small answers go at once, without waiting 40 ms for an acknowledgement, only
    # where the socket names its protocol.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        # Without it, a port stays taken for a minute after its server ended.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((ADDRESS, port))
            listening.listen(64)
        except OSError as error:
            reasons = {errno.EADDRINUSE: "in use", errno.EACCES: "not allowed"}
            raise bad_argument(
                "explore",
                "a free port",
                f"{port}, which is {reasons.get(error.errno or 0, error.strerror)}",
                "Leave --port out: a free one is taken.",
            ) from None
        yield listening


def serve(session: Session | None, listening: socket.socket) -> None:
    """Serve on what `bound` gives until the process is asked to end."""
    import uvicorn

    from posenc.explore.server.punctual import punctual

    uvicorn.Server(
        uvicorn.Config(
            app(session, port=int(listening.getsockname()[1])),
            http=punctual(PATIENCE),
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=2 * LONGEST_QUERY,
            limit_concurrency=64,
            timeout_keep_alive=PATIENCE,
            timeout_graceful_shutdown=1,
        )
    ).run(sockets=[listening])

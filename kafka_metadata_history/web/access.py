"""Who may ask: loopback alone without a token; with one, programs by a bearer, people by a cookie.

A page of another site can neither read an answer (Host and Origin are checked, which ends DNS
rebinding) nor log in for somebody (the cookie is of this site alone).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from kafka_metadata_history.web.page import address

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "kafka-metadata-history"
_HEALTH: Final = "/healthz"
_METRICS: Final = "/metrics"
_ALWAYS: Final = (_HEALTH, "/login")
POLICY: Final = "Content-Security-Policy"
HEADERS: Final = {
    POLICY: (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would send forms with `Origin: null`, which is refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Access:
    """`token`: of all but metrics; None: everybody who reaches the port. `hosts`: the names by
    which the pages may be asked, besides addresses of loopback; None: any, which needs a token.
    """

    token: str | None = field(repr=False, default=None)
    metrics_token: str | None = field(repr=False, default=None)
    hosts: Collection[str] | None = ()
    is_https: bool = False

    def cookie(self) -> str:
        """Return the value of the cookie of who has logged in. It is not the token."""
        assert self.token is not None  # noqa: S101 - without one nobody logs in
        return hmac.new(self.token.encode(), b"logged in", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether that is the token."""
        return self.token is not None and _same(given, self.token)

    def allows(self, request: Request) -> bool:
        """Whether who asks has shown the token that the address needs."""
        path = request.url.path
        if path in _ALWAYS or path.startswith("/static/"):
            return True
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            bearer = ""
        if path == _METRICS and self.metrics_token is not None:
            return _same(bearer, self.metrics_token)
        if self.token is None:
            return True
        return _same(bearer, self.token) or _same(request.cookies.get(COOKIE, ""), self.cookie())

    def knows(self, host: str) -> bool:
        """Whether the pages may be asked by that Host header."""
        if self.hosts is None:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return is_loopback(name) or name in {each.lower() for each in self.hosts}


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class Guard:
    """Refuses what `Access` does not allow, and gives each answer its headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(Request(scope))
        await (refused or self._app)(scope, receive, with_headers)

    def _refused(self, request: Request) -> Response | None:
        headers, path = request.headers, request.url.path
        if path != _HEALTH and not self._access.knows(headers.get("host", "")):
            line = "Host: not a name of these pages; --allow-host gives them one"
            return _refusal(path, line, 421)
        if not _is_of_same_origin(headers):
            return _refusal(path, "Origin: a page of another site may not ask", 403)
        if self._access.allows(request):
            return None
        is_person = "text/html" in headers.get("accept", "")
        if request.method == "GET" and is_person and _is_navigation(headers):
            asked = path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(address("/login", next=asked), 303)
        line = "a token is needed: Authorization: Bearer TOKEN, or log in"
        return _refusal(path, line, 401)


def _refusal(path: str, line: str, status: int) -> Response:
    more = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    if path.startswith("/api"):
        return JSONResponse({"error": line}, status, more)
    return PlainTextResponse(f"{line}\n", status, more)


def _is_of_same_origin(headers: Headers) -> bool:
    """Whether no page of another site asks. Links from elsewhere may open pages."""
    try:
        origin = urlsplit(headers.get("origin", f"//{headers.get('host')}"))
    except ValueError:
        return False
    if origin.netloc != headers.get("host", ""):
        return False
    site = headers.get("sec-fetch-site", "none")
    return site in {"none", "same-origin"} or _is_navigation(headers)


def _is_navigation(headers: Headers) -> bool:
    """Whether a page is opened, not asked by a script. Old browsers do not say."""
    return headers.get("sec-fetch-mode", "navigate") == "navigate"


def inside(next_: str) -> str:
    """Return an address of these pages: that one, or the first page if it leads elsewhere."""
    has_host = next_.startswith(("//", "/\\")) or "\\" in next_
    return next_ if next_.startswith("/") and not has_host else "/"

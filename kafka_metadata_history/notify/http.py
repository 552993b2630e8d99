"""Requests to receivers: verified TLS, no redirect, bounded answers, and errors without secrets."""

from __future__ import annotations

import ssl
from base64 import b64encode
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from jobs.configuration.notify import problem_of
from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.references import REFERENCE, resolve_secret
from metadata_source.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S: Final = 10.0
"""To connect, to send, and for each part of the answer."""
_MOST_BYTES: Final = 65_536
_SHOWN: Final = 200
_SHORT: Final = 3
"""So short a part of an address is no secret, and may be a part of any word."""
_LONGEST_WAIT_S: Final = 3_600.0
_MAY_BE_OVER: Final = {408, 425, 429}
"""Statuses of the receiver, of 400 to 499, that say nothing about the message."""


class SendError(KafkaMetadataHistoryError, RuntimeError):
    """A message that did not arrive, for all that is known. One line without secrets.

    `wait_s`: the receiver asks for so long a pause. `is_refused`: the receiver takes other messages
    maybe, and this one never.
    """

    def __init__(
        self, problem: str, wait_s: float | None = None, *, is_refused: bool = False
    ) -> None:
        super().__init__(problem)
        self.wait_s, self.is_refused = wait_s, is_refused


@dataclass(frozen=True)
class Address:
    """Where to send: a URL of http or https, headers that let in, and the secrets of its user."""

    url: str
    headers: Mapping[str, str]
    secrets: tuple[str, ...] = ()

    def below(self, path: str) -> Address:
        """Return the address of a path below this one."""
        parts = urlsplit(self.url)
        whole = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}{path}"))
        return replace(self, url=whole)


def secret_of(name: str, given: str) -> str:
    """Return what a key of the configuration stands for. Raises OptionsError for a reference that
    cannot be followed.
    """
    return resolve_secret(name, given) if REFERENCE.fullmatch(given) else given


def address_of(name: str, given: str) -> Address:
    """Return the address that a URL, or the reference to one, stands for: its user and password
    become a header. Raises SendError for what is no URL, OptionsError as above.
    """
    url = secret_of(name, given)
    if (problem := problem_of(url)) is not None:
        raise SendError(f"{name}: {problem}")
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if not user:
        return Address(url, {})
    basic = b64encode(unquote(user).encode()).decode()
    _, _, password = user.partition(":")
    secrets = tuple(filter(None, (basic, user, password, unquote(password))))
    return Address(
        urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {basic}"}, secrets
    )


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: a message that is posted would be lost on the way."""


def ask(
    to: Address,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    hidden: str = "",
) -> None:
    """Post a body, or get without one, and return if the answer is a status of 200 to 299. Raises
    SendError for all else. `hidden`: a secret of the body, which no error shows.
    """
    own = {"User-Agent": "kafka-metadata-history", **to.headers, **(headers or {})}
    request = Request(to.url, body, own)  # noqa: S310 - `address_of` has looked at the scheme
    opener = build_opener(_NoRedirect, HTTPSHandler(context=ssl.create_default_context()))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            answer.read(_MOST_BYTES)
    except HTTPError as error:
        with error:
            raise _refused(to, error, hidden) from None
    except URLError as error:
        raise SendError(_line(to, error.reason, hidden)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise SendError(_line(to, error, hidden)) from None


def _refused(to: Address, answer: HTTPError, hidden: str) -> SendError:
    if 300 <= answer.code < 400:
        return SendError("it redirects, which is not followed: give the URL that it leads to")
    try:
        text = answer.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, HTTPException):
        text = ""
    text = " ".join(text.split())
    line = _line(to, f"HTTP {answer.code}{f': {text}' if text else ''}", hidden)
    is_refused = 400 <= answer.code < 500 and answer.code not in _MAY_BE_OVER
    return SendError(line, _wait_s(answer.headers.get("Retry-After")), is_refused=is_refused)


def _wait_s(given: str | None) -> float | None:
    """Return how long Retry-After asks to wait: seconds, or until a date."""
    if given is None:
        return None
    if given.strip().isdecimal():
        return min(float(given), _LONGEST_WAIT_S)
    try:
        at = parsedate_to_datetime(given)
    except ValueError:
        return None
    seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_WAIT_S)


def _line(to: Address, error: object, hidden: str) -> str:
    """Return an error as a line without what may be secret: of an address, or of the body."""
    text = " ".join(str(error).split()) or type(error).__name__
    parts = urlsplit(to.url)
    for each in (to.url, parts.path.strip("/"), parts.query, hidden, *to.secrets):
        if len(each) > _SHORT:
            text = text.replace(each, "...")
    return printable(text)[:_SHOWN]

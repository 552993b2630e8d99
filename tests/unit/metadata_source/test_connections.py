"""Connections that are kept: one to an address, made with TLS settings that are read now and
then.
"""

import time
from types import SimpleNamespace

import pytest

from metadata_source import connections
from metadata_source.connections import Connections, Contexts
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.threads import side_by_side

ADDRESSES = [("host", port) for port in range(1, 31)]
SECURED = {"kafka.bootstrap.servers": "host:1", "kafka.security.protocol": "SSL"}


class Made:
    """The connections that were made, each with its TLS settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.contexts: list[object] = []
        self.closed: list[tuple[str, int]] = []
        self.read = 0
        monkeypatch.setattr(connections, "Connection", self._connect)
        monkeypatch.setattr(connections, "tls_context", self._read)

    def _connect(
        self,
        _cluster: object,
        address: tuple[str, int],
        _deadline: float,
        context: object,
        _loop: object,
    ) -> object:
        self.contexts.append(context)
        return SimpleNamespace(address=address, close=lambda: self.closed.append(address))

    def _read(self, _cluster: object) -> object:
        self.read += 1
        return f"settings {self.read}"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(connections, "CONTEXTS", Contexts())
    return Made(monkeypatch)


def kept_of(**more: str) -> Connections:
    return Connections(parse(SECURED | more).clusters[0])


@pytest.fixture
def kept() -> Connections:
    return kept_of()


def test_files_are_read_once_for_many_connections_and_again_later(
    kept: Connections, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    side_by_side(ADDRESSES, lambda address: kept.get(address, 0.0), "test")
    assert made.contexts == ["settings 1"] * len(ADDRESSES)
    now = time.monotonic()
    for later, settings in ((59, "settings 1"), (61, "settings 2")):
        monkeypatch.setattr(connections.time, "monotonic", lambda at=now + later: at)
        kept.get(("host", 1_000 + later), 0.0)
        assert made.contexts[-1] == settings


def test_clusters_of_the_same_files_and_credentials_share_them(made: Made) -> None:
    """And no others do. Bootstrap servers, users and aliases are nothing to TLS."""
    authority, certificate = (
        {"kafka.ssl.ca.location": "ca"},
        {"kafka.ssl.certificate.location": "c"},
    )
    differing = [
        {},
        {"kafka.ssl.endpoint.identification.algorithm": "none"},
        authority,
        certificate,
        certificate | {"kafka.ssl.key.location": "k"},
        certificate | {"kafka.ssl.key.password": "env:A"},
        certificate | {"kafka.ssl.key.password": "env:B"},
    ]
    same = {"cluster": "other", "kafka.client.id": "other", "maxResponseBytes": "9"}
    for more in differing:
        for each in (kept_of(**more), kept_of(**more | same)):
            each.get(("host", 1), 0.0)
    assert made.contexts == [f"settings {1 + n // 2}" for n in range(2 * len(differing))]
    plain = Connections(parse({"kafka.bootstrap.servers": "host:1"}).clusters[0])
    plain.get(("host", 1), 0.0)
    assert (made.contexts[-1], made.read) == (None, len(differing))


def test_a_kept_connection_that_turns_out_to_be_lost_is_made_once_more(
    kept: Connections, made: Made
) -> None:
    used: list[object] = []

    def call(connection: object) -> str:
        used.append(connection)
        if len(used) in failing:
            raise PollError(kind, "lost")
        return "answered"

    address = ADDRESSES[0]
    for kind, failing, calls, has_answered in (  # noqa: B007 - of `call`
        ("unreachable", {1}, 1, False),  # it was made for this call
        ("unreachable", {1}, 2, True),
        ("unreachable", {1, 2}, 2, False),
        ("timeout", {1}, 1, False),
    ):
        used.clear()
        if calls == 2 or kind == "timeout":
            kept.get(address, 0.0)
        if has_answered:
            assert kept.use(address, 0.0, call) == "answered"
        else:
            with pytest.raises(PollError, match="lost"):
                kept.use(address, 0.0, call)
        assert (len(used), len({id(each) for each in used})) == (calls, calls)
        kept.drop(address)


def test_files_that_cannot_be_used_are_read_again_at_once() -> None:
    kept = Connections(parse(SECURED | {"kafka.ssl.ca.location": "/nowhere/ca.pem"}).clusters[0])
    for _ in range(2):
        with pytest.raises(
            PollError, match=r"options: kafka.ssl.ca.location: /nowhere/ca.pem: no such file"
        ):
            kept.get(("host", 1), 0.0)
    assert ("host", 1) not in kept


def test_one_connection_to_an_address_until_it_is_dropped(kept: Connections, made: Made) -> None:
    first, second, third = ADDRESSES[:3]
    one = kept.get(first, 0.0)
    assert kept.get(first, 0.0) is kept._kept.get(first) is one
    for address in (second, third):
        kept.get(address, 0.0)
    kept.drop(first)
    kept.drop(first)
    assert (first in kept, kept._kept.get(first), made.closed) == (False, None, [first])
    assert kept.get(first, 0.0) is not one
    kept.close()
    assert sorted(made.closed) == [first, first, second, third]

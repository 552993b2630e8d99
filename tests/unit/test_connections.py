"""Connections that are kept: one to an address, made with TLS settings that are read now and then."""

from types import SimpleNamespace

import pytest

from metadata_source import connections
from metadata_source.connections import Connections
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

    def _connect(self, _cluster: object, address: tuple[str, int], _deadline: float, context: object) -> object:
        self.contexts.append(context)
        return SimpleNamespace(address=address, close=lambda: self.closed.append(address))

    def _read(self, _cluster: object) -> object:
        self.read += 1
        return f"settings {self.read}"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


@pytest.fixture
def kept() -> Connections:
    return Connections(parse(SECURED).clusters[0])


def test_files_are_read_once_for_many_connections_and_again_later(
    kept: Connections, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    side_by_side(ADDRESSES, lambda address: kept.get(address, 0.0), "test")
    assert made.contexts == ["settings 1"] * len(ADDRESSES)
    monkeypatch.setattr(connections.time, "monotonic", lambda until=kept._context_until: until)
    kept.get(("host", 99), 0.0)
    assert made.contexts[-1] == "settings 2"


def test_files_that_cannot_be_used_are_read_again_at_once() -> None:
    kept = Connections(parse(SECURED | {"kafka.ssl.ca.location": "/nowhere/ca.pem"}).clusters[0])
    for _ in range(2):
        with pytest.raises(PollError, match=r"options: kafka.ssl.ca.location: /nowhere/ca.pem: no such file"):
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

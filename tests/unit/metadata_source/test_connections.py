"""Connections that are kept, to brokers that speak bytes: one to an address, made with TLS settings
that are read now and then.
"""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from metadata_source import connections
from metadata_source.connections import Connections, Contexts
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.options.cluster import Cluster
from metadata_source.questions import reassignments
from metadata_source.threads import side_by_side
from metadata_source.transport import Connection
from tests.support.byte_cluster import ByteCluster
from tests.support.waiting import eventually

SECURED = {"kafka.bootstrap.servers": "host:1", "kafka.security.protocol": "SSL"}
REASSIGNMENTS = "ListPartitionReassignmentsRequest"


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with ByteCluster(2, orders=[(5, (0, 1))], payments=[(3, (1, 0))]) as found:
        yield found


@pytest.fixture
def kept(brokers: ByteCluster) -> Iterator[Connections]:
    options = {"kafka.bootstrap.servers": brokers.servers()}
    with closing(Connections(parse(options).clusters[0])) as found:
        yield found


def later(seconds: float = 60) -> float:
    return time.monotonic() + seconds


def ask(connection: Connection) -> None:
    reassignments().ask(connection, later(1.5))


def made(brokers: ByteCluster) -> list[int]:
    """How many connections each broker has had."""
    return [each.connections for each in brokers.brokers]


def test_one_connection_to_an_address_until_it_is_dropped(brokers, kept):
    first, second = brokers.places
    one = kept.get(first, later())
    assert kept.get(first, later()) is one
    kept.get(second, later())
    assert (made(brokers), first in kept) == ([1, 1], True)
    kept.drop(first)
    kept.drop(first)
    eventually(lambda: not brokers.brokers[0].open, "the end")
    assert (first in kept, second in kept, len(brokers.brokers[1].open)) == (False, True, 1)
    assert kept.get(first, later()) is not one
    kept.close()
    eventually(lambda: not any(each.open for each in brokers.brokers), "the end")
    assert made(brokers) == [2, 1]


def test_a_kept_connection_that_turns_out_to_be_lost_is_made_once_more(brokers, kept):
    kept.use(brokers.places[0], later(), ask)
    brokers.hang_up(0)
    kept.use(brokers.places[0], later(), ask)
    assert made(brokers) == [2, 0]
    brokers.stop(0)
    with pytest.raises(PollError, match="unreachable"):
        kept.use(brokers.places[0], later(), ask)
    assert made(brokers) == [2, 0]


def test_one_that_was_made_for_the_call_is_not_made_once_more(brokers, kept):
    calls = []

    def lost(connection: Connection) -> None:
        calls.append(connection)
        brokers.hang_up(0)
        ask(connection)

    with pytest.raises(PollError, match="unreachable"):
        kept.use(brokers.places[0], later(), lost)
    assert (len(calls), made(brokers)) == (1, [1, 0])


def test_one_that_gets_no_answer_is_not_asked_once_more(brokers, kept):
    kept.use(brokers.places[0], later(), ask)
    brokers.brokers[0].hangs_on = frozenset({REASSIGNMENTS})
    with pytest.raises(PollError, match="timeout"):
        kept.use(brokers.places[0], later(), ask)
    assert made(brokers) == [1, 0]
    assert len([each for each in brokers.asked if each.request == REASSIGNMENTS]) == 2


# --- TLS settings ---


def cluster(**more: str) -> Cluster:
    return parse(SECURED | more).clusters[0]


def test_files_are_read_once_for_many_connections_and_again_later(monkeypatch):
    contexts, secured = Contexts(), cluster()
    (first,) = set(side_by_side(range(30), lambda _: contexts.of(secured), "test"))
    now = time.monotonic()
    for after_s, is_first in ((58, True), (61, False)):
        monkeypatch.setattr(connections.time, "monotonic", lambda at=now + after_s: at)
        assert (contexts.of(secured) is first) is is_first


def test_clusters_of_the_same_files_and_credentials_share_them(monkeypatch):
    """And no others do. Bootstrap servers, users and aliases are nothing to TLS."""
    monkeypatch.setattr(connections, "tls_context", lambda _: object())
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
    contexts = Contexts()
    found = [contexts.of(cluster(**more)) for more in differing]
    assert len(set(found)) == len(differing)
    assert [contexts.of(cluster(**more | same)) for more in differing] == found
    plain = parse({"kafka.bootstrap.servers": "host:1"}).clusters[0]
    assert contexts.of(plain) is None


def test_files_that_cannot_be_used_are_read_again_at_once(tmp_path):
    authority = tmp_path / "ca.pem"
    kept = Connections(cluster(**{"kafka.ssl.ca.location": str(authority)}))
    for said in ("no such file", "no certificate or crl found"):
        with pytest.raises(
            PollError, match=rf"options: kafka.ssl.ca.location: {authority}: {said}"
        ):
            kept.get(("host", 1), later())
        authority.write_text("no certificate")
    assert ("host", 1) not in kept

"""Finalized levels and software as of each poll, from something that listens and answers like a
broker.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.transport import Connection

METADATA, API_VERSIONS = 3, 18
ANSWER, REFUSED = b"an answer", -1


class Peer:
    """`levels`: of metadata.version, as it tells them by and by, the last one for ever. `asked`:
    keys of requests, in order. `newest`: of ApiVersions.
    """

    def __init__(self, *levels: int | None, newest: int = 4) -> None:
        self._levels, self._newest = list(levels), newest
        self.asked: list[int] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[Connection]:
        """A connection to it."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=self._serve, args=(server,))
            thread.start()
            host, port = server.getsockname()
            cluster = parse({"kafka.bootstrap.servers": f"{host}:{port}"}).clusters[0]
            connection = Connection(cluster, (host, port), time.monotonic() + 10)
            self.asked.clear()  # What it takes to connect.
            try:
                yield connection
            finally:
                connection.close()
                thread.join()

    def _serve(self, server: socket.socket) -> None:
        client, _ = server.accept()
        with client, contextlib.suppress(ConnectionError):
            while len(head := client.recv(4, socket.MSG_WAITALL)) == 4:
                request = client.recv(int.from_bytes(head), socket.MSG_WAITALL)
                key, version, correlation_id = struct.unpack_from(">hhi", request)
                self.asked.append(key)
                body = self._versions(version) if key == API_VERSIONS else ANSWER
                client.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)

    def _versions(self, version: int) -> bytes:
        keys = {METADATA: 12, API_VERSIONS: self._newest}
        one = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=0, max_version=last)
            for key, last in keys.items()
        ]
        # Errors in version 0, as Kafka tells them.
        if version > self._newest:
            return bytes(
                ApiVersionsResponse(version=0, error_code=35, api_keys=one).encode(version=0)
            )
        # Twice while a connection is made.
        level = self._levels.pop(0) if len(self._levels) > 1 else self._levels[0]
        if level == REFUSED:
            return bytes(
                ApiVersionsResponse(version=0, error_code=42, api_keys=one).encode(version=0)
            )
        name = "metadata.version"
        finalized = [
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
        ]
        supported = [
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=1, max_version=29)
        ]
        told = ApiVersionsResponse(
            version=version,
            error_code=0,
            api_keys=one,
            throttle_time_ms=0,
            supported_features=supported,
            finalized_features_epoch=-1 if level is None else 7,
            finalized_features=[] if level is None else finalized,
        )
        return bytes(told.encode(version=version))


def ask(connection: Connection, *, with_features: bool = True) -> bytes:
    until = time.monotonic() + 10
    return connection.request(
        METADATA, 8, b"", flexible=False, deadline=until, with_features=with_features
    ).body


def test_levels_are_as_of_each_request_that_asks_for_them() -> None:
    peer = Peer(25, 25, 25, 30)
    with peer.listening() as connection:
        assert (connection.features, connection.supported_features) == (
            {"metadata.version": 25},
            {"metadata.version": 29},
        )
        levels = [(ask(connection), connection.features) for _ in range(2)]
        assert levels == [(ANSWER, {"metadata.version": 25}), (ANSWER, {"metadata.version": 30})]
        # Before the answer, so that no level is later than it.
        assert peer.asked == [API_VERSIONS, METADATA] * 2
        ask(connection, with_features=False)
        assert peer.asked[4:] == [METADATA]


def test_a_broker_that_tells_no_features_is_not_asked_for_them() -> None:
    peer = Peer(None, newest=2)
    with peer.listening() as connection:
        assert (ask(connection), connection.features, connection.supported_features) == (
            ANSWER,
            None,
            {},
        )
    assert peer.asked == [METADATA]


def test_a_broker_with_zookeeper_has_finalized_nothing() -> None:
    """It tells features, and no epoch of finalized ones."""
    with Peer(None).listening() as connection:
        assert connection.features is None
        assert connection.supported_features == {"metadata.version": 29}


def test_features_that_a_broker_refuses_to_tell_are_an_error_of_the_request() -> None:
    with Peer(25, 25, REFUSED).listening() as connection, pytest.raises(PollError) as caught:
        ask(connection)
    assert caught.value.kind == "broker_error", caught.value.problem

"""Brokers or controllers that listen on this machine and speak Kafka's protocol, in bytes."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest

from tests.support.messages import REQUESTS

API_VERSIONS, METADATA = 18, MetadataRequest.API_KEY
_NEWEST = 4
"""Of ApiVersions."""


@dataclass
class Listening:
    """Nodes, each with a port of its own, while the context is open. A connection's requests are
    answered in their order, as brokers do; so an answer may take its time.

    `versions`: of each request, by its key, the first and last of a node. `answer`: the body of an
    answer to a node's request (key, version, body); None closes the connection.
    """

    nodes: tuple[int, ...]
    versions: Callable[[int], Mapping[int, tuple[int, int]]]
    answer: Callable[[int, int, int, bytes], bytes | None]
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Host and port of each node."""
    asked: list[tuple[float, int, int]] = field(default_factory=list)
    """When (`time.monotonic`), which node, and the key of the request."""
    connected: list[int] = field(default_factory=list)
    """The nodes of connections, in the order in which they were made."""
    _listeners: dict[int, socket.socket] = field(default_factory=dict)
    _clients: dict[int, list[socket.socket]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        for node in self.nodes:
            self.listen(node)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            self.kill(node)

    @property
    def servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.places.values())

    def keys(self, since: float = 0.0) -> list[int]:
        """The requests since a time, but for those that connect."""
        return [key for at, _, key in list(self.asked) if at >= since and key != API_VERSIONS]

    def listen(self, node: int) -> None:
        server = socket.create_server(self.places.get(node, ("127.0.0.1", 0)))
        self.places[node], self._listeners[node] = server.getsockname(), server
        threading.Thread(target=self._accept, args=(node, server), daemon=True).start()

    def kill(self, node: int) -> None:
        """Close what a node has; nothing listens there any more."""
        listener = self._listeners.pop(node, None)
        if listener is not None:
            # A thread that waits in it would hold it open.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.hang_up(node)

    def hang_up(self, node: int) -> None:
        """Close a node's connections, as brokers do over which nothing came for a while."""
        for each in self._clients.pop(node, []):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self, node: int, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                self.connected.append(node)
                self._clients.setdefault(node, []).append(client)
                threading.Thread(target=self._serve, args=(node, client), daemon=True).start()

    def _serve(self, node: int, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while len(head := client.recv(4, socket.MSG_WAITALL)) == 4:
                request = client.recv(int.from_bytes(head), socket.MSG_WAITALL)
                key, version, correlation_id, name_size = struct.unpack_from(">hhih", request)
                self.asked.append((time.monotonic(), node, key))
                is_flexible = key != API_VERSIONS and _message(key).flexible_version_q(version)
                at = 10 + max(0, name_size) + (1 if is_flexible else 0)
                body = (
                    self._versions(node, version)
                    if key == API_VERSIONS
                    else self.answer(node, key, version, request[at:])
                )
                if body is None:
                    return
                header = struct.pack(">i", correlation_id) + (b"\0" if is_flexible else b"")
                client.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def _versions(self, node: int, version: int) -> bytes:
        keys = {API_VERSIONS: (0, _NEWEST), **self.versions(node)}
        one = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in keys.items()
        ]
        response = ApiVersionsResponse(
            version=version, error_code=0, api_keys=one, throttle_time_ms=0
        )
        return bytes(response.encode(version=version))


def _message(key: int) -> Any:
    return MetadataRequest if key == METADATA else REQUESTS[key]

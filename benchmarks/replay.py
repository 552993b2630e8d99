"""A process that answers ApiVersions and Metadata requests with bytes that were made before: a
broker without its work.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafka.protocol.metadata import ApiVersionsResponse

from benchmarks.bodies import metadata_response
from benchmarks.process import in_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

METADATA: Final = 3
API_VERSIONS: Final = 18
VERSION: Final = 12
"""The one version of Metadata that is answered, the highest that all of the clients have."""


@contextmanager
def replayed(topics: int, partitions: int) -> Iterator[tuple[str, int]]:
    """Give the address of a process that answers with a cluster of so many topics, and end it."""
    with in_process(_serve, topics, partitions) as address:
        yield address


def _serve(parent: Connection, topics: int, partitions: int) -> None:
    """Answer until the other end of the pipe is closed, however its process ended."""

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128  # a task's clusters connect at once
        bodies: dict[int, bytes]

    with Server(("127.0.0.1", 0), _Answers) as server:
        host, port = server.server_address[:2]
        server.bodies = {
            METADATA: metadata_response(
                VERSION, topics, partitions, addresses=[(str(host), int(port))]
            ),
            **{API_VERSIONS | version << 16: _api_versions(version) for version in range(5)},
        }
        threading.Thread(target=server.serve_forever, daemon=True).start()
        parent.send((host, port))
        try:
            parent.recv()
        except EOFError:
            server.shutdown()


class _Answers(socketserver.BaseRequestHandler):
    """One connection: each request gets the recorded body under its own correlation id."""

    def handle(self) -> None:
        """Answer until the client hangs up."""
        while head := self._read(4):
            request = self._read(*struct.unpack(">i", head))
            api_key, version, correlation_id = struct.unpack_from(">hhi", request)
            if api_key == API_VERSIONS:
                # Its header has no tags in any version.
                header, body = b"", self.server.bodies[API_VERSIONS | version << 16]
            elif (api_key, version) == (METADATA, VERSION):
                header, body = b"\0", self.server.bodies[METADATA]
            else:
                return
            size = 4 + len(header) + len(body)
            self.request.sendall(struct.pack(">ii", size, correlation_id) + header + body)

    def _read(self, size: int) -> bytes:
        """Return `size` bytes; fewer, none as a rule, once the client hung up."""
        data = b""
        while len(data) < size and (piece := self.request.recv(size - len(data))):
            data += piece
        return data


def _api_versions(version: int) -> bytes:
    Key = ApiVersionsResponse.ApiVersion  # noqa: N806 - a class
    keys = [
        Key(api_key=METADATA, min_version=VERSION, max_version=VERSION),
        Key(api_key=API_VERSIONS, min_version=0, max_version=4),
    ]
    return bytes(
        ApiVersionsResponse(
            version=version, error_code=0, api_keys=keys, throttle_time_ms=0
        ).encode(version=version)
    )

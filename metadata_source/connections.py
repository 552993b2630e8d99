"""Connections to the brokers of one cluster, kept for whoever asks next."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from metadata_source.transport import Address, Connection, tls_context

if TYPE_CHECKING:
    import ssl

    from metadata_source.options import Cluster

_CONTEXT_S: Final = 60.0
"""How long connections are made with the same TLS settings: then the files are read again, since certificates are
renewed.
"""


class Connections:
    """At most one connection to each address, made when it is first asked for.

    Threads may use those of different addresses at once. A kept connection authenticates again as `Connection` does.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kept: dict[Address, Connection] = {}
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._context_until = 0.0

    def __contains__(self, address: object) -> bool:
        return address in self._kept

    def get(self, address: Address, deadline: float) -> Connection:
        """Return the connection to an address; make it by `deadline` (of `time.monotonic`) if there is none. Raises
        PollError.
        """
        connection = self._kept.get(address)
        if connection is None:
            connection = self._kept[address] = Connection(self._cluster, address, deadline, self._tls())
        return connection

    def drop(self, address: Address) -> None:
        """Close the connection to an address, if there is one."""
        connection = self._kept.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections. More can be made afterwards."""
        for address in list(self._kept):
            self.drop(address)

    def _tls(self) -> ssl.SSLContext | None:
        """Return the TLS settings. Reading the authorities of the system takes as long as a handshake."""
        with self._lock:
            if time.monotonic() >= self._context_until:
                self._context = tls_context(self._cluster)
                self._context_until = time.monotonic() + _CONTEXT_S
            return self._context

"""Connections to the brokers of one cluster, kept for whoever asks next."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeVar

from metadata_source.errors import PollError
from metadata_source.tls import tls_context
from metadata_source.transport import Connection, Loop

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from metadata_source.addresses import Address
    from metadata_source.options import Cluster

T = TypeVar("T")
_CONTEXT_S: Final = 60.0
"""How long connections are made with the same TLS settings: then the files are read again, since
certificates are renewed.
"""


class Connections:
    """At most one connection to each address, made when it is first asked for.

    Threads may use those of different addresses at once. A kept connection authenticates again as
    `Connection` does.
    """

    def __init__(self, cluster: Cluster, loop: Loop | None = None) -> None:
        """Make none yet. `loop`: one that they share (`Connection`)."""
        self._cluster, self._loop = cluster, loop
        self._kept: dict[Address, Connection] = {}

    def __contains__(self, address: object) -> bool:
        return address in self._kept

    def get(self, address: Address, deadline: float) -> Connection:
        """Return the connection to an address; make it by `deadline` (of `time.monotonic`) if there
        is none. Raises PollError.
        """
        connection = self._kept.get(address)
        if connection is None:
            context = CONTEXTS.of(self._cluster)
            connection = self._kept[address] = Connection(
                self._cluster, address, deadline, context, self._loop
            )
        return connection

    def use(self, address: Address, deadline: float, call: Callable[[Connection], T]) -> T:
        """Return what `call` makes of the connection to an address. Raises PollError.

        Brokers close connections over which nothing came for a while (connections.max.idle.ms):
        where a kept one turns out to be lost, the call is made once more, over another one.
        """
        is_kept = address in self
        try:
            return call(self.get(address, deadline))
        except PollError as error:
            if not is_kept or error.kind != "unreachable":
                raise
        self.drop(address)
        return call(self.get(address, deadline))

    def drop(self, address: Address) -> None:
        """Close the connection to an address, if there is one."""
        connection = self._kept.pop(address, None)
        if connection is not None:
            connection.close()

    def interrupt(self) -> None:
        """End the requests that are under way, from another thread: they fail."""
        for connection in list(self._kept.values()):
            connection.interrupt()

    def close(self) -> None:
        """Close all connections. More can be made afterwards."""
        for address in list(self._kept):
            self.drop(address)


class Contexts:
    """TLS settings, shared by clusters that have the same files and credentials. Of any thread.

    Reading the authorities of the system takes as long as a handshake, and a thousand clusters
    would read them a thousand times.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: defaultdict[object, threading.Lock] = defaultdict(threading.Lock)
        self._made: dict[object, tuple[ssl.SSLContext, float]] = {}

    def of(self, cluster: Cluster) -> ssl.SSLContext | None:
        """Return the TLS settings of a cluster, at most a minute old; None if it has no TLS. Raises
        PollError for files that cannot be used.
        """
        if not cluster.tls:
            return None
        settings = (
            cluster.ssl_ca_location,
            cluster.ssl_certificate_location,
            cluster.ssl_key_location,
            cluster.ssl_key_password,
            cluster.ssl_check_hostname,
        )
        with self._lock:
            lock = self._locks[settings]
        with lock:
            context, until = self._made.get(settings, (None, 0.0))
            if context is None or time.monotonic() >= until:
                made = tls_context(cluster)
                assert made is not None  # noqa: S101 - it has TLS
                self._made[settings] = made, time.monotonic() + _CONTEXT_S
                return made
            return context


CONTEXTS: Final = Contexts()
"""This process's."""

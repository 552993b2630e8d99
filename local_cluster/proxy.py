"""The way from a broker to the controllers, which can be cut: a TCP proxy in this process."""

import contextlib
import socket
import threading
from collections.abc import Iterable
from typing import Final

from local_cluster.ports import HOST

_CHUNK: Final = 1 << 16


class Link:
    """The way from one broker to all controllers: a proxy to the port of each."""

    def __init__(self, address: str, ports: Iterable[int]) -> None:
        self._proxies = [Proxy(address, port) for port in ports]

    @property
    def is_cut(self) -> bool:
        """Whether the broker cannot reach a controller."""
        return any(proxy.is_cut for proxy in self._proxies)

    def cut(self) -> None:
        """Close all connections, and each that comes."""
        for proxy in self._proxies:
            proxy.cut()

    def mend(self) -> None:
        """Forward new connections again."""
        for proxy in self._proxies:
            proxy.mend()

    def close(self) -> None:
        """Cut, for good."""
        for proxy in self._proxies:
            proxy.close()


class Proxy:
    """Forwards connections from another address of this machine to the same port, until it is cut;
    then it closes those that there are, and each new one at once.
    """

    def __init__(self, address: str, port: int) -> None:
        self._port = port
        self.is_cut = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((address, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and each that comes."""
        with self._lock:
            self.is_cut = True
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Forward new connections again."""
        with self._lock:
            self.is_cut = False

    def close(self) -> None:
        """Cut, for good."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                self._forward(self._listener.accept()[0])

    def _forward(self, near: socket.socket) -> None:
        with self._lock:
            try:
                if self.is_cut:
                    raise ConnectionAbortedError
                far = socket.create_connection((HOST, self._port))
            except OSError:
                near.close()
                return
            self._open |= {near, far}
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()

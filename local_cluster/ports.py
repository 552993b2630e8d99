"""Free ports of this machine."""

import random
import socket
from types import TracebackType
from typing import Self

from local_cluster.errors import LocalClusterError

HOST = "127.0.0.1"

# Below the range that Linux and macOS give to outgoing connections (32768 and 49152 upwards): a
# client's connection must never sit on the port of a broker that is down for a while.
PORTS = range(15_000, 32_000)


class ReservedPorts:
    """Free ports, bound until the block ends, so that no other process gets them meanwhile."""

    def __init__(self, count: int) -> None:
        self.numbers: list[int] = []
        self._held: list[socket.socket] = []
        for port in random.sample(PORTS, len(PORTS)):
            if len(self.numbers) == count:
                return
            self._try(port)
        self.release()
        raise LocalClusterError(
            f"fewer than {count} free ports on {HOST} in {PORTS.start}-{PORTS.stop - 1}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let go of all ports: now is the moment to listen on them."""
        for held in self._held:
            held.close()
        self._held.clear()

    def _try(self, port: int) -> None:
        candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            candidate.bind((HOST, port))
        except OSError:
            candidate.close()
        else:
            self.numbers.append(port)
            self._held.append(candidate)

"""Sockets to a host: its name looked up, and connected to, by a deadline."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from metadata_source.broker_errors import unreached
from metadata_source.waiting import TooLateError, by_deadline

if TYPE_CHECKING:
    from metadata_source.addresses import Address


def look_up(address: Address, deadline: float) -> list[str]:
    """Return the IP addresses of a host. Raises PollError."""

    def ips() -> list[str]:
        found = socket.getaddrinfo(address[0], None, type=socket.SOCK_STREAM)
        return [str(info[4][0]) for info in found]

    try:
        # The system's look-up takes no deadline.
        return by_deadline(ips, deadline, "look-up")
    except (TooLateError, OSError, ValueError) as failure:
        raise unreached(failure, address) from None


def open_socket(ip: str, address: Address, deadline: float) -> socket.socket:
    """Connect to one of the IP addresses of a host. Raises PollError."""
    try:
        sock = socket.create_connection((ip, address[1]), max(0.001, deadline - time.monotonic()))
    except OSError as failure:
        raise unreached(failure, address) from None
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock

"""Where a broker is: a host and a port."""

from __future__ import annotations

from typing import TypeAlias

Address: TypeAlias = tuple[str, int]


def format_address(address: Address) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

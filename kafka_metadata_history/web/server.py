"""The server of the pages: uvicorn, which ends though pages are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

from kafka_metadata_history.web.app import application

if TYPE_CHECKING:
    import socket

    from kafka_metadata_history.web.app import Pages

_GRACE_S = 5
"""So long requests that have begun may take after a signal."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self._pages = pages

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Open pages wait for changes in an answer that has no end of its own.
        self._pages.end()
        await super().shutdown(sockets)


def run(pages: Pages, listening: socket.socket, tls: tuple[str, str] | None) -> None:
    """Serve until a signal comes. `tls`: files with a certificate and its key."""
    cert, key = tls or (None, None)
    config = uvicorn.Config(
        application(pages),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
    _Server(config, pages).run(sockets=[listening])

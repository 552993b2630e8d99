"""A proxy before a store. It counts requests, and fails them or loses their answers as often as a
test says.
"""

import http.client
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

_OWN_OF_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "date"}


class FailingStore:
    """A store at `address`, which fails as these say. `share`: of requests that are answered with
    `status` and the error `code`, and not passed on; `lost`: of those that the store does, and
    whose answer does not come. `seen`: requests that came, by HTTP's method, listings as LIST.
    """

    def __init__(self, store: str) -> None:
        self.share = self.lost = 0.0
        self.status, self.code = 503, "SlowDown"
        self.seen: Counter[str] = Counter()
        self.failed = 0
        self._random, self._lock = random.Random(46), Lock()
        self._store, self._port = urlsplit(store).netloc, 0
        self._server: ThreadingHTTPServer | None = None
        self.begin()

    @property
    def address(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self._port}"

    def begin(self) -> None:
        """Listen, at the same port as before."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def handle_one_request(self) -> None:
                with suppress(ConnectionError):
                    super().handle_one_request()

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.answer(self)

            do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 - names of http.server

        class Server(ThreadingHTTPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def end(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, asked: Any) -> None:
        """Answer one request."""
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        is_list = asked.command == "GET" and "list-type" in asked.path
        with self._lock:
            self.seen["LIST" if is_list else asked.command] += 1
            drawn = self._random.random()
        if self._server is None:
            asked.close_connection = True
            return
        if drawn < self.share:
            self.failed += 1
            status, headers, answer = self.status, [], _error(self.code)
        else:
            status, headers, answer = self._passed_on(asked, body)
            if drawn >= 1 - self.lost:
                self.failed += 1
                asked.close_connection = True
                return
        asked.send_response(status)
        for name, value in headers:
            asked.send_header(name, value)
        if asked.command != "HEAD":
            asked.send_header("Content-Length", str(len(answer)))
        asked.end_headers()
        if asked.command != "HEAD":
            asked.wfile.write(answer)

    def _passed_on(self, asked: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._store, timeout=60)
        try:
            headers = {
                name: value for name, value in asked.headers.items() if name.lower() != "expect"
            }
            connection.request(asked.command, asked.path, body, headers)
            found = connection.getresponse()
            is_head = asked.command == "HEAD"
            kept = [
                (name, value)
                for name, value in found.getheaders()
                if name.lower() not in _OWN_OF_A_CONNECTION
                or (is_head and name.lower() == "content-length")
            ]
            return found.status, kept, found.read()
        finally:
            connection.close()


def _error(code: str) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
        f"<Message>{code} of the test</Message><RequestId>r</RequestId></Error>"
    ).encode()


@contextmanager
def failing(store: str) -> Iterator[FailingStore]:
    """A store that fails on demand."""
    found = FailingStore(store)
    try:
        yield found
    finally:
        found.end()

"""A receiver of messages by HTTP, in threads of this process, which fails as it is told to."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Answer:
    """An answer. `hangs`: it never comes, until the receiver ends."""

    status: int = 202
    headers: dict[str, str] = field(default_factory=dict)
    text: str = "{}"
    hangs: bool = False


@dataclass(frozen=True)
class Got:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class HttpReceiver:
    """`answers`: to the requests to come, the last one to all after them, too."""

    url: str
    answers: list[Answer] = field(default_factory=lambda: [Answer()])
    got: list[Got] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def bodies(self) -> list[Any]:
        return [each.body for each in list(self.got)]

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiving(keystore: Path | None = None) -> Iterator[HttpReceiver]:
    """Listen on a port of 127.0.0.1 while the context is open, with TLS for localhost where there
    is a keystore (PEM).
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            receiver.got.append(
                Got(
                    self.command,
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    json.loads(body) if body else None,
                )
            )
            answer = receiver.next_answer()
            if answer.hangs:
                receiver.ended.wait()
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.text)))
            self.end_headers()
            self.wfile.write(answer.text.encode())

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme, host = "http", "127.0.0.1"
        if keystore is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(keystore)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme, host = "https", "localhost"
        server.handle_error = lambda *_: None  # clients hang up
        receiver = HttpReceiver(f"{scheme}://{host}:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.ended.set()
            server.shutdown()
            thread.join()

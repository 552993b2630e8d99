"""A mail server (RFC 5321, as little as a client needs) in threads of this process."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class SmtpReceiver:
    """`mails`: what was taken. `refuses`: whether it takes none."""

    port: int
    mails: list[EmailMessage] = field(default_factory=list)
    refuses: bool = False


@contextmanager
def mail_server() -> Iterator[SmtpReceiver]:
    """Listen on a port of 127.0.0.1 while the context is open."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 localhost")
            for line in self.rfile:
                match line.split()[0].upper():
                    case b"DATA":
                        self._say("354 go on")
                        self._take()
                    case b"RCPT" if receiver.refuses:
                        self._say("550 no such mailbox")
                    case b"QUIT":
                        self._say("221 bye")
                        return
                    case _:
                        self._say("250 ok")

        def _take(self) -> None:
            lines = []
            while (line := self.rfile.readline()) not in {b".\r\n", b""}:
                lines.append(line)
            mail = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(mail, EmailMessage)
            receiver.mails.append(mail)
            self._say("250 taken")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        receiver = SmtpReceiver(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()

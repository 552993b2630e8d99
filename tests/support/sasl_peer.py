"""Something that listens and answers like a broker up to SASL, and there as a test says."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

Answer = tuple[int, str | None, bytes]
"""Of SaslAuthenticate: error code, error message, bytes for the client."""
SaslStep = Callable[[bytes], Answer]

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36


@contextlib.contextmanager
def sasl_peer(mechanism: str, *steps: SaslStep) -> Iterator[str]:
    """Yield the address. `steps` answer the client's tokens, one after the other; then the peer
    hangs up.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, mechanism, list(steps)))
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def _serve(server: socket.socket, mechanism: str, steps: list[SaslStep]) -> None:
    client, _ = server.accept()
    with client, contextlib.suppress(ConnectionError):
        while (frame := _frame(client)) is not None:
            key, version, correlation_id, name = struct.unpack_from(">hhih", frame)
            body = frame[10 + max(name, 0) :]
            if key == _API_VERSIONS:
                _answer(client, correlation_id, _api_versions(version))
            elif key == _HANDSHAKE:
                _answer(client, correlation_id, struct.pack(">hi", 0, 1) + _string(mechanism))
            elif key == _AUTHENTICATE and steps:
                error, message, token = steps.pop(0)(body[4:])
                text = b"\xff\xff" if message is None else _string(message)
                body = struct.pack(">h", error) + text + struct.pack(">i", len(token)) + token
                _answer(client, correlation_id, body + bytes(8 if version else 0))
            else:
                return


def _frame(client: socket.socket) -> bytes | None:
    head = client.recv(4, socket.MSG_WAITALL)
    return client.recv(int.from_bytes(head), socket.MSG_WAITALL) if len(head) == 4 else None


def _answer(client: socket.socket, correlation_id: int, body: bytes) -> None:
    client.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)


def _api_versions(version: int) -> bytes:
    keys = {3: 9, _HANDSHAKE: 1, _API_VERSIONS: 3, _AUTHENTICATE: 1}
    rows = [struct.pack(">hhh", key, 0, last) for key, last in keys.items()]
    if version < 3:
        return struct.pack(">hi", 0, len(rows)) + b"".join(rows) + (bytes(4) if version else b"")
    return struct.pack(">hB", 0, len(rows) + 1) + b"".join(row + b"\0" for row in rows) + bytes(5)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()

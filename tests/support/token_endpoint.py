"""An OAuth token endpoint (RFC 6749, client credentials) that signs what a broker's JWKS validator
accepts.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

AUDIENCE = "kafka-of-the-tests"
ISSUER = "https://tokens-of-the-tests"


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Signer:
    """One key: what a broker is given of it, and the tokens (JWT, RS256) that it signs."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "kid": "1",
            "alg": "RS256",
            "use": "sig",
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }
        return json.dumps({"keys": [key]})

    def token(self, subject: str, lifetime_s: float, **claims: object) -> str:
        now = time.time()
        header = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        body = {
            "sub": subject,
            "aud": AUDIENCE,
            "iss": ISSUER,
            "iat": int(now),
            "exp": int(now + lifetime_s),
            **claims,
        }
        signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, body))
        return f"{signed}.{base64url(self._key.sign(signed.encode(), PKCS1v15(), hashes.SHA256()))}"


@dataclass
class TokenEndpoint:
    """What it answers, which a test may change, and what it was asked."""

    url: str
    signer: Signer
    clients: dict[str, str]
    lifetime_s: float = 600
    answer: tuple[int, bytes] | None = None
    """Status and body in place of a token."""
    location: str | None = None
    """Where a redirect leads."""
    followed: list[str] = field(default_factory=list)
    """The paths that were asked for by a redirect."""
    pause_s: float = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)

    def respond(self, authorization: str, form: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append(form)
        time.sleep(self.pause_s)
        if self.answer is not None:
            return self.answer
        name, _, secret = (
            base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        )
        if self.clients.get(name) != secret:
            # As careless as endpoints are: what was sent comes back.
            problem = {
                "error": "invalid_client",
                "error_description": f"Invalid client\nor credentials {secret}",
            }
            return 401, json.dumps(problem).encode()
        claims = {"scope": form["scope"]} if "scope" in form else {}
        token = self.signer.token(name, self.lifetime_s, **claims)
        self.given.append(token)
        return 200, json.dumps(
            {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
        ).encode()


@contextmanager
def token_endpoint(
    signer: Signer, clients: dict[str, str], keystore: Path | None = None
) -> Iterator[TokenEndpoint]:
    """One that listens, with TLS for localhost where there is a `keystore` (PEM)."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: value for name, (value,) in parse_qs(body).items()}
            status, answer = endpoint.respond(self.headers["Authorization"], form)
            self.send_response(status)
            if endpoint.location is not None:
                self.send_header("Location", endpoint.location)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            endpoint.followed.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if keystore is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keystore)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        scheme = "https"
    endpoint = TokenEndpoint(
        f"{scheme}://localhost:{server.server_address[1]}/token", signer, clients
    )
    server.handle_error = lambda *_: None  # clients hang up
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

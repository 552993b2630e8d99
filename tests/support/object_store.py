"""A server of S3's protocol on this machine, of moto, in a process of its own; a lake in it.

`python -m tests.support.object_store [MS]` serves on a free port, which it prints; each request
takes MS milliseconds more, as on a network.
"""

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Lock
from typing import Any
from urllib.request import urlopen

import boto3

BUCKET = "lakes"
KEY = "AKIDOFTHETEST"
SECRET = "of-the-test"  # noqa: S105 - the server takes any
REFUSED = {
    "EXPIRED": (400, "ExpiredToken"),
    "SKEWED": (403, "RequestTimeTooSkewed"),
    "UNKNOWN": (403, "InvalidAccessKeyId"),
    "MAYNOTLIST": (403, "AccessDenied"),
    "MAYNOTREAD": (403, "AccessDenied"),
}
"""Keys, in place of KEY, of which moto knows nothing: status and code that Amazon's S3 gives."""
_COUNTS = "/-/requests"
"""An address of the server's own: how many requests came since it was last asked."""


def main() -> None:
    """Serve until this process is ended."""
    from moto.server import (
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # A client of a store keeps its connections.
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    moto = DomainDispatcherApplication(create_backend_app)
    alone = Lock()
    latency = float(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0.0
    seen: Counter[str] = Counter()

    def app(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == _COUNTS:
            counted = json.dumps(seen).encode()
            seen.clear()
            start_response("200 OK", [("Content-Length", str(len(counted)))])
            return [counted]
        time.sleep(latency)
        # moto looks whether an object is there, and writes it then: another put may come between.
        with alone:
            is_list = environ["REQUEST_METHOD"] == "GET" and "list-type" in environ["QUERY_STRING"]
            seen["LIST" if is_list else environ["REQUEST_METHOD"]] += 1
            key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split("/")[0]
            if key in REFUSED and key != ("MAYNOTREAD" if is_list else "MAYNOTLIST"):
                status, code = REFUSED[key]
                error = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
                start_response(f"{status} {code}", [("Content-Length", str(len(error)))])
                return [error]
            return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def object_store(latency_ms: float = 0) -> Iterator[str]:
    """The address of a server with an empty bucket. `latency_ms`: of each request."""
    module = ["-m", "tests.support.object_store", f"{latency_ms:g}"]
    with Popen([sys.executable, "-W", "ignore", *module], stdout=PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            client(address).create_bucket(Bucket=BUCKET)
            yield address
        finally:
            server.kill()


def requests_of(address: str) -> Counter[str]:
    """How many requests came since this was last asked: LIST, and HTTP's methods."""
    with urlopen(f"{address}{_COUNTS}") as answer:  # noqa: S310 - a server of this test
        return Counter(json.load(answer))


def client(address: str) -> Any:
    """A client of Amazon's own."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=address,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )


def put(address: str, folder: Path, prefix: str) -> None:
    """Put all files of a folder below a prefix of the bucket."""
    of = client(address)
    for file in folder.rglob("*"):
        if file.is_file():
            of.upload_file(str(file), BUCKET, f"{prefix}/{file.relative_to(folder)}")
    of.close()


def configured(file: Path, address: str, root: str, key: str = KEY) -> str:
    """A configuration of a lake in the store, whose secret is in KAFKA_STORE_SECRET."""
    file.write_text(
        f"lake: {root}\n"
        f"storage: {{aws_endpoint_url: '{address}', aws_allow_http: 'true', max_retries: '1',\n"
        f"  aws_region: us-east-1, aws_access_key_id: {key},\n"
        "  aws_secret_access_key: 'env:KAFKA_STORE_SECRET'}\n"
        "clusters: {prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}\n"
    )
    return str(file)


if __name__ == "__main__":
    main()

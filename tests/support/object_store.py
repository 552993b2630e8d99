"""A server of S3's protocol on this machine, of moto, in a process of its own; a lake in it.

`python -m tests.support.object_store` serves on a free port, which it prints.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Lock
from typing import Any

import boto3

BUCKET = "lakes"
KEY = "AKIDOFTHETEST"
SECRET = "of-the-test"  # noqa: S105 - the server takes any


def main() -> None:
    """Serve until this process is ended."""
    from moto.server import (
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = DomainDispatcherApplication(create_backend_app)
    alone = Lock()

    def app(environ: Any, start_response: Any) -> Any:
        # moto looks whether an object is there, and writes it then: another put may come between.
        with alone:
            return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def object_store() -> Iterator[str]:
    """The address of a server with an empty bucket."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.object_store"]
    with Popen(command, stdout=PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            client(address).create_bucket(Bucket=BUCKET)
            yield address
        finally:
            server.kill()


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


if __name__ == "__main__":
    main()

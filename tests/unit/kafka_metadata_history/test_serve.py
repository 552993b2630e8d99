"""The command serve, in a process of its own."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

import psutil
import pytest

from kafka_metadata_history import INTERRUPTED
from kafka_metadata_history.command import exit_status
from schemas import gold
from schemas.lake import Lake
from tests.support import stored
from tests.support.documents import commands, document
from tests.support.programs import Program
from tests.support.web_lakes import config_of, web_lake, web_rows

PAGE = document("pages.md")
COMMAND = (sys.executable, "-m", "kafka_metadata_history", "serve", "--port", "0")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("web")
    return config_of(folder, web_lake(folder / "lake"))


@contextmanager
def serving(
    config: str, output: Path, *more: str, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Program]]:
    """The address that the command prints, and its process."""
    with Program([*COMMAND, "--config", config, *more], output, variables=variables) as program:
        program.until(program.log, "the address", within=60)
        found = re.match(r"(https?://\S+:\d+) shows \S+; Ctrl-C ends it\n", program.log())
        assert found is not None, program.log()
        yield found[1], program


def opened(address: str, context: ssl.SSLContext | None = None) -> HTTPResponse:
    answer = urllib.request.urlopen(address, timeout=60, context=context)  # noqa: S310 - our own
    assert isinstance(answer, HTTPResponse)
    return answer


def get(address: str, context: ssl.SSLContext | None = None) -> bytes:
    with opened(address, context) as answer:
        return answer.read()


def test_it_serves_until_a_signal_ends_it_though_pages_are_open(
    config: str, tmp_path: Path
) -> None:
    with serving(config, tmp_path / "log") as (address, program):
        assert b"<h1>Fleet</h1>" in get(address)
        with opened(f"{address}/changes") as changes:
            assert re.fullmatch(rb"data: \w{16}\n", changes.readline())
            assert program.end(signal.SIGINT) == INTERRUPTED
            assert len(program.log().split()) == len(
                f"{address} shows lake; Ctrl-C ends it".split()
            )


def test_the_documented_lines(config: str, tmp_path: Path) -> None:
    """On any free port, and with a token in a file of this test."""
    lines = commands("kafka-metadata-history serve.*", PAGE)
    assert len(lines) == 3
    (asked,) = re.findall(r"curl 'http://127\.0\.0\.1:\d+(/\S+)'", PAGE)
    token = tmp_path / "token"
    token.write_text("of-the-file-1234567890123456")
    for number, line in enumerate(lines):
        more = line.replace("/etc/kafka-metadata-history/token", str(token)).split()[2:]
        variables = os.environ | {
            "KAFKA_HISTORY_TOKEN": "of-the-variable-1234567890123456",
            "KAFKA_METADATA_SECRET_FILES": str(tmp_path),
        }
        log = tmp_path / f"log-{number}"
        with serving(config, log, *more, variables=variables) as (address, _):
            url = f"{address.replace('0.0.0.0', '127.0.0.1')}{asked}"  # noqa: S104 - as printed
            if "--token" in line:
                with pytest.raises(HTTPError, match="401"):
                    get(url)
            else:
                assert json.loads(get(url))


def test_it_ends_at_once_though_it_is_asked_something_slow(config: str, tmp_path: Path) -> None:
    many = "(SELECT explode(sequence(1, 1000000)) AS n)"
    sql = f"SELECT count(*) FROM {many} AS a, {many} AS b WHERE a.n * b.n % 7 = 3"
    with serving(config, tmp_path / "log") as (address, program):
        where = ("127.0.0.1", int(address.rpartition(":")[2]))
        body = urlencode({"sql": sql}).encode()
        with socket.create_connection(where, timeout=60) as client:
            client.sendall(
                b"POST /ask/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            process = psutil.Process(program.pid)
            program.until(process.children, "the process of the SELECT", within=60)
            os.kill(program.pid, signal.SIGINT)
            assert program.wait(20) == INTERRUPTED
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_an_open_page_hears_of_a_commit(tmp_path: Path) -> None:
    lake = web_lake(tmp_path / "lake")
    with (
        serving(config_of(tmp_path, lake), tmp_path / "log") as (address, _),
        opened(f"{address}/changes") as changes,
    ):
        before = changes.readline()
        assert changes.readline() == b"\n"
        stored.append(lake, gold.LEADER_CHANGES, web_rows()[gold.LEADER_CHANGES][:1])
        after = changes.readline()
        assert after.startswith(b"data: ")
        assert after != before


def test_who_reads_no_answer_and_who_never_ends_a_request_keeps_nobody_waiting(
    config: str, tmp_path: Path
) -> None:
    with serving(config, tmp_path / "log") as (address, program), ExitStack() as clients:
        where = ("127.0.0.1", int(address.rpartition(":")[2]))
        for request in (b"GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n"):
            for _ in range(10):
                client = clients.enter_context(socket.create_connection(where, timeout=60))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                client.sendall(request)
        assert json.loads(get(f"{address}/api"))["title"] == "Fleet"
        program.check_running()


def test_https_with_a_certificate_of_ones_own(config: str, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", cert, "-keyout", key),
        ],
        check=True,
        capture_output=True,
    )
    given = ("--tls-cert", str(cert), "--tls-key", str(key))
    with serving(config, tmp_path / "log", *given) as (address, _):
        assert address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(cert))
        assert json.loads(get(f"{address}/api", trusted))["title"] == "Fleet"


def problem(config: str, capsys: pytest.CaptureFixture[str], *given: str) -> str:
    assert exit_status(["serve", "--config", config, *given]) == 1
    return capsys.readouterr().err


def test_a_port_in_use_is_one_line(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert problem(config, capsys, "--port", str(port)) == (
            f"kafka-metadata-history: --host 127.0.0.1 --port {port}: Address already in use; "
            "--port 0 takes a free one\n"
        )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--host", "0.0.0.0"), "--host 0.0.0.0: others than this machine reach it, so --token"),  # noqa: S104
        (("--token", "secret"), "--token: not a reference: give env:NAME or file:/path, no token"),
        (("--token", "env:NOT_SET_HERE"), "--token: the environment variable NOT_SET_HERE is not"),
        (("--metrics-token", "x"), "--metrics-token: not a reference"),
        (("--tls-cert", __file__), "--tls-cert and --tls-key: give both or neither"),
        (("--token", "env:SHORT"), "--token: env:SHORT has less than 16 characters"),
        (("--metrics-token", "env:BLANK"), "--metrics-token: env:BLANK has less than 16 char"),
        (
            ("--allow-host", "name"),
            "--allow-host name: others than this machine reach it, so --tok",
        ),
        (("--allow-host", "n:1", "--token", "env:LONG"), "--allow-host n:1: a name without a port"),
        (("--host", "240.0.0.1", "--token", "env:LONG"), "--host 240.0.0.1 --port 8484: "),
    ],
)
def test_what_does_not_fit_together_is_one_line(
    config: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    line: str,
) -> None:
    for name, secret in (("SHORT", "short"), ("BLANK", " " * 20), ("LONG", "x" * 20)):
        monkeypatch.setenv(name, secret)
    found = problem(config, capsys, *given)
    assert found.startswith(f"kafka-metadata-history: {line}")
    assert len(found.splitlines()) == 1


def test_a_lake_that_only_spark_reads_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path, Lake(root="hdfs://host/lake"))
    assert problem(config, capsys) == (
        "kafka-metadata-history: hdfs://host/lake: is neither a folder of this machine nor in an "
        "object store, which is all that is read here\n"
    )

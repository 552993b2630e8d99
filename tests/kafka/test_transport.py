"""The connection layer that kafka-python does not document, against a real broker and against what
is none.
"""

import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import kafka
import psutil
import pytest

from metadata_source.errors import PollError
from metadata_source.options import Cluster, parse
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.transport import Connection
from tests.support.handles import come_to, settled

METADATA = 3


def options(servers: str, **more: str) -> Cluster:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}
    return parse({"kafka.bootstrap.servers": servers} | named).clusters[0]


def connect(cluster: Cluster, seconds: float = 10) -> Connection:
    return Connection(cluster, cluster.bootstrap_servers[0], time.monotonic() + seconds)


def ask(connection: Connection, version: int):
    body = encode_request(version)
    answer = connection.request(
        METADATA, version, body, flexible=version >= 9, deadline=time.monotonic() + 10
    )
    return decode_response(answer.body, version)


@pytest.fixture
def secured(sasl_ssl_cluster, monkeypatch) -> dict[str, str]:
    """Options that reach the SASL_SSL listener; each test spoils one of them."""
    listener = sasl_ssl_cluster.sasl_ssl
    monkeypatch.setenv("ALICE_PASSWORD", listener.users["alice"])
    return {
        "servers": listener.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": "env:ALICE_PASSWORD",
        "ssl_ca_location": str(listener.ca_file),
    }


def refused(given: dict[str, str]) -> PollError:
    with pytest.raises(PollError) as caught:
        connect(options(**given)).close()
    assert "\n" not in str(caught.value)
    assert f"{given['servers'].split(',')[0]}: " in caught.value.problem
    return caught.value


def test_the_library_is_the_one_that_this_was_written_for():
    assert kafka.__version__.startswith("3.0."), (
        "read metadata_source/transport.py against the new version, then pin it"
    )


@pytest.mark.parametrize("version", [1, 12])
def test_raw_bytes_go_out_and_come_back(cluster, version):
    connection = connect(options(cluster.bootstrap_servers))
    try:
        assert connection.api_versions[METADATA] == (0, 13)
        assert connection.features["metadata.version"] > 0
        for _ in range(3):
            assert ask(connection, version).brokers.num_rows == 3
    finally:
        connection.close()
        connection.close()


def test_nothing_is_left_behind(cluster):
    servers = options(cluster.bootstrap_servers)
    connect(servers).close()
    before = settled()
    for _ in range(5):
        connect(servers).close()
        with pytest.raises(PollError):
            connect(options("127.0.0.1:1"))
    assert come_to(before) == before


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("no-such-host.invalid:9092", "name or service not known"),
    ],
)
def test_nobody_there(address, said):
    error = refused({"servers": address})
    assert (error.kind, error.problem) == ("unreachable", f"{address}: {said}")


def test_a_connection_is_one_thread_of_many(cluster):
    servers = options(cluster.bootstrap_servers)
    brokers: list[int] = []

    def poll() -> None:
        connection = connect(servers)
        brokers.extend(ask(connection, 12).brokers.num_rows for _ in range(5))
        connection.close()

    threads = [threading.Thread(target=poll) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert brokers == [3] * 80


def test_sasl_ssl_with_an_authority_of_its_own(secured, sasl_ssl_cluster):
    connection = connect(options(**secured))
    assert ask(connection, 13).cluster_id == sasl_ssl_cluster.cluster_id
    connection.close()


def test_the_line_of_a_java_client_does_too(secured, tmp_path):
    del secured["sasl_password"], secured["sasl_username"]
    line = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" '
        'password="alice-secret";'
    )
    (tmp_path / "jaas").write_text(line)
    connect(options(**secured, sasl_jaas_config=f"file:{tmp_path}/jaas")).close()


def test_a_wrong_password_is_refused_and_told_nowhere(secured, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ALICE_PASSWORD", "hunter2")
    error = refused(secured)
    assert error.kind == "authentication"
    assert "authentication refused: Authentication failed during authentication" in error.problem
    assert "hunter2" not in str(error) + caplog.text


def test_an_unknown_authority_is_not_trusted(secured):
    del secured["ssl_ca_location"]
    error = refused(secured)
    assert error.kind == "tls"
    assert (
        "the certificate is not trusted: self-signed certificate in certificate chain"
        in error.problem
    )


def test_a_certificate_for_another_host_is_not_accepted(secured):
    secured["servers"] = secured["servers"].replace("localhost", "127.0.0.1")
    error = refused(secured)
    assert error.kind == "tls"
    assert "the certificate is for another host: IP address mismatch" in error.problem
    connect(options(**secured, ssl_endpoint_identification_algorithm="none")).close()


def test_plaintext_to_a_listener_with_tls(secured):
    error = refused({"servers": secured["servers"]})
    assert (error.kind, "set kafka.security.protocol to SSL or SASL_SSL" in error.problem) == (
        "tls",
        True,
    )


def test_tls_to_a_listener_without(secured, sasl_ssl_cluster):
    secured["servers"] = sasl_ssl_cluster.bootstrap_servers
    assert refused(secured).kind == "tls"


def test_a_listener_with_sasl_closes_on_clients_without(secured):
    given = {name: value for name, value in secured.items() if "sasl" not in name} | {
        "security_protocol": "SSL"
    }
    with pytest.raises(PollError, match="the broker closed the connection") as caught:
        ask(connect(options(**given)), 12)
    assert caught.value.kind == "unreachable"


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (
            {"sasl_password": "env:NO_SUCH_VARIABLE"},
            "kafka.sasl.password: the environment variable NO_SUCH_VARIABLE is not set",
        ),
        (
            {"ssl_ca_location": "/none.pem"},
            "kafka.ssl.ca.location: /none.pem: no such file or directory",
        ),
        ({"ssl_ca_location": __file__}, "test_transport.py: no certificate or crl found"),
        (
            {"ssl_certificate_location": "/none.pem"},
            "kafka.ssl.certificate.location, kafka.ssl.key.location: /none.pem: no such",
        ),
    ],
)
def test_what_is_missing_here_is_named(secured, spoilt, said):
    with pytest.raises(PollError) as caught:
        connect(options(**(secured | spoilt)))
    assert caught.value.kind == "options"
    assert said in caught.value.problem


@contextlib.contextmanager
def peer(behaviour: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens and is no broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return  # shut down below
                with client:
                    client.recv(1024)
                    behaviour(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def flood(client: socket.socket) -> None:
    client.sendall((1 << 30).to_bytes(4, "big"))
    with contextlib.suppress(ConnectionError):  # until the other side hangs up
        while True:
            client.sendall(bytes(1 << 20))


def garbled(body: bytes) -> Callable[[socket.socket], None]:
    """Answers the first request, which is ApiVersions, under its correlation id, and waits for the
    other side to hang up.
    """

    def behaviour(client: socket.socket) -> None:
        client.sendall(struct.pack(">ii", 4 + len(body), 1) + body)
        client.recv(1)

    return behaviour


@pytest.mark.parametrize(
    ("behaviour", "kind", "said"),
    [
        (
            flood,
            "too_large",
            "an answer of 1073741824 bytes is larger than maxResponseBytes (16777216)",
        ),
        (
            lambda client: client.sendall(b"HTTP/1.1 400 Bad"),
            "protocol",
            "not a Kafka broker: the answer begins with b'HTTP'",
        ),
        (lambda client: client.sendall(b"\xff\xff\xff\xff"), "protocol", "not a Kafka broker"),
        (lambda client: client.sendall(b"\0\0\0\2ab"), "protocol", "an answer that cannot be read"),
        (garbled(b"\0\0\xff"), "protocol", "an answer that cannot be read"),
        (garbled(b"\0\0\x02\0\3\0"), "protocol", "cannot be read: its bytes are no such message"),
        (garbled(b"\0\0\0" + bytes(5)), "protocol", "'NoneType' object is not iterable"),
        (lambda _: None, "unreachable", "the broker closed the connection"),
        (lambda _: time.sleep(2.5), "timeout", "no answer in time"),
    ],
    ids=[
        "flood",
        "http",
        "negative",
        "short",
        "cut off",
        "cut shorter",
        "no versions",
        "hang up",
        "silence",
    ],
)
def test_what_is_no_broker_is_refused_in_bounded_time_and_memory(behaviour, kind, said):
    process = psutil.Process()
    before = process.memory_info().rss
    # Who refuses does not wait for its time to be up, however slow the machine is.
    given, bound = (1, 2) if kind == "timeout" else (10, 9)
    with peer(behaviour) as address:
        begin = time.monotonic()
        with pytest.raises(PollError) as caught:
            connect(options(address), seconds=given)
        assert time.monotonic() - begin < bound
    assert (caught.value.kind, said in caught.value.problem) == (kind, True), caught.value
    assert process.memory_info().rss - before < 50 << 20


def test_an_answer_longer_than_allowed_is_not_read(cluster):
    small = parse(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, "maxResponseBytes": "300"}
    ).clusters[0]
    with pytest.raises(
        PollError, match=r"an answer of \d+ bytes is larger than maxResponseBytes \(300\)"
    ):
        connect(small)

"""Who may connect: every security protocol and mechanism against one real broker, for polls and the
group log alike.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from metadata_source import tokens
from metadata_source.errors import LogError, PollError
from metadata_source.logs.topic.positions import Span
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import TopicFilter, parse
from metadata_source.poller import Poller
from metadata_source.transport import Connection
from tests.support.group_log import log_of
from tests.support.secured import CLIENT_SECRET, PASSWORD, SESSION_MS, USER, Secured
from tests.support.secured_clients import (
    LOG,
    SECRETS,
    Given,
    bearer,
    cluster_of,
    jaas,
    look,
    mutual,
    mutual_of_one_file,
    options,
    over,
    password,
    poll,
    read_log,
)
from tests.support.token_endpoint import Signer

WAYS: dict[str, Callable[[Secured, Path], Given]] = {
    "SSL": lambda secured, _: options(secured, "SSL"),
    "mutual TLS": lambda secured, _: mutual(secured),
    "mutual TLS, one file": lambda secured, folder: mutual_of_one_file(
        secured, folder / "both.pem"
    ),
    "PLAIN": lambda secured, _: password(secured, "PLAIN"),
    "PLAIN, TLS": lambda secured, _: password(secured, "PLAIN", "SASL_SSL"),
    "PLAIN, JAAS": lambda secured, folder: jaas(
        password(secured, "PLAIN"),
        folder / "jaas",
        "plain.PlainLoginModule",
        username=USER,
        password=PASSWORD,
    ),
    "SCRAM-SHA-256": lambda secured, _: password(secured, "SCRAM-SHA-256"),
    "SCRAM-SHA-256, TLS": lambda secured, _: password(secured, "SCRAM-SHA-256", "SASL_SSL"),
    "SCRAM-SHA-512": lambda secured, _: password(secured, "SCRAM-SHA-512"),
    "SCRAM-SHA-512, TLS": lambda secured, _: password(secured, "SCRAM-SHA-512", "SASL_SSL"),
    "SCRAM-SHA-512, JAAS": lambda secured, folder: jaas(
        password(secured, "SCRAM-SHA-512"),
        folder / "jaas",
        "scram.ScramLoginModule",
        username=USER,
        password=PASSWORD,
    ),
    "OAUTHBEARER": lambda secured, _: bearer(
        secured, sasl_oauthbearer_extensions="traceId=a b, other=c"
    ),
    "OAUTHBEARER, TLS": lambda secured, _: bearer(
        secured, "SASL_SSL", sasl_oauthbearer_scope="kafka read"
    ),
    "OAUTHBEARER, JAAS": lambda secured, folder: jaas(
        bearer(secured),
        folder / "jaas",
        "oauthbearer.OAuthBearerLoginModule",
        clientId=USER,
        clientSecret=CLIENT_SECRET,
        scope="kafka read",
        extension_traceId="a b",
    ),
}


@pytest.mark.parametrize("connect", [poll, read_log], ids=["poll", "log"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_connect(secured, way, connect, tmp_path):
    connect(WAYS[way](secured, tmp_path))
    if "OAUTHBEARER" in way:
        scope = None if way == "OAUTHBEARER" else "kafka read"
        # One token for all connections.
        assert [asked.get("scope") for asked in secured.tokens.asked] == [scope]


def refused(connect: Callable[[Given], object], given: Given) -> tuple[str, str]:
    """Kind and problem of the one line that it fails with, in which no secret is."""
    with pytest.raises((PollError, LogError)) as caught:
        connect(given)
    line = str(caught.value)
    assert "\n" not in line
    assert not [secret for secret in SECRETS.values() if secret in line]
    return caught.value.kind, caught.value.problem


REFUSED: dict[str, tuple[Callable[[Secured], Given], str, str]] = {
    "expired certificate": (
        lambda secured: options(secured, "EXPIRED"),
        "tls",
        (
            "the certificate is not trusted: certificate has expired (authorities: "
            "kafka.ssl.ca.location)"
        ),
    ),
    "unknown authority": (
        lambda secured: options(secured, "SSL", ssl_ca_location=str(secured.stranger.ca)),
        "tls",
        (
            "the certificate is not trusted: self-signed certificate in certificate chain "
            "(authorities: kafka.ssl.ca."
        ),
    ),
    "wrong host": (
        lambda secured: options(
            secured, "SSL", bootstrap_servers=secured.cluster.servers("SSL").replace(*BY_ADDRESS)
        ),
        "tls",
        (
            "the certificate is for another host: IP address mismatch, certificate is not valid "
            "for '127.0.0.1'"
        ),
    ),
    "no client certificate": (
        lambda secured: options(secured, "MUTUAL"),
        "tls",
        "the broker wants a certificate of the client: give kafka.ssl.certificate.location (",
    ),
    "unknown client certificate": (
        lambda secured: mutual(
            secured,
            ssl_certificate_location=str(secured.stranger.certificate),
            ssl_key_location=str(secured.stranger.key),
        ),
        "tls",
        "stranger/client.pem: certificate unknown (kafka.ssl.certificate.location)",
    ),
    "wrong key password": (
        lambda secured: mutual(secured, ssl_key_password="env:WRONG"),  # noqa: S106 - a reference
        "options",
        "own/client.key: no PEM files, or kafka.ssl.key.password is not the key's",
    ),
    "wrong password, PLAIN": (
        lambda secured: password(secured, "PLAIN", sasl_password="env:WRONG"),  # noqa: S106
        "authentication",
        (
            "authentication refused: Authentication failed: Invalid username or password (check "
            "user and password)"
        ),
    ),
    "wrong password, SCRAM": (
        lambda secured: password(secured, "SCRAM-SHA-256", "SASL_SSL", sasl_password="env:WRONG"),  # noqa: S106
        "authentication",
        "due to invalid credentials with SASL mechanism SCRAM-SHA-256 (check user and password)",
    ),
    "wrong client secret": (
        lambda secured: bearer(secured, sasl_oauthbearer_client_secret="env:WRONG"),  # noqa: S106
        "authentication",
        "/token: no token: HTTP 401, invalid_client (check client id, secret and scope)",
    ),
    "unknown authority of the token endpoint": (
        lambda secured: bearer(secured, https_ca_location=str(secured.stranger.ca)),
        "tls",
        (
            "/token: the certificate is not trusted: self-signed certificate in certificate chain "
            "(authorities: kafka.ht"
        ),
    ),
    "no mechanism of that name": (
        lambda secured: (
            password(secured, "PLAIN", "SASL_SSL")
            | {"kafka.bootstrap.servers": without_plain(secured)}
        ),
        "authentication",
        "this listener has no SASL mechanism PLAIN: set kafka.sasl.mechanism",
    ),
    "GSSAPI without its library": (
        lambda secured: options(secured, "SASL_PLAINTEXT", sasl_mechanism="GSSAPI"),
        "options",
        "kafka.sasl.mechanism: GSSAPI needs the Python package gssapi where the connection is made",
    ),
}
BY_ADDRESS = ("localhost", "127.0.0.1")


def without_plain(secured: Secured) -> str:
    return secured.cluster.servers("SCRAM_ONLY")


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_one_clear_line_of_a_failed_poll(secured, case):
    given, kind, said = REFUSED[case]
    found = refused(poll, given(secured))
    assert (found[0], said in found[1]) == (kind, True), found


@pytest.mark.parametrize(
    "case", ["expired certificate", "wrong password, SCRAM", "wrong client secret"]
)
def test_what_is_refused_is_the_same_line_of_the_log(secured, case):
    given, kind, said = REFUSED[case]
    found = refused(look, given(secured))
    assert (found[0], said in found[1]) == (kind, True), found


@pytest.mark.parametrize("connect", [poll, look], ids=["poll", "log"])
def test_a_token_that_the_broker_refuses_is_not_kept(secured, connect):
    trusted = secured.tokens.signer
    secured.tokens.signer = Signer()
    given = bearer(secured)
    kind, problem = refused(connect, given)
    assert (kind, '{"status":"invalid_token"}' in problem) == ("authentication", True), problem
    assert "the token's issuer, audience, scope, signature or time" in problem
    secured.tokens.signer = trusted
    connect(given)
    assert len(secured.tokens.asked) == 2


def test_no_host_is_checked_where_the_algorithm_is_empty_as_in_java(secured):
    servers = secured.cluster.servers("SSL").replace(*BY_ADDRESS)
    for nothing in ("", "none"):
        given = options(
            secured, "SSL", bootstrap_servers=servers, ssl_endpoint_identification_algorithm=nothing
        )
        poll(given)
        look(given)


def test_a_users_name_may_have_signs_that_scram_escapes(secured):
    given = password(secured, "SCRAM-SHA-512", sasl_username="team=a, b")
    secured.set_password("team=a, b", PASSWORD)
    poll(given)


def test_sessions_are_renewed_with_what_the_references_stand_for_by_then(secured, monkeypatch):
    """Polls far apart over one connection, each after the session's end (KIP-368)."""
    secured.set_password("carol", "first")
    monkeypatch.setenv("CAROL_PASSWORD", "first")
    secured.tokens.lifetime_s = 3
    carol = password(
        secured,
        "SCRAM-SHA-256",
        sasl_username="carol",
        sasl_password="env:CAROL_PASSWORD",  # noqa: S106
    )
    ways = [bearer(secured), carol]
    with contextlib.ExitStack() as stack:
        pollers = [
            stack.enter_context(Poller(cluster_of(given), TopicFilter(), 10_000)) for given in ways
        ]
        watchers = [
            stack.enter_context(closing(LogWatcher(cluster_of(given), LOG, 5_000)))
            for given in ways
        ]
        assert [poller.poll().error for poller in pollers] == [None, None]
        connections = [over(poller) for poller in pollers]
        begun = [watcher.ask_extent() for watcher in watchers]
        time.sleep(3.2)
        assert [(made.error, made.attempts) for made in (poller.poll() for poller in pollers)] == [
            (None, 1)
        ] * 2
        assert [watcher.ask_extent() for watcher in watchers] == begun
        assert len(secured.tokens.asked) > 1
        secured.set_password("carol", "second")
        monkeypatch.setenv("CAROL_PASSWORD", "second")
        time.sleep(SESSION_MS / 1000 + 0.2)
        assert (pollers[1].poll().error, pollers[1].poll().attempts) == (None, 1)
        assert [over(poller) for poller in pollers] == connections
        secured.set_password("carol", "third")
        time.sleep(SESSION_MS / 1000 + 0.2)
        failed = pollers[1].poll()
    assert (failed.error_kind, failed.attempts) == ("authentication", 1)
    assert (
        "authentication refused: Authentication failed during re-authentication due to invalid"
        in failed.error
    )


def test_no_secret_is_told(secured, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    for given in (mutual(secured), bearer(secured), password(secured, "PLAIN")):
        poll(given)
        read_log(given)
        (shown,) = parse(given).clusters
        assert "env:" in repr(shown)
        told = repr(shown) + repr(tokens._kept)
        assert not [
            secret for secret in (*SECRETS.values(), *secured.tokens.given) if secret in told
        ]
    assert secured.tokens.given
    told = caplog.text + "".join(capfd.readouterr())
    assert not [secret for secret in (*SECRETS.values(), *secured.tokens.given) if secret in told]


def read_unseen(given: Given) -> None:
    """Read records without a look at the log before."""
    span, now = Span("c", None, None, 0, 0, 1), datetime.now(UTC)
    list(log_of(LOG, 3_000).rows(cluster_of(given), [span], now, time.sleep))


@pytest.mark.parametrize(
    "case",
    ["wrong password, PLAIN", "wrong password, SCRAM", "wrong client secret", "wrong key password"],
)
def test_reading_tells_no_secret(secured, case, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    given, _, _ = REFUSED[case]
    refused(read_unseen, given(secured))
    told = caplog.text + "".join(capfd.readouterr())
    assert not [secret for secret in SECRETS.values() if secret in told]


def by_number(port: int) -> socket.socket:
    """A connection to this machine, without a look-up."""
    made = socket.socket()
    made.connect(("127.0.0.1", port))
    return made


@contextlib.contextmanager
def hanging(port: int, answers: int) -> Iterator[int]:
    """The port of something that hands on so many answers of the broker at `port`, and then
    none.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:

        def serve() -> None:
            client = stack.enter_context(server.accept()[0])
            broker = stack.enter_context(by_number(port))
            for _ in range(answers):
                broker.sendall(client.recv(65_536))
                client.sendall(broker.recv(65_536))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("listener", "answers"),
    [("SSL", 0), ("SASL_PLAINTEXT", 1)],
    ids=["before TLS", "in the middle of SASL"],
)
def test_a_hang_moves_on_to_the_next_address_of_the_name(secured, listener, answers, monkeypatch):
    given = cluster_of(options(secured, "SSL") if listener == "SSL" else password(secured, "PLAIN"))
    host, port = given.bootstrap_servers[0]
    with hanging(port, answers) as stuck:
        ports = {"192.0.2.1": stuck, "192.0.2.2": port}
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ports]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(
            socket, "create_connection", lambda address, _: by_number(ports[address[0]])
        )
        Connection(given, (host, port), time.monotonic() + 2).close()

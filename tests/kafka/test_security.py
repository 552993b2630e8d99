"""Who may connect: every security protocol and mechanism against one real broker, for polls and the
group log alike.
"""

import contextlib
import json
import logging
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Consumer, Producer

from metadata_source import tokens
from metadata_source.columns.group_log import SCHEMA
from metadata_source.errors import LogError, PollError
from metadata_source.logs.topic.positions import LogExtent, Span
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import Cluster, TopicFilter, parse
from metadata_source.poller import Poller
from metadata_source.transport import Connection
from tests.support.commands import run_in_new_shell
from tests.support.group_log import log_of
from tests.support.marks import traces
from tests.support.pipelines import command_of, environment
from tests.support.repository import ROOT
from tests.support.secured import (
    CLIENT_SECRET,
    KEY_PASSWORD,
    PASSWORD,
    SESSION_MS,
    USER,
    WRONG,
    Secured,
    secured_broker,
)
from tests.support.token_endpoint import Signer
from tests.support.waiting import eventually

LOG = "group-log-raw"
"""A plain topic in the layout of the log."""
COMMIT = struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 0)
SECRETS = {
    "ALICE_PASSWORD": PASSWORD,
    "CLIENT_SECRET": CLIENT_SECRET,
    "KEY_PASSWORD": KEY_PASSWORD,
    "WRONG": WRONG,
}

Given = dict[str, str]


@pytest.fixture(scope="module")
def secured(tmp_path_factory, made_topic) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        servers = made.cluster.bootstrap_servers
        with made_topic(servers, LOG, 1, replication_factor=1):
            producer = Producer({"bootstrap.servers": servers})
            producer.produce(LOG, struct.pack(">hqhq", 0, 7, 0, 0), COMMIT, partition=0)
            assert producer.flush(30) == 0
            yield made


@pytest.fixture(autouse=True)
def _each_begins_anew(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Secrets are where the references say, no token is kept, and the endpoint is itself again
    afterwards.
    """
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    tokens._kept.clear()
    endpoint = secured.tokens
    before = endpoint.lifetime_s, endpoint.signer
    endpoint.asked.clear()
    yield
    endpoint.lifetime_s, endpoint.signer = before


def options(secured: Secured, listener: str, **more: str) -> Given:
    """Options that reach a listener, in Kafka's names with `_` for `.`."""
    protocol = "SSL" if listener in {"EXPIRED", "MUTUAL"} else listener
    given = {"bootstrap_servers": secured.cluster.servers(listener), "security_protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl_ca_location"] = str(secured.own.ca)
    return {f"kafka.{name.replace('_', '.')}": value for name, value in (given | more).items()}


def mutual(secured: Secured, **more: str) -> Given:
    files = {
        "ssl_certificate_location": str(secured.own.certificate),
        "ssl_key_location": str(secured.own.key),
    }
    return options(secured, "MUTUAL", **files | {"ssl_key_password": "env:KEY_PASSWORD"} | more)


def mutual_of_one_file(secured: Secured, both: Path) -> Given:
    """As Java's PEM key stores are."""
    both.write_bytes(secured.own.key.read_bytes() + secured.own.certificate.read_bytes())
    given = mutual(secured, ssl_certificate_location=str(both))
    return {name: value for name, value in given.items() if name != "kafka.ssl.key.location"}


def password(
    secured: Secured, mechanism: str, listener: str = "SASL_PLAINTEXT", **more: str
) -> Given:
    user = {
        "sasl_mechanism": mechanism,
        "sasl_username": USER,
        "sasl_password": "env:ALICE_PASSWORD",
    }
    return options(secured, listener, **user | more)


def bearer(secured: Secured, listener: str = "SASL_PLAINTEXT", **more: str) -> Given:
    given = {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_token_endpoint_url": secured.tokens.url,
        "sasl_oauthbearer_client_id": USER,
        "sasl_oauthbearer_client_secret": "env:CLIENT_SECRET",
        "https_ca_location": str(secured.own.ca),
    }
    return options(secured, listener, **given | more)


def jaas(given: Given, file: Path, module: str, **fields: str) -> Given:
    """The same with a Java client's line in place of what is secret."""
    quoted = {
        name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in fields.items()
    }
    words = " ".join(f'{name} = "{value}"' for name, value in quoted.items())
    file.write_text(
        f"// of a Java client\norg.apache.kafka.common.security.{module} required {words} ;\n"
    )
    own = (".username", ".password", ".client.id", ".client.secret")
    return {
        name: value
        for name, value in given.items()
        if not name.endswith(own) or ".sasl." not in name
    } | {"kafka.sasl.jaas.config": f"file:{file}"}


def cluster_of(given: Given) -> Cluster:
    return parse(given).clusters[0]


def over(poller: Poller) -> object:
    """The connection over which the last good answer came."""
    return poller._connections._kept[poller.answerer]


def poll(given: Given) -> None:
    """Poll once. Raises what made the poll fail."""
    with Poller(cluster_of(given), TopicFilter(), 10_000) as poller:
        made = poller.poll()
    if made.error_kind is not None:
        raise PollError(made.error_kind, made.error or "")
    assert made.metadata.brokers["broker_id"].to_pylist() == [1]


def look(given: Given, timeout_ms: int = 1_500) -> LogExtent:
    """Ask where the log is, and close."""
    with closing(LogWatcher(cluster_of(given), LOG, timeout_ms)) as watcher:
        return watcher.ask_extent()


def read_log(given: Given) -> None:
    """Read the log as the data source does: look where it is, then go through it."""
    seen = look(given, 10_000)
    assert (seen.begins, seen.ends) == ({0: 0}, {0: 1})
    span = Span("c", seen.cluster_id, seen.topic_id, 0, 0, 1)
    now = datetime.now(UTC)
    batches = log_of(LOG).rows(cluster_of(given), [span], now, time.sleep)
    rows = pa.Table.from_batches(batches, SCHEMA).to_pylist()
    assert [(row["next_offset"], row["commits"]) for row in rows if row["record"] == "read"] == [
        (1, 1)
    ]


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


# --- no secret is anywhere ---

HASH_KEY = "hashMk4Ns7Fd2-client-hash-key"
CLIENT_ID = "clidMk6Yb4Gd3"
REFERENCE = "refrMk2Aa3Bb4"
"""The name of a variable that holds a secret: it may be seen, where the secret may not."""
SEEN = "seenMk1Zz9Yy8"
HOSTILE = (
    f"env:ALICE_PASSWORD {SEEN}",  # a name is no reference
    f"${{env:HASH_KEY}} {{batch}} %(x)s $x_1$ =1+1 <script>alert(1)</script>\x1b[31m {SEEN}",
)
"""Groups."""


@contextlib.contextmanager
def members(servers: str) -> Iterator[None]:
    """A group of each protocol, with a member that has something."""
    with contextlib.ExitStack() as stack:
        for group, protocol in zip(HOSTILE, ("classic", "consumer"), strict=True):
            own = {
                "bootstrap.servers": servers,
                "group.id": group,
                "client.id": CLIENT_ID,
                "group.protocol": protocol,
            }
            consumer = stack.enter_context(closing(Consumer(own)))
            consumer.subscribe([LOG])
            eventually(lambda of=consumer: of.poll(0.2) or of.assignment(), f"what {group} has")
        yield


def clusters(secured: Secured, given: Path) -> dict[str, Given]:
    """Aliases for the one cluster: the secrets of each kind as they should be, and wrong ones.
    Files go to `given`.
    """
    (given / "secret").write_text(CLIENT_SECRET)
    (given / "wrong").write_text(WRONG)
    plain, module = password(secured, "PLAIN"), "plain.PlainLoginModule"
    return {
        "scram": password(secured, "SCRAM-SHA-512", "SASL_SSL", sasl_password=f"env:{REFERENCE}"),
        "bearer": bearer(
            secured, "SASL_SSL", sasl_oauthbearer_client_secret=f"file:{given}/secret"
        ),
        "jaas": jaas(plain, given / "jaas", module, username=USER, password=PASSWORD),
        "mutual": mutual(secured),
        "wrong-password": password(secured, "SCRAM-SHA-512", "SASL_SSL", sasl_password="env:WRONG"),  # noqa: S106
        "wrong-jaas": jaas(plain, given / "wrong-jaas", module, username=USER, password=WRONG),
        "wrong-secret": bearer(secured, sasl_oauthbearer_client_secret=f"file:{given}/wrong"),
        "no-endpoint": bearer(
            secured,
            sasl_oauthbearer_token_endpoint_url="https://localhost:1/token",  # noqa: S106
        ),
        "wrong-key": mutual(secured, ssl_key_password="env:WRONG"),  # noqa: S106
    }


VARIABLES = SECRETS | {REFERENCE: PASSWORD, "HASH_KEY": HASH_KEY}


@pytest.fixture(scope="module")
def kept(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that comes of running everything: lake, checkpoints, data docs, Spark's
    event log and pages, and what is printed and logged.
    """
    given, made = tmp_path_factory.mktemp("given"), tmp_path_factory.mktemp("made")
    for folder in ("events", "scratch"):
        (made / folder).mkdir()
    reached = clusters(secured, given)
    hidden = {"clientHashKey": "env:HASH_KEY"}
    content = {
        "lake": str(made / "lake"),
        "clusters": reached,
        "poll": {
            "pollInterval": "10s",
            "enrich": "configs, reassignments, elr, quorum, groups",
            **hidden,
        },
        "groupLog": {"requestTimeout": "10s"},
        "validation": {"docs": str(made / "docs")},
    }
    (made / "config.yaml").write_text(yaml.safe_dump(content))
    formats = ("kafka_metadata", "kafka_group_log")
    (made / "reads.json").write_text(
        json.dumps([(each, it | hidden) for each in formats for it in reached.values()])
    )
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(made / "events"),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(made / "scratch"),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "INFO",
        # As executors of a cluster are given secrets, beside a command line that shows them.
        "spark.executorEnv.HASH_KEY": HASH_KEY,
        "spark.executorEnv.ALICE_PASSWORD": PASSWORD,
    }
    own = {"TMPDIR": str(made / "scratch"), "SPARK_PUBLIC_DNS": "localhost"}
    with (
        members(secured.cluster.bootstrap_servers),
        (made / "out").open("w") as out,
        (made / "err").open("w") as err,
    ):
        done = subprocess.run(
            command_of("tests/support/every_job.py", str(made), settings=settings),
            cwd=ROOT,
            env=environment() | VARIABLES | own,
            stdout=out,
            stderr=err,
            check=False,
        )
    assert done.returncode == 0, (made / "err").read_text()[-3000:]
    return made


def leaks(secured: Secured, folder: Path) -> list[str]:
    """Where a secret is, or a token, or a client's name, which is to be hidden too."""
    marks = [
        each[:13] for each in (PASSWORD, CLIENT_SECRET, KEY_PASSWORD, WRONG, HASH_KEY, CLIENT_ID)
    ]
    assert all("Mk" in mark for mark in marks)
    assert secured.tokens.given
    # Of a token its signature: nobody has any use for the rest.
    signatures = [
        re.sub("[^A-Za-z0-9]", " ", token.split(".")[2]).split() for token in secured.tokens.given
    ]
    return traces(folder, [*marks, *(max(parts, key=len) for parts in signatures)])


def parts_with(folder: Path, mark: str) -> set[str]:
    """What of the folder has a mark."""
    return {found.split(":")[0].split("/")[0] for found in traces(folder, [mark])}


@pytest.mark.soak
def test_no_secret_is_in_anything_that_is_kept_or_told(secured, kept):
    assert leaks(secured, kept) == []


@pytest.mark.soak
def test_everything_ran_that_might_have_told_a_secret(kept):
    """With as many clusters that cannot be reached, and names that mean something elsewhere."""
    statuses = json.loads((kept / "statuses.json").read_text())
    assert statuses == {"pipeline": 3, "validate": 3, "timeline": 0, "polls": 0, "members": 0}
    assert parts_with(kept, REFERENCE) >= {"config.yaml", "lake"}
    assert parts_with(kept, SEEN) >= {"lake", "out"}
    out, err = (kept / "out").read_text(), (kept / "err").read_text()
    # A log that cannot be reached is an error when its read is planned.
    assert (
        out.count("== Physical Plan ==") >= len(json.loads((kept / "reads.json").read_text())) / 2
    )
    for kind in ("authentication", "unreachable", "options"):
        assert f"[KAFKA_METADATA_POLL] {kind}: " in err
    found = [
        json.loads(line)
        for line in out.splitlines()
        if line.startswith("{") and '"client_host"' in line
    ]
    clients = {(row["client_id"][:2], row["client_host"][:2]) for row in found}
    assert clients == {("h:", "h:")}
    (events,) = (kept / "events").iterdir()
    assert b"spark.executorEnv.HASH_KEY" in b"".join(each.read_bytes() for each in _files(events))
    assert (
        "spark.executorEnv.HASH_KEY" in (kept / "ui" / "environment.json").read_text()
    )  # which the page shows


@pytest.mark.soak
def test_hostile_names_stay_names(kept):
    assert "\x1b" not in (kept / "out").read_text()
    pages = [*(kept / "docs").rglob("*.html"), *(kept / "ui").glob("*.html")]
    assert len(pages) > 6
    assert [page for page in pages if "<script>alert(1)" in page.read_text()] == []


@pytest.mark.soak
def test_no_secret_is_in_a_notebooks_page(secured, kept):
    folder = kept / "pages"
    printed = run_in_new_shell(
        (
            f"python -m notebooks incident rebalance_history --config {kept}/config.yaml --to "
            f"{folder} 2>&1"
        ),
        **VARIABLES,
    )
    (folder / "printed").write_text(printed)
    assert leaks(secured, kept) == []
    assert SEEN in (folder / "rebalance_history.html").read_text()
    assert not [page for page in folder.glob("*.html") if "<script>alert(1)" in page.read_text()]


def _files(path: Path) -> list[Path]:
    """The files of an event log, which is one or a folder of them."""
    return (
        [path] if path.is_file() else [each for each in sorted(path.rglob("*")) if each.is_file()]
    )

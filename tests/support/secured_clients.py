"""Options of clients of a secured broker, by each way to connect, and what they do."""

import struct
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from metadata_source.columns.group_log import SCHEMA
from metadata_source.errors import PollError
from metadata_source.logs.topic.positions import LogExtent, Span
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import Cluster, TopicFilter, parse
from metadata_source.poller import Poller
from tests.support.group_log import log_of
from tests.support.secured import CLIENT_SECRET, KEY_PASSWORD, PASSWORD, USER, WRONG, Secured

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

"""The options of a read: strings in, checked and typed out. A table a format says what each option is, and
docs/options.md prints it.

Secrets are references (``env:NAME``, ``file:/path``): they travel as such and are resolved where a connection is made
(`metadata_source.references`).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from metadata_source.errors import OptionsError
from metadata_source.kinds import KAFKA, KINDS
from metadata_source.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Mode = Literal["batch", "stream"]

ENTITIES: Final = ("polls", "brokers", "topics", "partitions")
METADATA_VERSIONS: Final = range(14)
ENRICHMENTS: Final = {
    "configs": "5m",
    "reassignments": "15s",
    "quorum": "1m",
    "elr": "1m",
    "fenced": "1m",
    "groups": "30s",
    "offsets": "1m",
}
"""Questions that can be asked beside metadata, and how often they are unless told. See `metadata_source.enrichment`."""
ENRICH_TIMEOUT_MS: Final = 5_000
"""The most that the questions beside metadata take together after a poll, unless told."""
MAX_BATCH_MS: Final = 60_000
"""The longest that the polls of one batch may hold a task."""

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
_DEFAULT_TIMEOUT_MS: Final = 10_000
_MIN_INTERVAL_MS: Final = 100


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, where it is allowed, and what the two client libraries call it."""

    name: str
    meaning: str
    default: str | None = None
    modes: tuple[Mode, ...] = ("batch", "stream")
    per_cluster: bool = False
    """May differ from cluster to cluster in `clusters`."""
    secret: bool = False
    kafka_python: str | None = None
    confluent: str | None = None


_CLUSTER_OPTIONS: Final = (
    Option(
        "kafka.bootstrap.servers",
        "`host:port`, comma-separated: where to ask first. Required.",
        per_cluster=True,
        confluent="bootstrap.servers",
    ),
    Option(
        "kafka.client.id",
        "The name that the brokers' request logs and quotas show.",
        default="kafka-metadata-history",
        per_cluster=True,
        kafka_python="client_id",
        confluent="client.id",
    ),
    Option(
        "kafka.security.protocol",
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
        default="PLAINTEXT",
        per_cluster=True,
        kafka_python="security_protocol",
        confluent="security.protocol",
    ),
    Option(
        "kafka.sasl.mechanism",
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`.",
        per_cluster=True,
        kafka_python="sasl_mechanism",
        confluent="sasl.mechanism",
    ),
    Option(
        "kafka.sasl.username",
        "The user, for `PLAIN` and SCRAM.",
        per_cluster=True,
        kafka_python="sasl_plain_username",
        confluent="sasl.username",
    ),
    Option(
        "kafka.sasl.password",
        "The user's password: a reference.",
        per_cluster=True,
        secret=True,
        kafka_python="sasl_plain_password",
        confluent="sasl.password",
    ),
    Option(
        "kafka.sasl.jaas.config",
        "Instead of user and password, or client id and secret, a Java client's line (`PlainLoginModule`, "
        "`ScramLoginModule`, `OAuthBearerLoginModule`, `IAMLoginModule`): a reference.",
        per_cluster=True,
        secret=True,
    ),
    Option(
        "kafka.sasl.oauthbearer.method",
        "`oidc`: tokens are asked of an endpoint.",
        default="oidc",
        per_cluster=True,
    ),
    Option(
        "kafka.sasl.oauthbearer.token.endpoint.url",
        "Where to ask for tokens, for `OAUTHBEARER`: `https://host/path`. The operator of the machine may list which "
        "(docs/security.md).",
        per_cluster=True,
    ),
    Option(
        "kafka.sasl.oauthbearer.client.id",
        "The client that tokens are for.",
        per_cluster=True,
    ),
    Option(
        "kafka.sasl.oauthbearer.client.secret",
        "The client's secret: a reference.",
        per_cluster=True,
        secret=True,
    ),
    Option(
        "kafka.sasl.oauthbearer.scope",
        "The scope to ask for.",
        per_cluster=True,
    ),
    Option(
        "kafka.sasl.oauthbearer.extensions",
        "SASL extensions to send with the token: `name=value`, comma-separated.",
        per_cluster=True,
    ),
    Option(
        "kafka.https.ca.location",
        "PEM file of the authorities to trust for the token endpoint; the system's where it is not given.",
        per_cluster=True,
    ),
    Option(
        "kafka.sasl.kerberos.service.name",
        "The brokers' Kerberos service, for `GSSAPI`.",
        default="kafka",
        per_cluster=True,
        kafka_python="sasl_kerberos_service_name",
        confluent="sasl.kerberos.service.name",
    ),
    Option(
        "kafka.ssl.ca.location",
        "PEM file of the authorities to trust; the system's where it is not given.",
        per_cluster=True,
        kafka_python="ssl_cafile",
        confluent="ssl.ca.location",
    ),
    Option(
        "kafka.ssl.certificate.location",
        "PEM file of the client's certificate, for mutual TLS.",
        per_cluster=True,
        kafka_python="ssl_certfile",
        confluent="ssl.certificate.location",
    ),
    Option(
        "kafka.ssl.key.location",
        "PEM file of the client's private key.",
        per_cluster=True,
        kafka_python="ssl_keyfile",
        confluent="ssl.key.location",
    ),
    Option(
        "kafka.ssl.key.password",
        "The private key's password: a reference.",
        per_cluster=True,
        secret=True,
        kafka_python="ssl_password",
        confluent="ssl.key.password",
    ),
    Option(
        "kafka.ssl.endpoint.identification.algorithm",
        "`https` checks that the certificate names the host that was asked for, `none` (or nothing, as in Java) does "
        "not.",
        default="https",
        per_cluster=True,
        kafka_python="ssl_check_hostname",
        confluent="ssl.endpoint.identification.algorithm",
    ),
    Option("cluster", "The alias of the one cluster, where `clusters` is not given.", default="default"),
    Option(
        "clusterId",
        "The cluster id that must answer; another one is a failed poll, and its log is not read. Where a server tells "
        "none, this one is recorded.",
        per_cluster=True,
    ),
    Option(
        "kind",
        "The maker of the cluster, one of " + ", ".join(f"`{kind}`" for kind in KINDS) + ": it decides which facts "
        "mean something, and how records of groups are read (docs/versions.md, Other makers).",
        default=KAFKA,
        per_cluster=True,
    ),
    Option(
        "clusters",
        'Many clusters in one read, as JSON: `{"alias": {"kafka.bootstrap.servers": "...", ...}, ...}`. Options '
        "beside it "
        "hold for every cluster that does not set its own.",
    ),
)
_CLIENT_HASH_KEY: Final = Option(
    "clientHashKey",
    "Client ids and hosts of group members, and what holds them, are replaced by keyed hashes: the key, a reference. "
    "The same "
    "key gives the same hashes, which still tell members apart.",
    secret=True,
)

OPTIONS: Final = (
    *_CLUSTER_OPTIONS,
    Option("topics", "Only these topics, comma-separated."),
    Option("topicsPattern", "Only topics whose whole name matches this regular expression (RE2)."),
    Option(
        "entity",
        "`polls` (as in bronze), or what one poll says as plain rows: `brokers`, `topics`, `partitions`.",
        default="polls",
        modes=("batch",),
    ),
    Option(
        "pollInterval",
        "The time between two polls, such as `500ms`, `30s` or `5m`; of each cluster a whole multiple of the shortest "
        "one.",
        default="30s",
        modes=("stream",),
        per_cluster=True,
    ),
    Option(
        "pollsPerBatch",
        "Polls in one micro-batch, on the shortest `pollInterval`, together at most 60 s: short intervals without as "
        "many commits.",
        default="1",
        modes=("stream",),
    ),
    Option(
        "newestStream",
        "The newest stream of polls where they are kept, such as `20261101T110000Z-0123abcd`: a new stream is named to "
        "come after it, and one of a checkpoint that comes before it is refused. The jobs set it.",
        modes=("stream",),
    ),
    Option(
        "doubtedClock",
        "From when until when the clock of a machine that polls is not believed, such as "
        "`2026-11-02T11:00:00Z/2027-11-01T11:10:00Z`: polls that are due then fail (`clock`), since it is far ahead of "
        "the newest poll that is kept. The jobs set it.",
        modes=("stream",),
    ),
    Option(
        "enrich",
        "Questions to ask beside metadata, comma-separated, after a poll that is good, each on its own beat or one "
        "given (`configs=10m`), never more often than polls: "
        + ", ".join(f"`{kind}` ({beat})" for kind, beat in ENRICHMENTS.items())
        + ". A cluster for which nothing is to be asked has `none`.",
        per_cluster=True,
    ),
    Option(
        "groupsPattern",
        "`offsets` of `enrich` are asked of groups only whose whole id matches this regular expression (RE2); `groups` "
        "are always all.",
    ),
    _CLIENT_HASH_KEY,
    Option(
        "requestTimeout",
        "Bounds one poll of one cluster with its retries; one attempt gets half of what is left, so that another "
        "broker can be tried. A poll of a stream also ends half of the shortest `pollInterval` before the next batch "
        "is due, so that no cluster holds up the polls of the others; it has 2.5 s at least.",
        default="the length of a batch, between 1 s and 10 s",
    ),
    Option(
        "enrichTimeout",
        "Bounds all questions of `enrich` after one poll of one cluster; `groups` gets half of what is left, and so do "
        "the steps of `offsets` one after the other. At most half of the time until the cluster's next poll or the "
        "next batch, so that no poll has to wait.",
        default="5s, or `requestTimeout` where that is less",
        per_cluster=True,
    ),
    Option(
        "metadataVersion",
        "Pins the version of the Metadata request, 0 to 13; otherwise the highest that the broker has.",
        per_cluster=True,
    ),
    Option(
        "maxResponseBytes",
        "The largest answer to accept. A worker holds an answer of each cluster in memory, whoever sent it. 100,000 "
        "partitions are 4.3 MB, so the default has room for 390,000; 1,000,000 are 43 MB.",
        default="16777216",
        per_cluster=True,
    ),
)

_RESUME_AT: Final = Option(
    "resumeAt",
    'Where a log without a place in the checkpoint was read up to, as JSON: `{"alias": {"partition": offset}}`. It '
    "begins there, and not at `startingOffsets`: what is gone since is a row (`lost`). The jobs set it.",
    modes=("stream",),
)
GROUP_LOG_OPTIONS: Final = (
    *_CLUSTER_OPTIONS,
    Option(
        "startingOffsets",
        "Where a stream without a checkpoint, or a batch read, begins: `earliest`, `latest`, or a time: ISO 8601 "
        "with its zone, or "
        "milliseconds since 1970. A partition that has nothing from then on begins at its end.",
        default="earliest",
    ),
    _RESUME_AT,
    Option(
        "maxRecordsPerBatch",
        "The most offsets of one cluster's log that a micro-batch goes through; partitions share them by what they "
        "have left.",
        default="5000000",
        modes=("stream",),
    ),
    Option(
        "groupsPattern",
        "Only offset commits of groups whose whole name matches this regular expression (RE2) are kept. Records of "
        "groups are kept of every group.",
    ),
    Option(
        "requestTimeout",
        "Bounds each question to a cluster. A partition's reading fails when nothing comes for so long.",
        default="30s",
    ),
    _CLIENT_HASH_KEY,
)

CONTROLLERS: Final = "kafka.controller."
"""How options begin by which controllers are reached."""
CONTROLLER_SERVERS: Final = f"{CONTROLLERS}bootstrap.servers"
CLUSTER_LOG_OPTIONS: Final = (
    *_CLUSTER_OPTIONS,
    Option(
        CONTROLLER_SERVERS,
        "`host:port` of controllers, comma-separated (their listeners of `controller.listener.names`). Controllers "
        "before Kafka 3.9 do not say where the others are: name all. Required, unless `path` is given.",
        per_cluster=True,
    ),
    Option(
        "startingOffsets",
        "Where a stream without a checkpoint, or a batch read, begins: `earliest` (the first record that can be read, "
        "after the snapshot that holds what came before it, if there is one) or `snapshot` (the latest snapshot, and "
        "what came after it; old controllers name none as long as the log has its beginning, which is read then).",
        default="earliest",
    ),
    _RESUME_AT,
    Option(
        "requestTimeout",
        "Bounds each search for the active controller. The reading of a log fails when nothing comes for so long.",
        default="30s",
    ),
    Option(
        "maxBytesPerSecond",
        "The most that is read of one cluster's log in a second: controllers hold back no fetch of it by a quota. The "
        "first answer of a batch comes at once (1 MiB, of controllers before Kafka 4.3 up to 8 MiB). 100,000 changes "
        "of partitions are some 10 MB.",
        default="5000000",
    ),
    Option(
        "path",
        "A controller's folder `__cluster_metadata-0`, or one segment (`*.log`) or snapshot (`*.checkpoint`) of it: "
        "read in place of a cluster, for which `cluster` and `clusterId` may stand. Drivers and executors read it by "
        "this name.",
        modes=("batch",),
    ),
)
_OF_CONTROLLERS: Final = tuple(
    replace(option, name=option.name.replace("kafka.", CONTROLLERS, 1))
    for option in _CLUSTER_OPTIONS
    if option.name.startswith(("kafka.security.", "kafka.sasl.", "kafka.https.", "kafka.ssl."))
)
"""Options of security, where those of controllers are others."""

BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
CLUSTER_LOG_BY_NAME: Final = {option.name.lower(): option for option in (*CLUSTER_LOG_OPTIONS, *_OF_CONTROLLERS)}
GROUP_LOG_BY_NAME: Final = {option.name.lower(): option for option in GROUP_LOG_OPTIONS}

# Other names of the same: librdkafka's, and those of Java from 4.1 on.
_SPELLINGS: Final = {
    "kafka.sasl.mechanisms": "kafka.sasl.mechanism",
    "kafka.sasl.oauthbearer.client.credentials.client.id": "kafka.sasl.oauthbearer.client.id",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "kafka.sasl.oauthbearer.client.secret",
}

# Names of Java and librdkafka for what has another form here.
_ELSEWHERE: Final = {
    "kafka.ssl.truststore.location": "use kafka.ssl.ca.location (a PEM file)",
    "kafka.ssl.truststore.certificates": "use kafka.ssl.ca.location (a PEM file)",
    "kafka.ssl.ca.pem": "use kafka.ssl.ca.location (a PEM file)",
    "kafka.ssl.keystore.location": "use kafka.ssl.certificate.location and kafka.ssl.key.location (PEM files)",
    "kafka.ssl.keystore.certificate.chain": "use kafka.ssl.certificate.location (a PEM file)",
    "kafka.ssl.certificate.pem": "use kafka.ssl.certificate.location (a PEM file)",
    "kafka.ssl.keystore.key": "use kafka.ssl.key.location (a PEM file)",
    "kafka.ssl.key.pem": "use kafka.ssl.key.location (a PEM file)",
    "kafka.ssl.keystore.password": "use kafka.ssl.key.password",
    # Not needless: who passes it over trusts what it was to keep out.
    "kafka.ssl.crl.location": "leave it out: no lists of revoked certificates are read",
}
# And for what needs no option.
_TICKET: Final = "leave it out: GSSAPI takes its ticket from the credential cache or the client keytab of Kerberos"
_NEEDLESS: Final = {
    "kafka.ssl.truststore.password": "leave it out: the PEM file of kafka.ssl.ca.location has none",
    "kafka.ssl.truststore.type": "leave it out: kafka.ssl.ca.location is a PEM file",
    "kafka.ssl.keystore.type": "leave it out: certificate and key are PEM files",
    "kafka.enable.ssl.certificate.verification": "leave it out: who is trusted is kafka.ssl.ca.location",
    "kafka.sasl.login.callback.handler.class": "leave it out: OAUTHBEARER asks its token endpoint",
    "kafka.sasl.client.callback.handler.class": "leave it out: kafka.sasl.mechanism says all",
    "kafka.sasl.kerberos.keytab": _TICKET,
    "kafka.sasl.kerberos.principal": _TICKET,
    "kafka.sasl.kerberos.kinit.cmd": _TICKET,
}


def markdown_table(options: tuple[Option, ...] = OPTIONS) -> str:
    """Return the option table of a format as docs/options.md shows it."""
    rows = ["| option | in | default | meaning |", "|---|---|---|---|"]
    for option in options:
        where = " and ".join(option.modes) + (", each cluster" if option.per_cluster else "")
        default = (
            "" if option.default is None else f"`{option.default}`" if " " not in option.default else option.default
        )
        rows.append(f"| `{option.name}` | {where} | {default} | {option.meaning} |")
    return "\n".join(rows)


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Which topics a read covers: names, or a pattern, or neither for every topic."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None

    def to_json(self) -> str | None:
        """Return the filter as bronze keeps it; null for every topic."""
        if self.topics is not None:
            return json.dumps({"topics": sorted(self.topics)}, separators=(",", ":"))
        if self.pattern is not None:
            return json.dumps({"pattern": self.pattern}, separators=(",", ":"), ensure_ascii=False)
        return None


_EXPOSED: Final = {
    "PLAIN": "the password",
    "SCRAM-SHA-256": "a hash from which the password can be guessed",
    "SCRAM-SHA-512": "a hash from which the password can be guessed",
    "OAUTHBEARER": "the token",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to reach one cluster. Passwords, the client's secret and the JAAS line are references, never secrets."""

    alias: str
    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    security_protocol: str
    max_response_bytes: int
    cluster_id: str | None = None
    kind: str = KAFKA
    metadata_version: int | None = None
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_jaas_config: str | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_id: str | None = None
    sasl_oauthbearer_client_secret: str | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_extensions: tuple[tuple[str, str], ...] = ()
    https_ca_location: str | None = None
    sasl_kerberos_service_name: str = "kafka"
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = None
    ssl_check_hostname: bool = True

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol in {"SSL", "SASL_SSL"}

    @property
    def sasl(self) -> bool:
        """Whether the connection authenticates with SASL."""
        return self.security_protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    @property
    def sent_mechanism(self) -> str | None:
        """The mechanism that brokers are told: MSK takes its tokens by OAUTHBEARER."""
        return "OAUTHBEARER" if self.sasl_mechanism == "AWS_MSK_IAM" else self.sasl_mechanism

    @property
    def exposed(self) -> str | None:
        """The part of the credentials that anyone on the network can read, one line; None where there is none."""
        told = None if self.tls else _EXPOSED.get(self.sent_mechanism or "")
        return told and f"{told} crosses the network unencrypted: set kafka.security.protocol to SASL_SSL"


@dataclass(frozen=True, slots=True)
class Polling:
    """How often one cluster is polled, and what is asked beside. Times are milliseconds."""

    interval_ms: int
    enrich: Mapping[str, int]
    """Each question to ask beside metadata -> its beat."""
    enrich_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Options:
    """A read: its clusters, and what is one for all of them. Times are milliseconds."""

    clusters: tuple[Cluster, ...]
    polling: Mapping[str, Polling]
    """By alias."""
    topic_filter: TopicFilter
    entity: str
    beat_ms: int
    """The shortest interval of a cluster. Each other one is a whole multiple of it."""
    polls_per_batch: int
    request_timeout_ms: int
    client_hash_key: str | None
    """A reference; None where client ids and hosts are kept as they are."""
    groups_pattern: str | None = None
    """Of the groups whose offsets are asked for, by their whole id (RE2); None for every one."""
    newest_stream: str | None = None
    """The newest stream of polls where they are kept; None where nothing is known of one."""
    doubted_clock: tuple[float, float] | None = None
    """From when until when no poll is believed, s since the epoch; None: what is kept contradicts no clock."""


def parse(options: Mapping[str, str], mode: Mode | None = None) -> Options:
    """Check and type the options of a read. Keys are case-insensitive.

    `mode` is None while it is not known yet whether a batch or a stream is read. Raises OptionsError.
    """
    given = _by_name(options, BY_NAME)
    _check_mode(given, mode)
    entity = given.get("entity", "polls").lower()
    if entity not in ENTITIES:
        raise OptionsError(f"entity: {given['entity']!r} is none of {', '.join(ENTITIES)}")
    each = _each(given, BY_NAME)
    for one in each:
        _check_mode(one.given, mode, within=one.within)
    intervals = {one.alias: _interval_ms(one) for one in each}
    beat_ms = _beat_ms(each, intervals)
    polls = _integer("pollsPerBatch", given.get("pollsPerBatch", "1"), minimum=1)
    if polls > 1 and beat_ms * polls > MAX_BATCH_MS:
        raise OptionsError(
            f"pollsPerBatch: {polls} polls every {beat_ms} ms take longer than {MAX_BATCH_MS // 1000} s: "
            f"at most {max(1, MAX_BATCH_MS // beat_ms)} fit into a batch"
        )
    timeout_ms = (
        _duration_ms("requestTimeout", given["requestTimeout"], minimum=1)
        if "requestTimeout" in given
        else min(_DEFAULT_TIMEOUT_MS, max(1_000, beat_ms * polls))
    )
    if any("enrichTimeout" in one.given for one in each) and not any("enrich" in one.given for one in each):
        raise OptionsError("enrichTimeout: without enrich, nothing is asked beside metadata")

    def polling(one: _Given) -> Polling:
        interval_ms = intervals[one.alias]
        # In a run the first poll of all clusters begins a batch: this is the least time from one of this cluster to
        # its next one or to the next batch.
        room_ms = math.gcd(interval_ms, beat_ms * polls) if mode == "stream" else None
        return Polling(interval_ms, _enrich(one, entity, mode), _enrich_timeout_ms(one, room_ms, timeout_ms))

    return Options(
        clusters=tuple(map(_cluster, each)),
        polling={one.alias: polling(one) for one in each},
        topic_filter=_topic_filter(given),
        entity=entity,
        beat_ms=beat_ms,
        polls_per_batch=polls,
        request_timeout_ms=timeout_ms,
        client_hash_key=given.get("clientHashKey"),
        groups_pattern=_pattern("groupsPattern", given["groupsPattern"]) if "groupsPattern" in given else None,
        newest_stream=_stream(given),
        doubted_clock=_doubted_clock(given),
    )


def _check_mode(given: Mapping[str, str], mode: Mode | None, *, within: str = "") -> None:
    for name in given:
        modes = BY_NAME[name.lower()].modes
        if mode is not None and mode not in modes and not (name == "entity" and given[name].lower() == "polls"):
            raise OptionsError(within + _wrong_mode(name, mode))


def _interval_ms(one: _Given) -> int:
    default = BY_NAME["pollinterval"].default or ""
    given = one.given.get("pollInterval", default)
    return _duration_ms("pollInterval", given, minimum=_MIN_INTERVAL_MS, within=one.within)


def _beat_ms(each: Iterable[_Given], intervals: Mapping[str, int]) -> int:
    """Return the shortest interval, on whose beat all clusters are polled."""
    shortest = min(intervals, key=intervals.__getitem__)
    beat_ms = intervals[shortest]
    for one in each:
        if intervals[one.alias] % beat_ms:
            raise OptionsError(
                f"{one.within}pollInterval: {intervals[one.alias]} ms are not a whole multiple of {beat_ms} ms, the "
                f"shortest pollInterval of all clusters (of {shortest}), on whose beat they are polled: change either"
            )
    return beat_ms


@dataclass(frozen=True, slots=True)
class GroupLogOptions:
    """A read of the coordinators' log. `starting` is a time in ms since 1970 where it is neither end of the log."""

    clusters: tuple[Cluster, ...]
    starting: Literal["earliest", "latest"] | int
    max_records: int
    request_timeout_ms: int
    client_hash_key: str | None
    groups_pattern: str | None
    """For names of groups, whole (RE2)."""
    resume_at: Mapping[str, Mapping[int, int]]
    """By alias and partition: up to which offset a log was read, of which the checkpoint need not know."""


def _check_modes(given: Iterable[str], known: Mapping[str, Option], mode: Mode | None) -> None:
    """Raise OptionsError for an option that a read of this mode does not have."""
    for name in given:
        if mode is not None and mode not in known[name.lower()].modes:
            raise OptionsError(f"{name}: not in a {mode} read, which reads all there is")


def parse_group_log(options: Mapping[str, str], mode: Mode | None = None) -> GroupLogOptions:
    """Check and type the options of `kafka_group_log`, as `parse` does those of `kafka_metadata`. Raises
    OptionsError.
    """
    given = _by_name(options, GROUP_LOG_BY_NAME)
    _check_modes(given, GROUP_LOG_BY_NAME, mode)
    default = {option.name: option.default or "" for option in GROUP_LOG_OPTIONS}
    pattern = given.get("groupsPattern")
    return GroupLogOptions(
        clusters=tuple(map(_cluster, _each(given, GROUP_LOG_BY_NAME))),
        starting=_starting(given.get("startingOffsets", default["startingOffsets"])),
        max_records=_integer(
            "maxRecordsPerBatch",
            given.get("maxRecordsPerBatch", default["maxRecordsPerBatch"]),
            minimum=1,
        ),
        request_timeout_ms=_duration_ms(
            "requestTimeout", given.get("requestTimeout", default["requestTimeout"]), minimum=1
        ),
        client_hash_key=given.get("clientHashKey"),
        groups_pattern=None if pattern is None else whole_name(_pattern("groupsPattern", pattern)),
        resume_at=_resume_at(given.get("resumeAt", "{}")),
    )


@dataclass(frozen=True, slots=True)
class ClusterLogOptions:
    """A read of the controllers' log: of clusters, whose `bootstrap_servers` are controllers, or of files at a path.

    `brokers`: by alias, how to reach the brokers of those clusters whose id is not given: they say it.
    """

    clusters: tuple[Cluster, ...]
    brokers: Mapping[str, Cluster]
    starting: Literal["earliest", "snapshot"]
    request_timeout_ms: int
    max_bytes_per_second: int
    resume_at: Mapping[str, Mapping[int, int]]
    """By alias, up to which offset a log was read, of which the checkpoint need not know; it has one partition, 0."""
    files: ClusterLogFiles | None = None


@dataclass(frozen=True, slots=True)
class ClusterLogFiles:
    """Where files of a controller are, and whose they are."""

    path: str
    alias: str
    cluster_id: str | None


def parse_cluster_log(options: Mapping[str, str], mode: Mode | None = None) -> ClusterLogOptions:
    """Check and type the options of `kafka_cluster_log`, as `parse` does those of `kafka_metadata`. Raises
    OptionsError.
    """
    given = _by_name(options, CLUSTER_LOG_BY_NAME)
    files = _files(given, mode)
    _check_modes(given, CLUSTER_LOG_BY_NAME, mode)
    default = {option.name: option.default or "" for option in CLUSTER_LOG_OPTIONS}
    starting = _choice(default | given, "startingOffsets", ("earliest", "snapshot"), "")
    each = () if files else tuple(_each(given, CLUSTER_LOG_BY_NAME))
    return ClusterLogOptions(
        clusters=tuple(map(_controllers, each)),
        brokers={one.alias: _brokers(one) for one in each if "clusterId" not in one.given},
        starting="snapshot" if starting == "snapshot" else "earliest",
        request_timeout_ms=_duration_ms("requestTimeout", (default | given)["requestTimeout"], minimum=1),
        max_bytes_per_second=_integer("maxBytesPerSecond", (default | given)["maxBytesPerSecond"], minimum=10_000),
        resume_at=_resume_at(given.get("resumeAt", "{}")),
        files=files,
    )


def _files(given: Mapping[str, str], mode: Mode | None) -> ClusterLogFiles | None:
    if "path" not in given:
        return None
    if mode == "stream":
        raise OptionsError("path: not in a stream read, which follows controllers")
    for name in given:
        if name not in {"path", "cluster", "clusterId"}:
            raise OptionsError(f"{name}: contradicts path: files are read whole, and nobody is asked")
    return ClusterLogFiles(given["path"], _checked_alias(given.get("cluster", "default"), ""), given.get("clusterId"))


def _controllers(one: _Given) -> Cluster:
    """Return how to reach the controllers of a cluster: by the options of their own, else by those of its brokers."""
    if CONTROLLER_SERVERS not in one.given:
        raise OptionsError(f"{one.within}{CONTROLLER_SERVERS}: missing")
    own = {name.replace(CONTROLLERS, "kafka.", 1): value for name, value in one.given.items() if CONTROLLERS in name}
    # Of the brokers' security nothing is meant for controllers that have another.
    unfit: tuple[str, ...] = ()
    protocol = own.get("kafka.security.protocol", "SASL_SSL").upper()
    if "SASL" not in protocol or "kafka.sasl.mechanism" in own:
        unfit += _SASL
    if "SSL" not in protocol:
        unfit += ("kafka.ssl.",)
    others = {name: value for name, value in _of_brokers(one).items() if not name.startswith(unfit)}
    return _cluster(_Given(one.alias, others | own, f"{one.within}controllers: "))


def _brokers(one: _Given) -> Cluster:
    """Return how to reach the brokers of a cluster."""
    given = _of_brokers(one)
    if "kafka.bootstrap.servers" not in given:
        raise OptionsError(
            f"{one.within}clusterId: missing: it keeps another cluster's log out. Give it (kafka-cluster.sh cluster-id "
            "--bootstrap-server HOST:PORT), or kafka.bootstrap.servers, whose brokers say it"
        )
    return _cluster(_Given(one.alias, given, one.within))


def _of_brokers(one: _Given) -> dict[str, str]:
    return {name: value for name, value in one.given.items() if CONTROLLERS not in name}


def _resume_at(text: str) -> dict[str, dict[int, int]]:
    try:
        given = json.loads(text)
        return {
            alias: {int(partition): int(offset) for partition, offset in offsets.items()}
            for alias, offsets in given.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise OptionsError('resumeAt: not JSON such as {"alias": {"0": 42}}') from None


def _starting(text: str) -> Literal["earliest", "latest"] | int:
    match text.lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise OptionsError(
            f"startingOffsets: {text!r} is neither earliest, latest, a time such as 2026-11-22T09:00:00Z nor "
            f"milliseconds since 1970"
        ) from None
    if time.tzinfo is None:
        raise OptionsError(f"startingOffsets: {text!r} has no zone: end it with Z or an offset such as +01:00")
    return int(time.timestamp() * 1000)


_STREAM: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


def _stream(given: Mapping[str, str]) -> str | None:
    stream = given.get("newestStream")
    if stream is not None and not _STREAM.fullmatch(stream):
        raise OptionsError(f"newestStream: {stream!r} is not the name of a stream, such as 20261101T110000Z-0123abcd")
    return stream


def _doubted_clock(given: Mapping[str, str]) -> tuple[float, float] | None:
    if (text := given.get("doubtedClock")) is None:
        return None
    says = f"doubtedClock: {text!r} is not two times with a zone, such as 2026-11-02T11:00:00Z, and a / between"
    try:
        since, until = (datetime.fromisoformat(time) for time in text.split("/"))
    except ValueError:
        raise OptionsError(says) from None
    if None in (since.tzinfo, until.tzinfo):
        raise OptionsError(says)
    return since.timestamp(), until.timestamp()


def _wrong_mode(name: str, mode: Mode) -> str:
    if name == "entity":
        return "entity: a stream reads polls; brokers, topics and partitions are entities of a batch read"
    return f"{name}: not in a {mode} read, which polls once"


HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
"""How an option ends that says nothing, as in Java, where host names are not to be checked."""


def _by_name(options: Mapping[str, str], known: Mapping[str, Option], *, within: str = "") -> dict[str, str]:
    """Return the options by their names as the table of those `known` spells them."""
    given: dict[str, str] = {}
    for key, value in options.items():
        option = known.get(_SPELLINGS.get(key.lower(), key.lower()))
        if option is None:
            raise OptionsError(f"{within}unknown option {key!r}{_hint(key, known)}")
        if within and not option.per_cluster:
            raise OptionsError(
                f"{within}{option.name}: one for the whole read, it cannot differ from cluster to cluster"
            )
        if option.name in given:
            raise OptionsError(f"{within}{option.name}: given twice, in two spellings")
        if not value.strip() and option.name.endswith(HOST_CHECK):
            value = "none"  # noqa: PLW2901 - how Java clients say it
        if not value.strip():
            raise OptionsError(f"{within}{option.name}: empty")
        if option.secret and not REFERENCE.fullmatch(value):
            # The value may be the secret itself: it is not shown.
            raise OptionsError(
                f"{within}{option.name}: not a reference: give env:NAME (an environment variable of the executors) or "
                "file:/path, so that no secret gets into a plan or a log"
            )
        given[option.name] = value.strip()
    return given


def client_option(name: str) -> Option | None:
    """Return the option that a file of a client calls `name`, with `kafka.` or without; None where no option is needed
    for it. Raises OptionsError for a name that is mistyped, and for what has another form here.
    """
    names = name.lower(), f"kafka.{name.lower()}"
    for each in names:
        if (option := BY_NAME.get(_SPELLINGS.get(each, each))) is not None:
            return option
    if any(each in _NEEDLESS for each in names):
        return None
    if any(each in _ELSEWHERE or _did_you_mean(each, BY_NAME) for each in names):
        raise OptionsError(f"unknown option {name!r}{_hint(name, BY_NAME)}")
    return None


def _hint(key: str, known: Mapping[str, Option]) -> str:
    names = key.lower(), f"kafka.{key.lower()}"
    for name in names:
        if todo := _ELSEWHERE.get(name) or _NEEDLESS.get(name):
            return f": {todo}"
        spelt = _SPELLINGS.get(name, name)
        if spelt in known:
            return f": did you mean {known[spelt].name!r}?"
    for name in names:
        if hint := _did_you_mean(name, known):
            return f": {hint}"
    if names[0].startswith("kafka."):
        return ": nothing here needs it, leave it out; docs/options.md has all options"
    return f": the options are {', '.join(option.name for option in known.values())}"


def _did_you_mean(name: str, known: Mapping[str, Option]) -> str:
    """Ask for the name that is meant, or nothing. Names of Kafka begin alike: one that differs in more than a letter or
    two is an option of its own.
    """
    return did_you_mean(name, known, "", lambda close: repr(known[close].name), 0.94 if "." in name else 0.8)


@dataclass(frozen=True, slots=True)
class _Given:
    """The options of one cluster by their names; `within` is where an error is, for the beginning of its line."""

    alias: str
    given: Mapping[str, str]
    within: str = ""


def _each(given: Mapping[str, str], known: Mapping[str, Option]) -> list[_Given]:
    """Return the options of each cluster: its own, and those that hold for all."""
    common = {name: value for name, value in given.items() if known[name.lower()].per_cluster}
    if "clusters" not in given:
        return [_Given(given.get("cluster", "default"), _by_protocol(common, ""))]
    for name in ("cluster", "clusterId"):
        if name in given:
            raise OptionsError(f"{name}: contradicts clusters, where each cluster has its own")
    clusters = _json_object(given["clusters"])
    if not clusters:
        raise OptionsError("clusters: no cluster in it")
    return [
        _Given(alias, _by_protocol({**common, **_by_name(_texts(alias, own), known, within=within)}, within), within)
        for alias, own in clusters.items()
        for within in (f"clusters[{alias!r}]: ",)
    ]


def _json_object(text: str) -> dict[str, Any]:
    def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for name, value in pairs:
            if name in names:
                raise OptionsError(f"clusters: {name!r} is there twice")
            names[name] = value
        return names

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise OptionsError(f"clusters: not JSON: {error}") from None
    except RecursionError:
        raise OptionsError("clusters: nested too deeply") from None
    if not isinstance(value, dict):
        raise OptionsError("clusters: not a JSON object of aliases")
    return value


def _texts(alias: str, own: Any) -> dict[str, str]:
    if not isinstance(own, dict):
        raise OptionsError(f"clusters[{alias!r}]: not a JSON object of options")
    for key, value in own.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise OptionsError(f"clusters[{alias!r}]: {key}: neither text nor a whole number")
    return {key: str(value) for key, value in own.items()}


_ALIAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _checked_alias(alias: str, within: str) -> str:
    if not _ALIAS.fullmatch(alias):
        raise OptionsError(f"{within}the alias {alias!r} is not 1 to 100 letters, digits, '.', '_' or '-'")
    return alias


def _cluster(one: _Given) -> Cluster:
    given, within = one.given, one.within
    alias = _checked_alias(one.alias, within)
    if "kafka.bootstrap.servers" not in given:
        raise OptionsError(f"{within}kafka.bootstrap.servers: missing")
    cluster = Cluster(
        alias=alias,
        bootstrap_servers=_servers(given["kafka.bootstrap.servers"], within),
        client_id=given.get("kafka.client.id", "kafka-metadata-history"),
        security_protocol=_choice(given, "kafka.security.protocol", _SECURITY_PROTOCOLS, within) or "PLAINTEXT",
        max_response_bytes=_integer(
            "maxResponseBytes",
            given.get("maxResponseBytes", BY_NAME["maxresponsebytes"].default or ""),
            minimum=1,
            within=within,
        ),
        cluster_id=given.get("clusterId"),
        kind=_kind(given, within),
        metadata_version=(
            _integer(
                "metadataVersion", given["metadataVersion"], minimum=0, maximum=METADATA_VERSIONS[-1], within=within
            )
            if "metadataVersion" in given
            else None
        ),
        sasl_mechanism=_choice(given, "kafka.sasl.mechanism", _SASL_MECHANISMS, within),
        sasl_username=given.get("kafka.sasl.username"),
        sasl_password=given.get("kafka.sasl.password"),
        sasl_jaas_config=given.get("kafka.sasl.jaas.config"),
        sasl_oauthbearer_token_endpoint_url=_url(given, "kafka.sasl.oauthbearer.token.endpoint.url", within),
        sasl_oauthbearer_client_id=given.get("kafka.sasl.oauthbearer.client.id"),
        sasl_oauthbearer_client_secret=given.get("kafka.sasl.oauthbearer.client.secret"),
        sasl_oauthbearer_scope=given.get("kafka.sasl.oauthbearer.scope"),
        sasl_oauthbearer_extensions=_extensions(given, "kafka.sasl.oauthbearer.extensions", within),
        https_ca_location=given.get("kafka.https.ca.location"),
        sasl_kerberos_service_name=given.get("kafka.sasl.kerberos.service.name", "kafka"),
        ssl_ca_location=given.get("kafka.ssl.ca.location"),
        ssl_certificate_location=given.get("kafka.ssl.certificate.location"),
        ssl_key_location=given.get("kafka.ssl.key.location"),
        ssl_key_password=given.get("kafka.ssl.key.password"),
        ssl_check_hostname=_choice(given, f"kafka.{HOST_CHECK}", ("https", "none"), within) != "none",
    )
    if cluster.cluster_id is not None and cluster.metadata_version in {0, 1}:
        raise OptionsError(
            f"{within}clusterId: contradicts metadataVersion {cluster.metadata_version}, whose answers have none"
        )
    _choice(given, "kafka.sasl.oauthbearer.method", ("oidc",), within)
    _check_security(cluster, given, within)
    return cluster


def _check_security(cluster: Cluster, given: Mapping[str, str], within: str) -> None:
    def contradiction(problem: str) -> OptionsError:
        return OptionsError(f"{within}{problem}")

    sasl = [name for name in given if name.startswith(_SASL)]
    ssl = [name for name in given if name.startswith("kafka.ssl.")]
    if sasl and not cluster.sasl:
        raise contradiction(
            f"{sasl[0]}: contradicts kafka.security.protocol {cluster.security_protocol}, which has no SASL"
        )
    if ssl and not cluster.tls:
        raise contradiction(
            f"{ssl[0]}: contradicts kafka.security.protocol {cluster.security_protocol}, which has no TLS"
        )
    if cluster.sasl:
        problem = _sasl_problem(cluster, given)
        if problem is not None:
            raise contradiction(problem)
    if cluster.ssl_key_location is not None and cluster.ssl_certificate_location is None:
        raise contradiction("kafka.ssl.key.location: without kafka.ssl.certificate.location")
    if cluster.ssl_key_password is not None and cluster.ssl_certificate_location is None:
        raise contradiction("kafka.ssl.key.password: without kafka.ssl.certificate.location")


_SASL: Final = ("kafka.sasl.", "kafka.https.")
_PASSWORD: Final = ("kafka.sasl.username", "kafka.sasl.password")
_CLIENT: Final = ("kafka.sasl.oauthbearer.client.id", "kafka.sasl.oauthbearer.client.secret")


def _sasl_problem(cluster: Cluster, given: Mapping[str, str]) -> str | None:
    """Return what is missing or too much for the mechanism."""
    mechanism = cluster.sasl_mechanism
    if mechanism is None:
        return f"kafka.sasl.mechanism: missing, one of {', '.join(_SASL_MECHANISMS)}"
    if mechanism == "AWS_MSK_IAM" and not cluster.tls:
        return f"kafka.sasl.mechanism: AWS_MSK_IAM contradicts kafka.security.protocol {cluster.security_protocol}"
    takes = {
        "OAUTHBEARER": ("kafka.sasl.jaas.config", "kafka.sasl.oauthbearer.", "kafka.https."),
        "AWS_MSK_IAM": ("kafka.sasl.jaas.config",),
        "GSSAPI": ("kafka.sasl.kerberos.",),
    }.get(mechanism, (*_PASSWORD, "kafka.sasl.jaas.config"))
    for name in given:
        if name.startswith(_SASL) and not name.startswith(("kafka.sasl.mechanism", *takes)):
            return f"{name}: contradicts kafka.sasl.mechanism {mechanism}"
    if mechanism == "OAUTHBEARER":
        if cluster.sasl_oauthbearer_token_endpoint_url is None:
            return "kafka.sasl.oauthbearer.token.endpoint.url: missing"
        return _jaas_or_both(_CLIENT, given)
    return _jaas_or_both(_PASSWORD, given) if mechanism in PASSWORD_MECHANISMS else None


def _jaas_or_both(names: tuple[str, str], given: Mapping[str, str]) -> str | None:
    direct = [name for name in names if name in given]
    if "kafka.sasl.jaas.config" in given:
        return f"{direct[0]}: contradicts kafka.sasl.jaas.config, which has the same" if direct else None
    return None if len(direct) == len(names) else f"{' and '.join(names)}: both are needed (or kafka.sasl.jaas.config)"


def _url(given: Mapping[str, str], name: str, within: str) -> str | None:
    if name not in given:
        return None
    try:
        url = urlsplit(given[name])
        is_one = url.scheme in {"http", "https"} and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        is_one = False
    if not is_one or "@" in url.netloc:
        # Not shown: there may be a password in it.
        raise OptionsError(f"{within}{name}: not a URL such as https://host/path, without a user in it")
    return given[name]


_EXTENSION: Final = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x20-\x7e]+)")


def _extensions(given: Mapping[str, str], name: str, within: str) -> tuple[tuple[str, str], ...]:
    """Return SASL extensions; `auth` is where the token is (RFC 7628)."""
    if name not in given:
        return ()
    matches = [_EXTENSION.fullmatch(part.strip()) for part in given[name].split(",")]
    pairs = tuple((match["name"], match["value"]) for match in matches if match and match["name"] != "auth")
    if len(dict(pairs)) != len(matches):
        raise OptionsError(f"{within}{name}: not name=value, comma-separated, each name of letters and there once")
    return pairs


_PROTOCOL: Final = re.compile(rf"(?:^|(?<=,))\s*({'|'.join(_SECURITY_PROTOCOLS)})://", re.IGNORECASE)


def _by_protocol(given: Mapping[str, str], within: str) -> dict[str, str]:
    """Return the options with the protocol of addresses such as `SASL_SSL://host:9092` as the option that it is.

    librdkafka takes such an address if the option says the same. Java passes the protocol over.
    """
    found = dict(given)
    for begin in ("kafka.", CONTROLLERS):
        servers, option = f"{begin}bootstrap.servers", f"{begin}security.protocol"
        text = given.get(servers, "")
        for protocol in _PROTOCOL.findall(text):
            if found.setdefault(option, protocol).upper() != protocol.upper():
                raise OptionsError(f"{within}{servers}: {protocol}:// contradicts {option} {found[option]}")
        if text:
            found[servers] = _PROTOCOL.sub("", text)
    return found


_SERVER: Final = re.compile(r"\[(?P<ip6>[0-9A-Fa-f:.%]+)\]:(?P<port6>\d+)|(?P<host>[^\s:/@]+):(?P<port>\d+)")


def _servers(text: str, within: str) -> tuple[tuple[str, int], ...]:
    """Return hosts and ports. A comma at the end is taken, as clients of Kafka do."""
    if "@" in text:
        # Not shown: there may be a password in it.
        raise OptionsError(f"{within}kafka.bootstrap.servers: not host:port, comma-separated, without a user in it")
    servers: dict[tuple[str, int], None] = {}
    for server in (part.strip() for part in text.rstrip().removesuffix(",").split(",")):
        match = _SERVER.fullmatch(server)
        port = int(match["port"] or match["port6"]) if match else 0
        if match is None or not 0 < port < 65_536:
            raise OptionsError(f"{within}kafka.bootstrap.servers: {server!r} is not host:port")
        servers[match["host"] or match["ip6"], port] = None
    return tuple(servers)


def _kind(given: Mapping[str, str], within: str) -> str:
    kind = given.get("kind", KAFKA).lower()
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS, f"known are {', '.join(KINDS)}")
        raise OptionsError(f"{within}kind: {given['kind']!r} is no kind of cluster; {hint}")
    return kind


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...], within: str) -> str | None:
    if name not in given:
        return None
    for choice in choices:
        if given[name].lower() == choice.lower():
            return choice
    raise OptionsError(f"{within}{name}: {given[name]!r} is none of {', '.join(choices)}")


def whole_number(text: str) -> int | None:
    """Return a number that is written in decimal digits, also with `_` between them; None for any other text."""
    return int(text) if re.fullmatch(r"-?(?=.{1,24}\Z)[0-9]+(_[0-9]+)*", text) else None


def _integer(name: str, text: str, *, minimum: int, maximum: int = 2**31 - 1, within: str = "") -> int:
    number = whole_number(text)
    if number is None or not minimum <= number <= maximum:
        raise OptionsError(f"{within}{name}: {text!r} is not a whole number from {minimum} to {maximum}")
    return number


_DURATION: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>[a-z]+)")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
}


def duration_ms(text: str) -> int:
    """Return a duration such as `500ms`, `2 s`, `1.5 minutes` or `5m` in milliseconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match["unit"] not in _UNITS_MS:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 30s or 5m")
    return round(float(match["number"]) * _UNITS_MS[match["unit"]])


def _duration_ms(name: str, text: str, *, minimum: int, within: str = "") -> int:
    name = within + name
    try:
        milliseconds = duration_ms(text)
    except ValueError as error:
        raise OptionsError(f"{name}: {error}") from None
    maximum = 24 * 3_600_000
    if not minimum <= milliseconds <= maximum:
        raise OptionsError(f"{name}: {text!r} is not between {minimum} ms and 24 hours")
    return milliseconds


def _enrich(one: _Given, entity: str, mode: Mode | None) -> dict[str, int]:
    """Return what is asked beside metadata, and the least time between two askings."""
    text, within = one.given.get("enrich", "none"), one.within
    if text.lower() == "none":
        return {}
    if entity != "polls":
        raise OptionsError(f"{within}enrich: contradicts entity {entity}: its answers are in the rows of polls")
    beats: dict[str, int] = {}
    for part in text.split(","):
        name, with_beat, beat = (text.strip() for text in part.partition("="))
        kind = name.lower()
        if kind not in ENRICHMENTS:
            hint = did_you_mean(kind, ENRICHMENTS, shown=repr)
            raise OptionsError(f"{within}enrich: {name!r} is none of {', '.join(ENRICHMENTS)}{hint and f': {hint}'}")
        if kind in beats:
            raise OptionsError(f"{within}enrich: {kind} is there twice")
        if with_beat and mode == "batch":
            raise OptionsError(f"{within}enrich: {part.strip()!r}: a batch read asks once; leave the beat out")
        beats[kind] = _duration_ms(
            f"enrich: {kind}", beat if with_beat else ENRICHMENTS[kind], minimum=_MIN_INTERVAL_MS, within=within
        )
    return beats


def _enrich_timeout_ms(one: _Given, room_ms: int | None, request_timeout_ms: int) -> int:
    """Return the bound of all questions; `room_ms`: the least time until something waits for them."""
    if "enrichTimeout" not in one.given:
        return min(ENRICH_TIMEOUT_MS, request_timeout_ms)
    timeout_ms = _duration_ms("enrichTimeout", one.given["enrichTimeout"], minimum=1, within=one.within)
    if room_ms is not None and timeout_ms > room_ms / 2:
        raise OptionsError(
            f"{one.within}enrichTimeout: {timeout_ms} ms are more than half of {room_ms} ms, the time from a poll to "
            "the next one or to the next batch (pollInterval, pollsPerBatch): the rest is kept for that"
        )
    return timeout_ms


_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_filter(options: Mapping[str, str]) -> TopicFilter:
    """Return which topics a read with these options of `kafka_metadata` covers. Raises OptionsError."""
    return _topic_filter(_by_name(options, BY_NAME))


def _topic_filter(given: Mapping[str, str]) -> TopicFilter:
    if "topics" in given and "topicsPattern" in given:
        raise OptionsError("topics: contradicts topicsPattern, give one of them")
    if "topics" in given:
        names = tuple(dict.fromkeys(name.strip() for name in given["topics"].split(",")))
        for name in names:
            if not _TOPIC.fullmatch(name):
                raise OptionsError(f"topics: {name!r} cannot be a topic's name; patterns go into topicsPattern")
        return TopicFilter(topics=names)
    if "topicsPattern" in given:
        return TopicFilter(pattern=_pattern("topicsPattern", given["topicsPattern"]))
    return TopicFilter()


def _pattern(name: str, pattern: str) -> str:
    # The engine that will match has the last word on what a pattern is. Imported here to keep the module light.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        # Alone first: `a)|(b` is none, but would become one between the brackets of the other.
        for each in (pattern, whole_name(pattern)):
            pc.match_substring_regex(pa.array([""]), each)
    except pa.ArrowInvalid as error:
        raise OptionsError(f"{name}: {pattern!r} is not a regular expression of RE2: {error}") from None
    return pattern


def whole_name(pattern: str) -> str:
    r"""Return the regular expression that matches `pattern` against a whole name (RE2's ``\A`` and ``\z``)."""
    return rf"\A(?:{pattern})\z"


REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\0\n]+")

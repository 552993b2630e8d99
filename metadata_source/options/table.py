"""All options: of each its name, its meaning, how its text is read, and its default.

`python -m tools.reference` writes docs/options.md from it, `python -m tools.config_schema`
conf/schema.json.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from metadata_source.kinds import KAFKA, KINDS
from metadata_source.options import readers
from metadata_source.options.readers import ENRICHMENTS, METADATA_VERSIONS, MIN_INTERVAL_MS

if TYPE_CHECKING:
    from collections.abc import Callable

Mode = Literal["batch", "stream"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Without a default it may be left out, unless its meaning says otherwise."""

    name: str
    read: Callable[[str], Any] = str
    """A reader (`metadata_source.options.readers`)."""
    default: str | None = None
    derived: str = ""
    """In words, a default that follows from other options."""
    only: tuple[Mode, str] | None = None
    """The one mode that has it, and why the other has not; no reason where the value decides."""
    per_cluster: bool = False
    """May differ from cluster to cluster in `clusters`."""
    secret: bool = False
    """Is a reference to a secret."""
    by_jobs: bool = False
    """The jobs give it, and their configuration does not."""
    meaning: str = ""

    def means(self, meaning: str) -> Option:
        """Return the option with its meaning, as docs/options.md prints it."""
        return replace(self, meaning=meaning)


SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
SASL: Final = ("kafka.sasl.", "kafka.https.")
"""How options of SASL begin."""
TLS: Final = ("kafka.ssl.",)

_own: Final = partial(Option, per_cluster=True)
_secret: Final = partial(_own, secret=True)
_POLLS_ONCE: Final = ("stream", "not in a batch read, which polls once")
_READS_ALL: Final = ("stream", "not in a batch read, which reads all there is")

HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
"""How an option ends that says nothing, as in Java, where host names are not to be checked."""
_CLUSTER_OPTIONS: Final = (
    _own("kafka.bootstrap.servers", readers.servers).means(
        "`host:port`, comma-separated: where to ask first. Required."
    ),
    _own("kafka.client.id", str, "kafka-metadata-history").means(
        "The name that the brokers' request logs and quotas show."
    ),
    _own("kafka.security.protocol", partial(readers.choice, SECURITY_PROTOCOLS), "PLAINTEXT").means(
        "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."
    ),
    _own("kafka.sasl.mechanism", partial(readers.choice, SASL_MECHANISMS)).means(
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`."
    ),
    _own("kafka.sasl.username").means("The user, for `PLAIN` and SCRAM."),
    _secret("kafka.sasl.password").means("The user's password: a reference."),
    _secret("kafka.sasl.jaas.config").means(
        "Instead of user and password, or client id and secret, a Java client's line "
        "(`PlainLoginModule`, `ScramLoginModule`, `OAuthBearerLoginModule`, `IAMLoginModule`): a "
        "reference."
    ),
    _own("kafka.sasl.oauthbearer.method", partial(readers.choice, ("oidc",)), "oidc").means(
        "`oidc`: tokens are asked of an endpoint."
    ),
    _own("kafka.sasl.oauthbearer.token.endpoint.url", readers.url).means(
        "Where to ask for tokens, for `OAUTHBEARER`: `https://host/path`. The operator of the "
        "machine may list which (docs/security.md)."
    ),
    _own("kafka.sasl.oauthbearer.client.id").means("The client that tokens are for."),
    _secret("kafka.sasl.oauthbearer.client.secret").means("The client's secret: a reference."),
    _own("kafka.sasl.oauthbearer.scope").means("The scope to ask for."),
    _own("kafka.sasl.oauthbearer.extensions", readers.extensions).means(
        "SASL extensions to send with the token: `name=value`, comma-separated."
    ),
    _own("kafka.https.ca.location").means(
        "PEM file of the authorities to trust for the token endpoint; the system's where it is "
        "not given."
    ),
    _own("kafka.sasl.kerberos.service.name", default="kafka").means(
        "The brokers' Kerberos service, for `GSSAPI`."
    ),
    _own("kafka.ssl.ca.location").means(
        "PEM file of the authorities to trust; the system's where it is not given."
    ),
    _own("kafka.ssl.certificate.location").means(
        "PEM file of the client's certificate, for mutual TLS."
    ),
    _own("kafka.ssl.key.location").means("PEM file of the client's private key."),
    _secret("kafka.ssl.key.password").means("The private key's password: a reference."),
    _own(f"kafka.{HOST_CHECK}", partial(readers.choice, ("https", "none")), "https").means(
        "`https` checks that the certificate names the host that was asked for, `none` (or "
        "nothing, as in Java) does not."
    ),
    Option("cluster", default="default").means(
        "The alias of the one cluster, where `clusters` is not given."
    ),
    _own("clusterId").means(
        "The cluster id that must answer; another one is a failed poll, and its log is not read. "
        "Where a server tells none, this one is recorded."
    ),
    _own("kind", readers.kind, KAFKA).means(
        "The maker of the cluster, one of "
        + ", ".join(f"`{kind}`" for kind in KINDS)
        + (
            ": it decides which facts mean something, and how records of groups are read "
            "(docs/versions.md, Other makers)."
        )
    ),
    Option("clusters", readers.clusters).means(
        'Many clusters in one read, as JSON: `{"alias": {"kafka.bootstrap.servers": "...", ...}, '
        "...}`. Options beside it hold for every cluster that does not set its own."
    ),
)
_CLIENT_HASH_KEY: Final = Option("clientHashKey", secret=True).means(
    "Client ids and hosts of group members, and what holds them, are replaced by keyed hashes: the "
    "key, a reference. The same key gives the same hashes, which still tell members apart."
)
OPTIONS: Final = (
    *_CLUSTER_OPTIONS,
    Option("topics", readers.topics).means("Only these topics, comma-separated."),
    Option("topicsPattern", readers.pattern).means(
        "Only topics whose whole name matches this regular expression (RE2)."
    ),
    Option(
        "entity",
        partial(readers.choice, ("polls", "brokers", "topics", "partitions")),
        "polls",
        only=("batch", ""),
    ).means(
        "`polls` (as in bronze), or what one poll says as plain rows: `brokers`, `topics`, "
        "`partitions`."
    ),
    _own("pollInterval", partial(readers.duration, MIN_INTERVAL_MS), "30s", only=_POLLS_ONCE).means(
        "The time between two polls of a cluster, such as `500ms`, `30s` or `5m`."
    ),
    Option("spool", only=_POLLS_ONCE, by_jobs=True).means(
        "Folder of the driver's machine in which polls wait for their commit, of one stream alone. "
        "If it is not given, the stream has a temporary folder: polls that were not committed are "
        "lost with it. A configuration has it as a key of its own."
    ),
    Option(
        "commitInterval", partial(readers.duration, MIN_INTERVAL_MS), "1m", only=_POLLS_ONCE
    ).means(
        "How long polls without news may wait for their commit. Polls with news are committed at "
        "once, and so are, for a while, those that come after them."
    ),
    Option(
        "minCommitInterval", partial(readers.duration, MIN_INTERVAL_MS), "1s", only=_POLLS_ONCE
    ).means(
        "The least time from one commit to the next. If there are always news, it is twice as long "
        "as the last commit took, up to 10 s."
    ),
    Option("newestStream", readers.stream, only=_POLLS_ONCE, by_jobs=True).means(
        "The newest stream of polls where they are kept, such as `20261101T110000Z-0123abcd`: a "
        "new stream is named to come after it, and one of a checkpoint that comes before it is "
        "refused. The jobs set it."
    ),
    Option("doubtedClock", readers.two_times, only=_POLLS_ONCE, by_jobs=True).means(
        "From when until when the clock of a machine that polls is not believed, such as "
        "`2026-11-02T11:00:00Z/2027-11-01T11:10:00Z`: polls that are due then fail (`clock`), "
        "since it is far ahead of the newest poll that is kept. The jobs set it."
    ),
    Option("knownIds", readers.ids, only=_POLLS_ONCE, by_jobs=True).means(
        'The cluster ids that history has, as JSON: `{"alias": "id"}`. The jobs set it.'
    ),
    Option("recorder", readers.token, only=_POLLS_ONCE, by_jobs=True).means(
        "The name of the run whose recorder polls into `spool`. The jobs set it."
    ),
    _own("enrich", readers.questions).means(
        "Questions to ask beside metadata, comma-separated, after a poll that is good, each on its "
        "own beat or one given (`configs=10m`), never more often than polls: "
        + ", ".join(f"`{question}` ({beat})" for question, beat in ENRICHMENTS.items())
        + ". A cluster for which nothing is to be asked has `none`."
    ),
    Option("groupsPattern", readers.pattern).means(
        "`offsets` of `enrich` are asked of groups only whose whole id matches this regular "
        "expression (RE2); `groups` are always all."
    ),
    _CLIENT_HASH_KEY,
    Option(
        "requestTimeout",
        partial(readers.duration, 1),
        derived="the shortest `pollInterval`, but 1 s at least and 10 s at most",
    ).means(
        "Bounds one poll of one cluster with its retries; one attempt gets half of what is left, "
        "so that another broker can be tried."
    ),
    _own(
        "enrichTimeout",
        partial(readers.duration, 1),
        derived="5s, or `requestTimeout` where that is less",
    ).means(
        "Bounds each question of `enrich`. A question of a stream never takes longer than the time "
        "until it is due again, and no poll waits for it."
    ),
    _own("metadataVersion", partial(readers.integer, 0, maximum=METADATA_VERSIONS[-1])).means(
        "Pins the version of the Metadata request, 0 to 13; otherwise the highest that the broker "
        "has."
    ),
    _own("maxResponseBytes", partial(readers.integer, 1), "16777216").means(
        "The largest answer to accept. A worker holds an answer of each cluster in memory, whoever "
        "sent it. 100,000 partitions are 4.3 MB, so the default has room for 390,000; 1,000,000 "
        "are 43 MB."
    ),
)

_RESUME_AT: Final = Option("resumeAt", readers.places, only=_READS_ALL, by_jobs=True).means(
    'Where a log without a place in the checkpoint was read up to, as JSON: `{"alias": '
    '{"partition": offset}}`. '
    "It begins there, and not at `startingOffsets`: what is gone since is a row (`lost`). The "
    "jobs set it."
)
_COMMIT_INTERVAL: Final = Option(
    "commitInterval", partial(readers.duration, 1_000), "1m", only=_READS_ALL
).means(
    "A record of a group, or of a cluster's state, begins a batch at once, and so does a "
    "transaction that is aborted after its time-out. Offset commits, other records of "
    "transactions, and records that say nothing (NoOpRecord), wait so long at most for a batch."
)
_MIN_COMMIT_INTERVAL: Final = Option(
    "minCommitInterval", partial(readers.duration, 100), "1s", only=_READS_ALL
).means(
    "The least time from the beginning of one batch to the next. While news keeps coming it is "
    "twice the time that the batch before took, at most 10 s."
)
_LOG_REQUEST_TIMEOUT: Final = Option("requestTimeout", partial(readers.duration, 1), "30s").means(
    "Bounds each question to a cluster. A partition's reading fails when nothing comes for so long."
)
TRANSACTION_LOG_OPTIONS: Final = (
    *_CLUSTER_OPTIONS,
    Option("startingOffsets", readers.starting, "earliest").means(
        "Where a stream without a checkpoint, or a batch read, begins: `earliest`, `latest`, or a "
        "time: ISO 8601 with its zone, or milliseconds since 1970. A partition that has nothing "
        "from then on begins at its end."
    ),
    _RESUME_AT,
    Option("maxRecordsPerBatch", partial(readers.integer, 1), "5000000", only=_READS_ALL).means(
        "The most offsets of one cluster's log that a micro-batch goes through; partitions share "
        "them by what they have left."
    ),
    _COMMIT_INTERVAL,
    _MIN_COMMIT_INTERVAL,
    _LOG_REQUEST_TIMEOUT,
)
GROUP_LOG_OPTIONS: Final = (
    *TRANSACTION_LOG_OPTIONS[:-1],
    Option("groupsPattern", readers.pattern).means(
        "Only offset commits of groups whose whole name matches this regular expression (RE2) are "
        "kept. Records of groups are kept of every group."
    ),
    _LOG_REQUEST_TIMEOUT,
    _CLIENT_HASH_KEY,
)

CONTROLLERS: Final = "kafka.controller."
"""How options begin by which controllers are reached."""
CONTROLLER_SERVERS: Final = f"{CONTROLLERS}bootstrap.servers"
OF_ONE_CLUSTER: Final = ("cluster", "clusters", "clusterId", CONTROLLER_SERVERS)
"""Options of each cluster in a configuration, as its alias or below it, and never for all."""
CLUSTER_LOG_OPTIONS: Final = (
    *_CLUSTER_OPTIONS,
    _own(CONTROLLER_SERVERS).means(
        "`host:port` of controllers, comma-separated (their listeners of "
        "`controller.listener.names`). Controllers before Kafka 3.9 do not say where the others "
        "are: name all. Required, unless `path` is given."
    ),
    Option("startingOffsets", partial(readers.choice, ("earliest", "snapshot")), "earliest").means(
        "Where a stream without a checkpoint, or a batch read, begins: `earliest` (the first "
        "record that can be read, after the snapshot that holds what came before it, if there is "
        "one) or `snapshot` (the latest snapshot, and what came after it; old controllers name "
        "none as long as the log has its beginning, which is read then)."
    ),
    _RESUME_AT,
    _COMMIT_INTERVAL,
    _MIN_COMMIT_INTERVAL,
    Option("requestTimeout", partial(readers.duration, 1), "30s").means(
        "Bounds each search for the active controller. The reading of a log fails when nothing "
        "comes for so long."
    ),
    Option("maxBytesPerSecond", partial(readers.integer, 10_000), "5000000").means(
        "The most that is read of one cluster's log in a second: controllers hold back no fetch of "
        "it by a quota. The first answer of a batch comes at once (1 MiB, of controllers before "
        "Kafka 4.3 up to 8 MiB). 100,000 changes of partitions are some 10 MB."
    ),
    Option("path", only=("batch", "not in a stream read, which follows controllers")).means(
        "A controller's folder `__cluster_metadata-0`, or one segment (`*.log`) or snapshot "
        "(`*.checkpoint`) of it: read in place of a cluster, for which `cluster` and `clusterId` "
        "may stand. Drivers and executors read it by this name."
    ),
)
_OF_CONTROLLERS: Final = tuple(
    replace(option, name=option.name.replace("kafka.", CONTROLLERS, 1))
    for option in _CLUSTER_OPTIONS
    if option.name.startswith(("kafka.security.", *SASL, *TLS))
)
"""Options of security, where those of controllers are others."""

BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}
CLUSTER_LOG_BY_NAME: Final = {
    option.name.lower(): option for option in (*CLUSTER_LOG_OPTIONS, *_OF_CONTROLLERS)
}
GROUP_LOG_BY_NAME: Final = {option.name.lower(): option for option in GROUP_LOG_OPTIONS}
TRANSACTION_LOG_BY_NAME: Final = {option.name.lower(): option for option in TRANSACTION_LOG_OPTIONS}

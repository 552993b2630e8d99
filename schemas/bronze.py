"""Bronze: what was seen, append only."""

from schemas.table import Column, Table

PARTITION_STRUCT = (
    "struct<partition: int, error_code: int, leader: int, leader_epoch: int, "
    "replicas: array<int>, isr: array<int>, offline_replicas: array<int>>"
)
BROKER_STRUCT = "struct<broker_id: int, host: string, port: int, rack: string>"

POLL_KEY = (
    Column("poll_id", "string", "<stream>/<n, 12 digits>. Sorts as text in the order of polling.", nullable=False),
    Column("stream", "string", "<start, UTC>-<random>: minted once for each checkpoint.", nullable=False),
    Column("n", "bigint", "Number of the planned poll within its stream, without holes.", nullable=False),
    Column("cluster", "string", "Alias of the cluster, as configured.", nullable=False),
    Column(
        "record",
        "string",
        "poll: the header of one poll, failed ones too | topic: one topic as answered | an enrichment: configs, reassignments, elr (a topic each), quorum, fenced.",
        nullable=False,
    ),
    Column("topic", "string", "Topic name; null on headers, quorum and fenced."),
    Column("chunk", "int", "0, 1, ...: a topic of more than 1,000 partitions takes several rows.", nullable=False),
)

POLL_COLUMNS = (
    Column("cluster_id", "string", "Cluster id as answered."),
    Column("received_at", "timestamp", "Poller's clock when the answer was complete; null when none came."),
    Column("interval_ms", "bigint", "Planned time between polls, ms."),
    Column("scheduled_at", "timestamp", "When the poll was due."),
    Column("sent_at", "timestamp", "Poller's clock when the (last) request went out."),
    Column("latency_ms", "double", "Sent to received by a monotonic clock, ms."),
    Column("outcome", "string", "ok | failed. A failed poll says nothing about the cluster's state."),
    Column(
        "error_kind", "string", "Why it failed, one stable word: timeout, unreachable, overlapped, ...; null when ok."
    ),
    Column("error", "string", "Why it failed, one line."),
    Column("attempts", "int", "Requests and connections tried for this poll."),
    Column("broker_id", "int", "Broker that answered, if its id is known."),
    Column("broker", "string", "host:port of the broker that answered."),
    Column("api_version", "int", "Version of the Metadata request and answer."),
    Column("response_bytes", "bigint", "Size of the answer, bytes."),
    Column("throttle_time_ms", "int", "Throttling that the broker asked for, ms."),
    Column("metadata_version_level", "int", "Finalized level of metadata.version; null when unknown."),
    Column("elr_version_level", "int", "Finalized level of eligible.leader.replicas.version; null when unknown."),
    Column("controller_id", "int", "As answered; a random live broker under KRaft, so never compared."),
    Column(
        "topic_filter", "string", 'Topics asked for: null for every one, else {"topics": [...]} or {"pattern": "..."}.'
    ),
    Column("key_frame", "boolean", "True when every topic of the answer has its rows here."),
    Column("topic_count", "int", "Topics in the answer, after the filter."),
    Column("brokers", f"array<{BROKER_STRUCT}>", "Brokers as answered: live, not fenced."),
)

TOPIC_COLUMNS = (
    Column("partition_count", "int", "Partitions of the topic; on headers of the whole answer."),
    Column("present", "boolean", "False: gone since the answer before, in the same batch."),
    Column("topic_id", "string", "Kafka's 22-character id; null before Metadata v10."),
    Column("error_code", "int", "Kafka's error code of the topic; 0 is none."),
    Column("is_internal", "boolean", "Kafka's own topic."),
    Column("digest", "binary", "128 bits over what is kept of the topic and its partitions."),
    Column("digest_version", "int", "Version of the digest's algorithm."),
    Column("partitions", f"array<{PARTITION_STRUCT}>", "At most 1,000 partitions, raw, in the order answered."),
)

ENRICHMENT_COLUMNS = (
    Column(
        "enriched",
        "map<string, string>",
        "On headers: enrichment asked with this poll -> ok (its rows here are all there is) | not_allowed | not_supported | failed: why; null when none was.",
    ),
    Column(
        "configs",
        "map<string, string>",
        "On configs rows: effective min.insync.replicas and unclean.leader.election.enable of the topic; null when they may not be read.",
    ),
    Column(
        "reassignments",
        "array<struct<partition: int, adding: array<int>, removing: array<int>>>",
        "On reassignments rows: the topic's partitions that are being reassigned.",
    ),
    Column(
        "quorum",
        "struct<leader_id: int, leader_epoch: int, voters: array<int>, observers: array<int>>",
        "On quorum rows: the controllers; its leader is the active one.",
    ),
    Column(
        "elr",
        "array<struct<partition: int, elr: array<int>, last_known_elr: array<int>>>",
        "On elr rows: the topic's partitions with eligible, or last known, leaders, where the ISR lacks a replica (KIP-966).",
    ),
    Column("fenced", f"array<{BROKER_STRUCT}>", "On fenced rows: brokers that are registered and fenced."),
)

METADATA_POLLS = Table(
    schema="bronze",
    name="metadata_polls",
    comment="What each poll of each cluster was answered: one header row, and a row for each topic that the batch had not said yet.",
    columns=POLL_KEY + POLL_COLUMNS + TOPIC_COLUMNS + ENRICHMENT_COLUMNS,
    key=("poll_id", "cluster", "record", "topic", "chunk"),
    constraints={
        "record_known": "record IN ('poll', 'topic', 'configs', 'reassignments', 'quorum', 'elr', 'fenced')",
        "topic_named": "(record IN ('poll', 'quorum', 'fenced')) = (topic IS NULL)",
        "outcome_known": "record <> 'poll' OR (outcome IS NOT NULL AND outcome IN ('ok', 'failed'))",
        "failure_explained": "record <> 'poll' OR (outcome = 'ok') = (error_kind IS NULL)",
        "enrichment_of_good_polls": "enriched IS NULL OR (record = 'poll' AND outcome = 'ok')",
        "poll_id_formed": "poll_id = concat(stream, '/', lpad(CAST(n AS STRING), 12, '0'))",
    },
    cluster_by=("poll_id", "cluster"),
)

TABLES = (METADATA_POLLS,)

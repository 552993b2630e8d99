"""Bronze: what was seen, append only."""

from schemas.table import Column, Table

PARTITION_STRUCT = (
    "struct<partition: int, error_code: int, leader: int, leader_epoch: int, "
    "replicas: array<int>, isr: array<int>, offline_replicas: array<int>>"
)
WITNESS_STRUCT = (
    "struct<broker_id: int, broker: string, sent_at: timestamp, received_at: timestamp, error_kind: string, "
    "is_behind: boolean, behind_ms: bigint, partitions_behind: int, epochs_behind: bigint>"
)
BROKER_STRUCT = "struct<broker_id: int, host: string, port: int, rack: string>"

_ASSIGNED = "array<struct<topic_id: string, topic: string, partitions: array<int>>>"
_POLLED_TASKS = "array<struct<subtopology_id: string, partitions: array<int>>>"
GROUP_MEMBER_STRUCT = (
    "struct<member_id: string, instance_id: string, rack: string, client_id: string, client_host: string, epoch: int, "
    f"topics: array<string>, regex: string, assigned: {_ASSIGNED}, target: {_ASSIGNED}, active_tasks: {_POLLED_TASKS}, "
    f"standby_tasks: {_POLLED_TASKS}, warmup_tasks: {_POLLED_TASKS}, target_active_tasks: {_POLLED_TASKS}, "
    f"target_standby_tasks: {_POLLED_TASKS}, target_warmup_tasks: {_POLLED_TASKS}>"
)
GROUP_STRUCT = (
    "struct<group_id: string, group_type: string, protocol_type: string, state: string, error: string, group_epoch: "
    "int, "
    f"target_epoch: int, topology_epoch: int, assignor: string, members: array<{GROUP_MEMBER_STRUCT}>>"
)

POLL_KEY = (
    Column("poll_id", "string", "<stream>/<n, 12 digits>. Sorts as text in the order of polling.", nullable=False),
    Column("stream", "string", "<start, UTC>-<random>: minted once for each checkpoint.", nullable=False),
    Column("n", "bigint", "Number of the planned poll within its stream, without holes.", nullable=False),
    Column("cluster", "string", "Alias of the cluster, as configured.", nullable=False),
    Column(
        "record",
        "string",
        "poll: the header of one poll, failed ones too | topic: one topic as answered | an enrichment: configs, "
        "reassignments, elr (a topic each), quorum, fenced, groups.",
        nullable=False,
    ),
    Column("topic", "string", "Topic name; null on headers, quorum, fenced and groups."),
    Column(
        "chunk",
        "int",
        "0, 1, ...: a topic of more than 1,000 partitions takes several rows, and so do more than 100 groups.",
        nullable=False,
    ),
    Column("day", "date", "Day (UTC) on which the first poll of its batch was due.", nullable=False),
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
        "witnesses",
        f"array<{WITNESS_STRUCT}>",
        "Other brokers that were asked with this poll about what was new in an answer: when, why one did not answer, "
        "and whether one showed an older image than broker_id: how long after the newer one had been seen, and by how "
        "many partitions and leader epochs; null when none was asked.",
    ),
    Column(
        "topic_filter", "string", 'Topics asked for: null for every one, else {"topics": [...]} or {"pattern": "..."}.'
    ),
    Column("is_key_frame", "boolean", "True when every topic of the answer has its rows here."),
    Column("topic_count", "int", "Topics in the answer, after the filter."),
    Column("brokers", f"array<{BROKER_STRUCT}>", "Brokers as answered: live, not fenced."),
)

TOPIC_COLUMNS = (
    Column("partition_count", "int", "Partitions of the topic; on headers of the whole answer."),
    Column("present", "boolean", "False: gone since the answer before, in the same batch."),
    Column("topic_id", "string", "Kafka's 22-character id; null before Metadata v10."),
    Column("error_code", "int", "Kafka's error code of the topic; 0 is none."),
    Column("is_internal", "boolean", "Kafka's own topic."),
    Column(
        "digest",
        "binary",
        "128 bits over what is kept of the topic and its partitions; on headers of good polls over all that the "
        "answer says: "
        "a cluster in which nothing changes has the same from poll to poll.",
    ),
    Column("digest_version", "int", "Version of the digest's algorithm."),
    Column("partitions", f"array<{PARTITION_STRUCT}>", "At most 1,000 partitions, raw, in the order answered."),
)

ENRICHMENT_COLUMNS = (
    Column(
        "enriched",
        "map<string, string>",
        "On headers: enrichment asked with this poll -> ok (its rows here are all there is) | ok: what could not be "
        "told of some | not_allowed | not_supported | failed: why, what is missing; null when none was.",
    ),
    Column(
        "enrichment_digests",
        "map<string, binary>",
        "On headers: enrichment that was answered with this poll -> 128 bits over all its rows; null when none was.",
    ),
    Column(
        "configs",
        "map<string, string>",
        "On configs rows: effective min.insync.replicas and unclean.leader.election.enable of the topic; null when "
        "they may not be read.",
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
        "On elr rows: the topic's partitions with eligible, or last known, leaders, where the ISR lacks a replica "
        "(KIP-966).",
    ),
    Column("fenced", f"array<{BROKER_STRUCT}>", "On fenced rows: brokers that are registered and fenced."),
    Column(
        "groups",
        f"array<{GROUP_STRUCT}>",
        "On groups rows, at most 100 each: groups of every type, each described by its type's own request.",
    ),
)

METADATA_POLLS = Table(
    schema="bronze",
    name="metadata_polls",
    comment=(
        "Answers to each poll of each cluster: one header row, and a row for each topic that the batch "
        "had not said yet."
    ),
    columns=POLL_KEY + POLL_COLUMNS + TOPIC_COLUMNS + ENRICHMENT_COLUMNS,
    key=("poll_id", "cluster", "record", "topic", "chunk"),
    constraints={
        "record_known": "record IN ('poll', 'topic', 'configs', 'reassignments', 'quorum', 'elr', 'fenced', 'groups')",
        "topic_named": "(record IN ('poll', 'quorum', 'fenced', 'groups')) = (topic IS NULL)",
        "outcome_known": "record <> 'poll' OR (outcome IS NOT NULL AND outcome IN ('ok', 'failed'))",
        "failure_explained": "record <> 'poll' OR (outcome = 'ok') = (error_kind IS NULL)",
        "enrichment_of_good_polls": "enriched IS NULL OR (record = 'poll' AND outcome = 'ok')",
        "poll_id_formed": "poll_id = concat(stream, '/', lpad(CAST(n AS STRING), 12, '0'))",
    },
    partition_by=("day",),
)

# --- the coordinators' log ---

_PARTITIONS_BY_NAME = "array<struct<topic: string, partitions: array<int>>>"
_PARTITIONS_BY_ID = "array<struct<topic_id: string, partitions: array<int>>>"
_PARTITIONS_OWNED = "array<struct<topic_id: string, partitions: array<int>, assignment_epochs: array<int>>>"
_TASKS = "array<struct<subtopology_id: string, partitions: array<int>>>"
_TASKS_OWNED = "array<struct<subtopology_id: string, partitions: array<int>, assignment_epochs: array<int>>>"
SUBSCRIPTION_STRUCT = (
    f"struct<version: int, topics: array<string>, user_data: binary, owned_partitions: {_PARTITIONS_BY_NAME}, "
    "generation: int, rack: string>"
)
ASSIGNMENT_STRUCT = f"struct<version: int, partitions: {_PARTITIONS_BY_NAME}, user_data: binary>"
_CLASSIC_MEMBER = (
    "struct<member_id: string, instance_id: string, client_id: string, client_host: string, rebalance_timeout_ms: int, "
    f"session_timeout_ms: int, subscription: {SUBSCRIPTION_STRUCT}, assignment: {ASSIGNMENT_STRUCT}, "
    "subscription_bytes: binary, assignment_bytes: binary>"
)
_CLASSIC_PROTOCOL = f"struct<name: string, subscription: {SUBSCRIPTION_STRUCT}, metadata_bytes: binary>"
_TOPOLOGY_TOPIC = (
    "struct<name: string, partitions: int, replication_factor: int, configs: array<struct<key: string, value: string>>>"
)
_SUBTOPOLOGY = (
    "struct<subtopology_id: string, source_topics: array<string>, source_topic_regex: array<string>, "
    f"state_changelog_topics: array<{_TOPOLOGY_TOPIC}>, repartition_sink_topics: array<string>, "
    f"repartition_source_topics: array<{_TOPOLOGY_TOPIC}>, copartition_groups: array<struct<source_topics: array<int>, "
    "source_topic_regex: array<int>, repartition_source_topics: array<int>>>>"
)

GROUP_LOG_KEY = (
    Column("cluster", "string", "Alias of the cluster.", nullable=False),
    Column("log_partition", "int", "Partition of __consumer_offsets.", nullable=False),
    Column("offset", "bigint", "Offset of the record; of other rows where their span begins.", nullable=False),
    Column(
        "record",
        "string",
        "record | read (what a batch went through: offset up to next_offset) | lost (offset up to next_offset was "
        "gone before it "
        "could be read: the log begins later; or its cluster was taken out of the configuration just before) | "
        "truncated (what had been read up to offset is the log's up to next_offset alone: an unclean election, or the "
        "topic was made again; reading continues at next_offset).",
        nullable=False,
    ),
    Column("cluster_id", "string", "Kafka's id of the cluster; null where the brokers did not say."),
    Column("read_at", "timestamp", "Driver's clock when the batch was planned that read it.", nullable=False),
    Column("day", "date", "Day (UTC) of read_at.", nullable=False),
)

GROUP_LOG_SPAN = (
    Column("next_offset", "bigint", "Of rows other than records: the offset to go on at."),
    Column("commits", "bigint", "On read rows: offset commits (types 0 and 1), passed over."),
    Column("records", "bigint", "On read rows: rows of records."),
    Column("holes", "bigint", "On read rows: offsets without a record: compacted away, or transaction markers."),
)

GROUP_LOG_RECORD = (
    Column("timestamp", "timestamp", "Of the record: the coordinator's clock; null in message format 0."),
    Column("leader_epoch", "int", "Leader epoch that wrote the record; null before message format 2."),
    Column("type", "int", "Record type: the key's first two bytes; null where there is no such key."),
    Column("version", "int", "Version of the value; null for a tombstone."),
    Column("group_id", "string", "Group; null where the key could not be read."),
    Column("member_id", "string", "Member that the key names; null for records of a whole group."),
    Column("is_tombstone", "boolean", "The value is null: what the key names is gone."),
    Column("error", "string", "Why it was not decoded, one line; null when it was."),
    Column(
        "key", "binary", "Raw, of records that were not decoded; left out where clients are hashed, and error says so."
    ),
    Column("value", "binary", "Raw, as key."),
)

GROUP_LOG_DECODED = (
    Column(
        "classic",
        "struct<protocol_type: string, generation: int, protocol: string, leader: string, state_timestamp: timestamp, "
        f"members: array<{_CLASSIC_MEMBER}>>",
        "Type 2: a classic group. Bytes of subscriptions and assignments stay where they are not the consumer "
        "protocol's.",
    ),
    Column(
        "group_epoch",
        "struct<epoch: int, metadata_hash: bigint, validated_topology_epoch: int, "
        "last_assignment_configs: array<struct<key: string, value: string>>, stored_description_topology_epoch: int, "
        "failed_description_topology_epoch: int>",
        "Types 3, 11, 17: the group's epoch.",
    ),
    Column(
        "partition_metadata",
        "array<struct<topic_id: string, topic: string, partitions: int, "
        "racks: array<struct<partition: int, racks: array<string>>>>>",
        "Type 4, written as a tombstone only since 4.1.",
    ),
    Column(
        "member",
        "struct<instance_id: string, rack: string, client_id: string, client_host: string, topics: array<string>, "
        "regex: string, rebalance_timeout_ms: int, assignor: string, session_timeout_ms: int, "
        f"protocols: array<{_CLASSIC_PROTOCOL}>, topology_epoch: int, process_id: string, "
        "user_endpoint: struct<host: string, port: int>, client_tags: array<struct<key: string, value: string>>>",
        "Types 5, 10, 19: a member. session_timeout_ms and protocols are of members that speak the classic protocol.",
    ),
    Column(
        "target_epoch",
        "struct<epoch: int, assigned_at: timestamp>",
        "Types 6, 12, 20: the epoch of the target assignment; assigned_at is null before 4.3.0 and in conversions.",
    ),
    Column(
        "target",
        f"struct<partitions: {_PARTITIONS_BY_ID}, active_tasks: {_TASKS}, standby_tasks: {_TASKS}, warmup_tasks: "
        f"{_TASKS}>",
        "Types 7, 13, 21: the target assignment of a member.",
    ),
    Column(
        "current",
        f"struct<epoch: int, prev_epoch: int, state: int, assigned: {_PARTITIONS_OWNED}, pending_revocation: "
        f"{_PARTITIONS_OWNED}, "
        f"active_tasks: {_TASKS_OWNED}, standby_tasks: {_TASKS_OWNED}, warmup_tasks: {_TASKS_OWNED}, "
        f"active_tasks_pending_revocation: {_TASKS_OWNED}, standby_tasks_pending_revocation: {_TASKS_OWNED}, "
        f"warmup_tasks_pending_revocation: {_TASKS_OWNED}>",
        "Types 8, 14, 22: what a member has.",
    ),
    Column(
        "regular_expression",
        "struct<regex: string, topics: array<string>, metadata_version: bigint, resolved_at: timestamp>",
        "Type 16: the topics that a subscribed pattern matched; the pattern is of the key.",
    ),
    Column(
        "share_state",
        "struct<initializing: array<struct<topic_id: string, topic: string, partitions: array<int>>>, "
        "initialized: array<struct<topic_id: string, topic: string, partitions: array<int>>>, "
        "deleting: array<struct<topic_id: string, topic: string>>>",
        "Type 15: the partitions that a share group has state of.",
    ),
    Column(
        "topology",
        f"struct<epoch: int, subtopologies: array<{_SUBTOPOLOGY}>>",
        "Type 23: the topology of a streams group.",
    ),
)

GROUP_LOG = Table(
    schema="bronze",
    name="group_log",
    comment=(
        "Records that group coordinators wrote to __consumer_offsets, offset commits counted only; by offset, each "
        "record once."
    ),
    columns=GROUP_LOG_KEY + GROUP_LOG_SPAN + GROUP_LOG_RECORD + GROUP_LOG_DECODED,
    key=("cluster", "log_partition", "offset", "record"),
    constraints={
        "record_known": "record IN ('record', 'read', 'lost', 'truncated')",
        "span_is_whole": "(record = 'record') = (next_offset IS NULL)",
        "undecoded_kept": (
            "error IS NULL OR key IS NOT NULL OR value IS NOT NULL OR record <> 'record' OR error LIKE "
            "'%(clientHashKey)' OR (is_tombstone AND error = 'no key')"
        ),
    },
    partition_by=("day",),
    keeps_changes=True,
)

TABLES = (METADATA_POLLS, GROUP_LOG)

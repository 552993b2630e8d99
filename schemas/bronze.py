"""Bronze: what was seen, append only."""

from schemas.table import Column, Table, View

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

OFFSET_STRUCT = (
    "struct<group_id: string, is_simple: boolean, topic: string, partition: int, committed_offset: bigint, "
    "committed_leader_epoch: int, "
    "log_start: bigint, log_end: bigint, error: string, commit_read_after: timestamp, commit_read_before: timestamp, "
    "ends_read_after: timestamp, ends_read_before: timestamp>"
)

POLL_KEY = (
    Column("poll_id", "string", "<stream>/<n, 12 digits>. Sorts as text in the order of polling.", nullable=False),
    Column("stream", "string", "<start, UTC>-<random>: minted once for each checkpoint.", nullable=False),
    Column("n", "bigint", "Number of the planned poll within its stream, without holes.", nullable=False),
    Column("cluster", "string", "Alias of the cluster, as configured.", nullable=False),
    Column(
        "record",
        "string",
        "poll: the header of one poll, failed ones too | topic: one topic as answered | answer: the header of one "
        "answer beside metadata, also where none came | configs, reassignments, elr (a topic each), quorum, fenced, "
        "groups, offsets: what such an answer tells.",
        nullable=False,
    ),
    Column(
        "kind",
        "string",
        "On answer rows: the question beside metadata, by the name of the records that tell the answer; null on all "
        "others.",
    ),
    Column("topic", "string", "Topic name; null on headers, quorum, fenced, groups and offsets."),
    Column(
        "chunk",
        "int",
        "0, 1, ...: a topic of more than 1,000 partitions takes several rows, and so do more than 100 groups, and more "
        "than 1,000 partitions of offsets.",
        nullable=False,
    ),
    Column("day", "date", "Day (UTC) on which the first poll of its batch was due.", nullable=False),
)

POLL_COLUMNS = (
    Column("cluster_id", "string", "Cluster id as answered; where the answer has none, the clusterId that is given."),
    Column(
        "received_at",
        "timestamp",
        "On headers and topics: poller's clock when the answer was complete; null when none came.",
    ),
    Column("interval_ms", "bigint", "Planned time between polls, ms."),
    Column("scheduled_at", "timestamp", "When the poll was due; on answer rows: the poll that the question followed."),
    Column("sent_at", "timestamp", "Poller's clock when the (last) request went out."),
    Column("latency_ms", "double", "Sent to received by a monotonic clock, ms."),
    Column(
        "asked_at",
        "timestamp",
        "On answer rows: poller's clock before the first request went out; null where the question was put off.",
    ),
    Column(
        "answered_at",
        "timestamp",
        "On answer rows: poller's clock when all was answered. The answer tells of a time between asked_at and this. "
        "Null when no answer came.",
    ),
    Column(
        "outcome",
        "string",
        "On headers: ok | failed. A failed poll says nothing about the cluster's state. On answer rows: ok (what has "
        "no row is not there) | ok: what could not be told of some | not_allowed | not_supported | failed: why, what "
        "is missing.",
    ),
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
    Column(
        "metadata_version_highest",
        "int",
        "Highest level of metadata.version that the broker which answered has, finalized or not: its software; null "
        "when unknown.",
    ),
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
        "topic_filter",
        "string",
        'On headers and answer rows: topics asked for: null for every one, else {"topics": [...]} or {"pattern": '
        '"..."}.',
    ),
    Column(
        "groups_pattern",
        "string",
        "On headers and answer rows: the expression that whole ids of groups match whose offsets are asked for; null "
        "for every one.",
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
        "a cluster in which nothing changes has the same from poll to poll. On answer rows over all rows of the "
        "answer; null without an answer, and of offsets, which are others each time.",
    ),
    Column("digest_version", "int", "Version of the digest's algorithm."),
    Column("partitions", f"array<{PARTITION_STRUCT}>", "At most 1,000 partitions, raw, in the order answered."),
)

ENRICHMENT_COLUMNS = (
    Column(
        "configs",
        "map<string, struct<value: string, source: string>>",
        "On configs rows: effective min.insync.replicas and unclean.leader.election.enable of the topic, and where "
        "each is set, in Kafka's words: DYNAMIC_TOPIC_CONFIG | DYNAMIC_BROKER_CONFIG | DYNAMIC_DEFAULT_BROKER_CONFIG | "
        "STATIC_BROKER_CONFIG (the file of the broker that answered) | DEFAULT_CONFIG (source is null before Kafka "
        "1.1); null when they may not be read.",
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
    Column(
        "offsets",
        f"array<{OFFSET_STRUCT}>",
        "On offsets rows, at most 1,000 each: of each group, share groups left out, and each partition what the group "
        "has committed, and the ends of the partition's log: log_start, and log_end, which is the high watermark. "
        "Between commit_read_after and commit_read_before the one was read, and later, between ends_read_after and "
        "ends_read_before, the others. log_end - committed_offset is the most that the group was behind between "
        "commit_read_before and ends_read_after. A group without a commit has one entry without a topic. "
        "is_simple: no member ever joined the group, it only commits. If "
        "something could not be told, it is null and error says why: not_allowed | not_supported | failed: and the "
        "problem | a clause.",
    ),
)

METADATA_POLLS = Table(
    schema="bronze",
    name="metadata_polls",
    comment=(
        "Answers to each poll of each cluster: one header row, and a row for each topic that differs from its last row "
        "of the batch. The first good poll of a batch, its key frame, has them all. Each question beside metadata has "
        "a header row of its own, and rows of what its answer tells."
    ),
    columns=POLL_KEY + POLL_COLUMNS + TOPIC_COLUMNS + ENRICHMENT_COLUMNS,
    key=("poll_id", "cluster", "record", "kind", "topic", "chunk"),
    constraints={
        "record_known": "record IN ('poll', 'topic', 'answer', 'configs', 'reassignments', 'quorum', 'elr', 'fenced', "
        "'groups', 'offsets')",
        "topic_named": "(record IN ('poll', 'answer', 'quorum', 'fenced', 'groups', 'offsets')) = (topic IS NULL)",
        "outcome_known": "record <> 'poll' OR (outcome IS NOT NULL AND outcome IN ('ok', 'failed'))",
        "failure_explained": "record <> 'poll' OR (outcome = 'ok') = (error_kind IS NULL)",
        "kind_known": "(record = 'answer') = (kind IS NOT NULL AND kind IN ('configs', 'reassignments', 'quorum', "
        "'elr', 'fenced', 'groups', 'offsets'))",
        "answer_dated": "record <> 'answer' OR (outcome IS NOT NULL AND (outcome LIKE 'ok%') = (answered_at IS NOT "
        "NULL) AND (answered_at IS NULL OR asked_at IS NOT NULL))",
        "poll_id_formed": "poll_id = concat(stream, '/', lpad(CAST(n AS STRING), 12, '0'))",
    },
    partition_by=("day",),
    log_hours=6,
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
    Column(
        "offset",
        "bigint",
        "Offset of the record or marker; of other rows where their span, or their commits, begin.",
        nullable=False,
    ),
    Column(
        "record",
        "string",
        "record | read (what a batch went through: offset up to next_offset) | lost (offset up to next_offset was "
        "gone before it could be read: the log begins later; or its cluster was taken out of the configuration just "
        "before; or it cannot be read, and error says why) | "
        "truncated (what had been read up to offset is the log's up to next_offset alone: an unclean election, or the "
        "topic was made again; reading continues at next_offset) | commits (offset commits of a group, between two "
        "records of the group or ends of what a batch went through: see bronze.offset_commits) | marker (the first end "
        "of a transaction of a producer in what a batch went through).",
        nullable=False,
    ),
    Column("cluster_id", "string", "Kafka's id of the cluster; null where the brokers did not say."),
    Column("read_at", "timestamp", "Driver's clock when the batch was planned that read it.", nullable=False),
    Column("day", "date", "Day (UTC) of read_at.", nullable=False),
)

GROUP_LOG_SPAN = (
    Column("next_offset", "bigint", "Of rows other than records: the offset to go on at."),
    Column("commits", "bigint", "On read rows: offset commits (types 0 and 1), of aborted transactions too."),
    Column("records", "bigint", "On read rows: rows of records."),
    Column("holes", "bigint", "On read rows: offsets without a record: compacted away, or transaction markers."),
)

GROUP_LOG_RECORD = (
    Column("timestamp", "timestamp", "Of the record or marker: the coordinator's clock; null if it has none."),
    Column("leader_epoch", "int", "Leader epoch that wrote the record; null if it has none."),
    Column("type", "int", "Record type: the key's first two bytes; null where there is no such key."),
    Column("version", "int", "Version of the value; null for a tombstone."),
    Column("group_id", "string", "Group; null where the key could not be read."),
    Column("member_id", "string", "Member that the key names; null for records of a whole group."),
    Column("is_tombstone", "boolean", "The value is null: what the key names is gone."),
    Column(
        "error",
        "string",
        "Why the record was not decoded, or why the lost offsets, which the log has, cannot be read: one line; else "
        "null.",
    ),
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

# An aggregate as rows of commits nest it and bronze.offset_commits shows it: by name, its type and its meaning.
COMMIT_COLUMNS = (
    Column("topic", "string", "Topic whose offsets were committed."),
    Column("partition", "int", "Partition of the topic."),
    Column(
        "topic_id",
        "string",
        "Kafka's id of the topic, as the coordinator notes it from Kafka 4.1 on, but not of commits in transactions. "
        "Null where it does not. Commits with another one, or none, are another row.",
    ),
    Column("commits", "bigint", "Commits, removals not counted."),
    Column(
        "from_offset",
        "bigint",
        "Offset in the log of the first commit: of its record, or of the marker that commits its transaction. Null "
        "where there is none but a removal.",
    ),
    Column("from_timestamp", "timestamp", "Time of that record or marker: the coordinator's clock."),
    Column("first_committed", "bigint", "The offset of the topic that the first commit committed."),
    Column("to_offset", "bigint", "Offset in the log of the last commit, as from_offset."),
    Column("to_timestamp", "timestamp", "Time of that record or marker."),
    Column("last_committed", "bigint", "The offset of the topic that the last commit committed."),
    Column(
        "gap_from",
        "timestamp",
        "Where the longest time between two successive commits of the row begins; null with fewer than two.",
    ),
    Column("gap_to", "timestamp", "Where it ends."),
    Column("falls", "bigint", "Commits of an offset below that of the commit before in the row."),
    Column("fallen", "bigint", "By how much the committed offset fell, all falls together."),
    Column(
        "removed_offset",
        "bigint",
        "Offset in the log of the record that removed the committed offset, after the commits: it expired, or it, the "
        "group or the topic was deleted. A commit that follows begins another row. Null where none did.",
    ),
    Column("removed_timestamp", "timestamp", "Time of that record."),
)
GROUP_LOG_COMMITS = (
    Column(
        "producer_id",
        "bigint",
        "On marker rows: the producer whose transaction ended. On commits rows: the producer whose transaction is open "
        "at the end of what the batch went through; they count once the producer's next marker row is_committed, with "
        "the marker's offset and time, and never if it is not. Null for commits that count.",
    ),
    Column("is_committed", "boolean", "On marker rows: whether the transaction was committed, or aborted."),
    Column("chunk", "int", "On commits rows: 0, 1, ...: more than 1,000 aggregates take several rows."),
    Column(
        "offset_commits",
        f"array<struct<{', '.join(f'{column.name}: {column.type}' for column in COMMIT_COLUMNS)}>>",
        "On commits rows: an aggregate for each topic and partition, in the order of the log.",
    ),
)

GROUP_LOG = Table(
    schema="bronze",
    name="group_log",
    comment=(
        "Records that group coordinators wrote to __consumer_offsets, by offset, each record once; of offset commits "
        "what they came to."
    ),
    columns=GROUP_LOG_KEY + GROUP_LOG_SPAN + GROUP_LOG_RECORD + GROUP_LOG_DECODED + GROUP_LOG_COMMITS,
    key=("cluster", "log_partition", "offset", "record", "group_id", "chunk"),
    constraints={
        "record_known": "record IN ('record', 'read', 'lost', 'truncated', 'commits', 'marker')",
        "span_is_whole": "(record = 'record') = (next_offset IS NULL)",
        "undecoded_kept": (
            "error IS NULL OR key IS NOT NULL OR value IS NOT NULL OR record <> 'record' OR error LIKE "
            "'%(clientHashKey)' OR (is_tombstone AND error = 'no key')"
        ),
    },
    partition_by=("day",),
    log_hours=24,
    keeps_changes=True,
)

# --- the controllers' log ---

_END_POINTS = "array<struct<name: string, host: string, port: int, security_protocol: int>>"
_FEATURES = "array<struct<name: string, min_supported_version: int, max_supported_version: int>>"
_REPLICAS = (
    "replicas: array<int>, isr: array<int>, removing_replicas: array<int>, adding_replicas: array<int>, leader: int, "
    "leader_recovery_state: int, directories: array<string>, elr: array<int>, last_known_elr: array<int>"
)
_LEADER_VOTERS = "array<struct<voter_id: int, directory_id: string>>"

CLUSTER_LOG_KEY = (
    Column("cluster", "string", "Alias of the cluster.", nullable=False),
    Column(
        "record",
        "string",
        "record: a record of the log | snapshot: a record of a snapshot, which holds the state that the log before it "
        "led to | span: the fate of offsets, which went says.",
        nullable=False,
    ),
    Column(
        "offset",
        "bigint",
        "Offset of the record; its position in a snapshot, from 0 on; on span rows the offset at which the span "
        "begins.",
        nullable=False,
    ),
    Column(
        "snapshot_offset",
        "bigint",
        "Snapshot that the row is of, also a span row: it holds the state before this offset. Null for the log.",
    ),
    Column("snapshot_epoch", "int", "Leader epoch of the last record that the snapshot covers; null for the log."),
    Column("cluster_id", "string", "Kafka's id of the cluster; null for files of which nobody says it."),
    Column("read_at", "timestamp", "Driver's clock when the batch was planned that read it.", nullable=False),
    Column("day", "date", "Day (UTC) of read_at.", nullable=False),
)

CLUSTER_LOG_SPAN = (
    Column(
        "went",
        "string",
        "On span rows: read (offset up to next_offset was read, each record once) | lost (offset up to next_offset "
        "was gone before it could be read, and if the log now begins at next_offset, the snapshot there follows; or "
        "it cannot be read, error says why, and the snapshot at next_offset follows; or its cluster was taken out of "
        "the configuration just before) | truncated (what had been read up to offset is the log's up to next_offset "
        "alone: the log was lost or made again; the next batch has its newest snapshot and the log from there on, or "
        "all of the log if it has no snapshot) | cut_off (a file ends within a batch that begins at offset).",
    ),
    Column("next_offset", "bigint", "On span rows: the offset after the last; null after cut_off."),
    Column("records", "bigint", "On read rows: rows of records."),
    Column(
        "no_ops",
        "bigint",
        "On read rows: NoOpRecords, which have no rows: by two a second controllers say that they live.",
    ),
    Column(
        "counted",
        "bigint",
        "On read rows: records without rows of credentials, delegation tokens, ACLs and client quotas.",
    ),
    Column(
        "silence_from",
        "timestamp",
        "On read rows of the log: where the longest time between two successive records begins, NoOpRecords and the "
        "last record before the span included; null where there are no two.",
    ),
    Column("silence_to", "timestamp", "Where it ends. Both are times of records, from the clocks of controllers."),
)

CLUSTER_LOG_RECORD = (
    Column(
        "timestamp",
        "timestamp",
        "Of the record: the active controller's clock. On read rows of the last record, which may have no row.",
    ),
    Column(
        "leader_epoch",
        "int",
        "Epoch of the active controller that wrote the record; all records of a snapshot have its own. On read rows of "
        "the last record.",
    ),
    Column("is_control", "boolean", "Whether it is a record of the quorum itself, which has types of its own."),
    Column("type", "int", "Record type (apiKey); null where there is none to be read."),
    Column("version", "int", "Version of the record."),
    Column("name", "string", "Kafka's name of the type; null of an unknown one."),
    Column("size", "int", "Bytes of the record's value. The bytes themselves are never kept."),
    Column(
        "error",
        "string",
        "Why the record was not decoded, such as a type of a newer Kafka, or why the lost offsets, which the log has, "
        "cannot be read: one line; else null.",
    ),
)

CLUSTER_LOG_DECODED = (
    Column(
        "topic",
        "struct<topic: string, topic_id: string>",
        "Types 2, 9, 28: a topic is made, removed (by its id "
        "alone), or loses its eligible leaders (by its name alone; none is all topics).",
    ),
    Column(
        "partition",
        f"struct<topic_id: string, partition: int, {_REPLICAS}, leader_epoch: int, partition_epoch: int>",
        "Type 3: a partition as it is made, or is in a snapshot. leader_recovery_state 1: its leader came by an "
        "unclean election and is not done with that.",
    ),
    Column(
        "partition_change",
        f"struct<topic_id: string, partition: int, {_REPLICAS}>",
        "Type 5: a change of a partition. A field that it leaves as it was is null. A record with a leader, the same "
        "one too, raises the leader epoch by one, any record the partition epoch.",
    ),
    Column(
        "broker",
        "struct<broker_id: int, broker_epoch: bigint, incarnation_id: string, "
        f"end_points: {_END_POINTS}, features: {_FEATURES}, rack: string, fenced: boolean, in_controlled_shutdown: "
        "boolean, is_migrating_zk_broker: boolean, log_dirs: array<string>, cordoned_log_dirs: array<string>>",
        "Type 0: a broker registers.",
    ),
    Column(
        "broker_change",
        "struct<broker_id: int, broker_epoch: bigint, fenced: int, in_controlled_shutdown: int, log_dirs: "
        "array<string>, cordoned_log_dirs: array<string>>",
        "Types 1, 7, 8, 17: a broker is unregistered, fenced (1) or unfenced (-1), or begins a controlled shutdown "
        "(1). A field that stays as it was is null.",
    ),
    Column(
        "controller",
        "struct<controller_id: int, incarnation_id: string, zk_migration_ready: boolean, "
        f"end_points: {_END_POINTS}, features: {_FEATURES}>",
        "Type 27: a controller registers. Type 29, from Kafka 4.4 on: it is unregistered; then only its id is there.",
    ),
    Column(
        "config",
        "struct<resource_type: int, resource_name: string, name: string, value: string, is_removed: boolean>",
        "Type 4: a configuration is set or removed. Values that may be secrets are null.",
    ),
    Column("feature", "struct<name: string, level: int>", "Type 12: the finalized level of a feature; 0 removes it."),
    Column(
        "producer_ids",
        "struct<broker_id: int, broker_epoch: bigint, next_producer_id: bigint>",
        "Type 15: a broker takes a block of producer ids.",
    ),
    Column("zk_migration_state", "int", "Type 21: how far a migration from ZooKeeper is."),
    Column(
        "transaction",
        "struct<name: string, reason: string>",
        "Types 23, 25: a transaction begins, or is aborted. Its records count from its end (type 24) on.",
    ),
    Column(
        "leader_change",
        f"struct<leader: int, voters: {_LEADER_VOTERS}, granting_voters: {_LEADER_VOTERS}>",
        "Control type 2: a controller becomes active.",
    ),
    Column(
        "last_contained_log_timestamp_ms",
        "bigint",
        "Control type 3, the first record of a snapshot: the time of the last record that it covers, ms since 1970.",
    ),
    Column("kraft_version", "int", "Control type 5: the version of the quorum."),
    Column(
        "voters",
        "array<struct<voter_id: int, directory_id: string, endpoints: array<struct<name: string, host: string, port: "
        "int>>, min_supported_version: int, max_supported_version: int>>",
        "Control type 6: the voters of the quorum, with their addresses.",
    ),
)

CLUSTER_LOG = Table(
    schema="bronze",
    name="cluster_log",
    comment=(
        "Records that controllers wrote to __cluster_metadata and that are committed, by offset, each record once; "
        "what had gone from the log before, as a snapshot. NoOpRecords and records with secrets are counted only."
    ),
    columns=CLUSTER_LOG_KEY + CLUSTER_LOG_SPAN + CLUSTER_LOG_RECORD + CLUSTER_LOG_DECODED,
    key=("cluster", "record", "offset", "snapshot_offset", "went"),
    constraints={
        "record_known": "record IN ('record', 'snapshot', 'span')",
        "went_known": "record <> 'span' OR (went IS NOT NULL AND went IN ('read', 'lost', 'truncated', 'cut_off'))",
        "went_of_spans": "record = 'span' OR went IS NULL",
        "span_is_whole": "(went IS NOT NULL AND went <> 'cut_off') = (next_offset IS NOT NULL)",
        "snapshot_named": "record <> 'snapshot' OR (snapshot_offset IS NOT NULL AND snapshot_epoch IS NOT NULL)",
    },
    partition_by=("day",),
    log_hours=24,
    keeps_changes=True,
)

OFFSET_COMMITS = View(
    schema="bronze",
    name="offset_commits",
    comment=(
        "Offset commits of groups. A row is an aggregate of one topic and partition. It ends before the next record of "
        "its group, or at the end of a batch. If a transaction is open then, its commits have a row of their own, with "
        "a producer_id: see bronze.group_log."
    ),
    parts=(
        f"""SELECT cluster, cluster_id, log_partition, group_id, producer_id, offset, next_offset, chunk,
  {", ".join(f"told.{column.name}" for column in COMMIT_COLUMNS)},
  read_at, day
FROM (
  SELECT cluster, cluster_id, log_partition, group_id, producer_id, offset, next_offset, chunk, read_at, day,
    explode(offset_commits) AS told
  FROM {{bronze.group_log}} WHERE record = 'commits'
)""",  # noqa: S608 - names of our own
    ),
    meanings=tuple((column.name, column.comment) for column in COMMIT_COLUMNS),
)

TABLES = (METADATA_POLLS, GROUP_LOG, CLUSTER_LOG)
VIEWS = (OFFSET_COMMITS,)

"""Bronze: what was seen, append only."""

from metadata_source.columns import cluster_log, group_log
from metadata_source.columns.polls import POLLS
from schemas.table import Table, View, columns_of

POLL_KEY = columns_of(
    POLLS,
    """
    poll_id -- <stream>/<n, 12 digits>. Of one cluster it sorts as text in the order of polling;
        those of two clusters have nothing in common.
    stream -- <start, UTC>-<random>: minted once for each checkpoint.
    n -- Number of the poll among those of its cluster in the stream, without holes. A row with
        error_kind lost may stand for several, the last of which has its number.
    cluster -- Alias of the cluster, as configured.
    record -- poll: the header of one poll, failed ones too | topic: one topic as answered | answer:
        the header of one answer beside metadata, also where none came | configs, reassignments, elr
        (a topic each), quorum, fenced, groups, offsets, transactions, log_dirs (a broker each):
        what such an answer tells.
    kind -- On answer rows: the question beside metadata, by the name of the records that tell the
        answer; null on all others.
    topic -- Topic name; null on headers, quorum, fenced, groups, offsets, transactions and
        log_dirs.
    chunk -- 0, 1, ...: a topic of more than 1,000 partitions takes several rows, and so do more
        than 100 groups, 100 transactions, and 1,000 partitions of offsets.
    day -- Day (UTC) on which the poll was due.
    """,
)

POLL_COLUMNS = columns_of(
    POLLS,
    """
    cluster_id -- Cluster id as answered; where the answer has none, the clusterId that is given.
    received_at -- On headers and topics: poller's clock when the answer was complete; null when
        none came.
    interval_ms -- Planned time between polls, ms.
    scheduled_at -- When the poll was due; on answer rows: the poll that the question followed.
    sent_at -- Poller's clock when the (last) request went out.
    latency_ms -- Sent to received by a monotonic clock, ms.
    asked_at -- On answer rows: poller's clock before the first request went out; null where the
        question was put off.
    answered_at -- On answer rows: poller's clock when all was answered. The answer tells of a time
        between asked_at and this. Null when no answer came.
    outcome -- On headers: ok | failed. A failed poll says nothing about the cluster's state. On
        answer rows: ok (what has no row is not there) | ok: what could not be told of some |
        not_allowed | not_supported | failed: why, what is missing.
    error_kind -- Why it failed, one stable word: timeout, unreachable, overlapped (not sent: the
        poll before still ran), spool_full (made, and there was no room for its rows), lost
        (recorded, and not kept until it could be read), handed_over (recorded on a machine that
        another one took over from), ...; null when ok.
    error -- Why it failed, one line.
    attempts -- Requests and connections tried for this poll.
    broker_id -- Broker that answered, if its id is known; on log_dirs rows: whose directories.
    broker -- host:port of the broker that answered.
    api_version -- Version of the Metadata request and answer.
    response_bytes -- Size of the answer, bytes.
    throttle_time_ms -- Throttling that the broker asked for, ms.
    metadata_version_level -- Finalized level of metadata.version; null when unknown.
    metadata_version_highest -- Highest level of metadata.version that the broker which answered
        has, finalized or not: its software; null when unknown.
    elr_version_level -- Finalized level of eligible.leader.replicas.version; null when unknown.
    controller_id -- As answered; a random live broker under KRaft, so never compared.
    active_controller_id -- With ZooKeeper, where brokers have the request UpdateMetadata: the
        active controller as the broker that answered knows it, -1 for none; null under KRaft.
    witnesses -- Other brokers that were asked with this poll about what was new in an answer: when,
        why one did not answer, and whether one showed an older image than broker_id: how long after
        the newer one had been seen, and by how many partitions and leader epochs; null when none
        was asked.
    topic_filter -- On headers and answer rows: topics asked for: null for every one, else
        {"topics": [...]} or {"pattern": "..."}.
    groups_pattern -- On headers and answer rows: the expression that whole ids of groups match
        whose offsets are asked for; null for every one.
    is_key_frame -- True when every topic of the answer has its rows here.
    topic_count -- Topics in the answer, after the filter.
    brokers -- Brokers as answered: live, not fenced.
    """,
)

TOPIC_COLUMNS = columns_of(
    POLLS,
    """
    partition_count -- Partitions of the topic; on headers of the whole answer.
    present -- False: gone since the answer before.
    topic_id -- Kafka's 22-character id; null before Metadata v10.
    error_code -- Kafka's error code of the topic; 0 is none.
    is_internal -- Kafka's own topic.
    digest -- 128 bits over what is kept of the topic and its partitions; on headers of good polls
        over all that the answer says: a cluster in which nothing changes has the same from poll to
        poll. On answer rows over all rows of the answer; null without an answer, and of offsets,
        which are others each time.
    digest_version -- Version of the digest's algorithm.
    partitions -- At most 1,000 partitions, raw, in the order answered.
    """,
)

ENRICHMENT_COLUMNS = columns_of(
    POLLS,
    """
    configs -- On configs rows: effective min.insync.replicas and unclean.leader.election.enable of
        the topic, and where each is set, in Kafka's words: DYNAMIC_TOPIC_CONFIG |
        DYNAMIC_BROKER_CONFIG | DYNAMIC_DEFAULT_BROKER_CONFIG | STATIC_BROKER_CONFIG (the file of
        the broker that answered) | DEFAULT_CONFIG (source is null before Kafka 1.1); null when they
        may not be read.
    reassignments -- On reassignments rows: the topic's partitions that are being reassigned.
    quorum -- On quorum rows: the controllers; its leader is the active one.
    quorum_replicas -- On quorum rows: how far each voter and observer had the controllers' log, by
        the active controller's clock: log_end_offset, and when it fetched last, and last had all
        that the active controller had; null where that is not told (before Kafka 3.3). is_behind:
        it had not for longer than 2 s (a voter: the default of controller.quorum.fetch.timeout.ms)
        or 9 s (an observer: that of broker.session.timeout.ms). The digest is over this alone.
    elr -- On elr rows: the topic's partitions with eligible, or last known, leaders, where the ISR
        lacks a replica (KIP-966).
    fenced -- On fenced rows: brokers that are registered and fenced.
    groups -- On groups rows, at most 100 each: groups of every type, each described by its type's
        own request.
    offsets -- On offsets rows, at most 1,000 each: of each group, share groups left out, and each
        partition what the group has committed, and the ends of the partition's log: log_start, and
        log_end, which is the high watermark. last_stable, where the first open transaction begins
        (log_end or later where none is open), is asked after log_end and of partitions that a group
        is behind on; null of others. Between commit_read_after and commit_read_before the one was
        read, and later, between ends_read_after and ends_read_before, the others. log_end -
        committed_offset is the most that the group was behind between commit_read_before and
        ends_read_after. A group without a commit has one entry without a topic. is_simple: no
        member ever joined the group, it only commits. If something could not be told, it is null
        and error says why: not_allowed | not_supported | failed: and the problem | a clause.
    transactions -- On transactions rows, at most 100 each: transactions that are open for long, at
        most 1,000, those first that the answer before told, then those that began first, as their
        coordinators described them: ongoing for longer than timeout_ms or five minutes, or prepared
        and half a minute old. Of an id that is longer than 255 characters the first 200, an
        ellipsis, and 32 hexadecimal digits of its SHA-256 (of its UTF-8). At most 200 partitions
        each; partition_count has all. Then those that hang (is_hanging): open on a partition whose
        last stable offset does not move, and unknown to all coordinators; start_offset,
        coordinator_epoch and last_written_at are as the partition's leader has them. Of what could
        not be told error says why, as of offsets: it was listed, and not described; or its
        partitions were not told. An entry without an id is of all that the answer may have left
        out: of ids that partitions of __transaction_state keep, of partition_count ones; else of
        producer ids from producer_id on. One that hangs, without partitions: of all that hang.
    log_dirs -- On log_dirs rows, one a broker (broker_id): its log directories, each with Kafka's
        error code (0: online; 56: failed), and the size of its volume (null before Kafka 3.3). Null
        of a broker that did not answer.
    log_dir_sizes -- On log_dirs rows: bytes in the directories. Without a topic: of a directory,
        with its replicas, those of them that move to it (futures), and how many sizes of the broker
        changed and are left out (changes_left_out). Without a partition: of a topic in a directory:
        all with a broker's first answer of a day, after a start of the recorder, and once a
        directory is back online, then those that changed by more than 5 %. Of
        partitions the 200 largest of a broker, if they changed by more than 1 %, and those that
        changed by more than 5 %, since they were kept last. At most 100 topics and 100 partitions
        that changed are kept of an answer of a broker. replicas = 0: it lies there no more.
        is_future: a replica that moves to the directory, with offset_lag, how far it is behind the
        one that it replaces. If size_bytes is null, the broker did not say. usable_bytes: of a
        directory, what is left of its volume (null before Kafka 3.3); is_whole: this answer
        has all topics of it. No digest is over this column.
    """,
)

METADATA_POLLS = Table(
    schema="bronze",
    name="metadata_polls",
    comment=(
        "Answers to each poll of each cluster: one header row, and a row for each topic that "
        "differs from the answer before. A key frame has them all: the first good poll of a "
        "recorder and of a day, and one after five minutes without. Each question beside metadata "
        "has a header row of its own, and rows of what its answer tells."
    ),
    columns=POLL_KEY + POLL_COLUMNS + TOPIC_COLUMNS + ENRICHMENT_COLUMNS,
    key=("poll_id", "cluster", "record", "kind", "topic", "chunk"),
    constraints={
        "record_known": (
            "record IN ('poll', 'topic', 'answer', 'configs', 'reassignments', 'quorum', 'elr', "
            "'fenced', 'groups', 'offsets', 'transactions', 'log_dirs')"
        ),
        "topic_named": (
            "(record IN ('poll', 'answer', 'quorum', 'fenced', 'groups', 'offsets', "
            "'transactions', 'log_dirs')) = (topic IS NULL)"
        ),
        "outcome_known": (
            "record <> 'poll' OR (outcome IS NOT NULL AND outcome IN ('ok', 'failed'))"
        ),
        "failure_explained": "record <> 'poll' OR (outcome = 'ok') = (error_kind IS NULL)",
        "kind_known": (
            "(record = 'answer') = (kind IS NOT NULL AND kind IN ('configs', 'reassignments', "
            "'quorum', 'elr', 'fenced', 'groups', 'offsets', 'transactions', 'log_dirs'))"
        ),
        "answer_dated": (
            "record <> 'answer' OR (outcome IS NOT NULL AND (outcome LIKE 'ok%') = (answered_at IS "
            "NOT NULL) AND (answered_at IS NULL OR asked_at IS NOT NULL))"
        ),
        "poll_id_formed": "poll_id = concat(stream, '/', lpad(CAST(n AS STRING), 12, '0'))",
    },
    partition_by=("day",),
    keeps_changes=True,
    log_hours=6,
)

# --- the coordinators' log ---


GROUP_LOG_KEY = columns_of(
    group_log.SCHEMA,
    """
    cluster -- Alias of the cluster.
    log_partition -- Partition of __consumer_offsets.
    offset -- Offset of the record or marker; of other rows where their span, or their commits,
        begin.
    record -- record | read (what a batch went through: offset up to next_offset) | lost (offset up
        to next_offset was gone before it could be read: the log begins later; or its cluster was
        taken out of the configuration just before; or it cannot be read, and error says why) |
        truncated (what had been read up to offset is the log's up to next_offset alone: an unclean
        election, or the topic was made again; reading continues at next_offset) | commits (offset
        commits of a group, between two records of the group or ends of what a batch went through:
        see bronze.offset_commits) | marker (the first end of a transaction of a producer in what a
        batch went through).
    cluster_id -- Kafka's id of the cluster; null where the brokers did not say.
    read_at -- Driver's clock when the batch was planned that read it.
    day -- Day (UTC) of read_at.
    """,
)

GROUP_LOG_SPAN = columns_of(
    group_log.SCHEMA,
    """
    next_offset -- Of rows other than records: the offset to go on at.
    commits -- On read rows: offset commits (types 0 and 1), of aborted transactions too.
    records -- On read rows: rows of records.
    holes -- On read rows: offsets without a record: compacted away, or transaction markers.
    """,
)

GROUP_LOG_RECORD = columns_of(
    group_log.SCHEMA,
    """
    timestamp -- Of the record or marker: the coordinator's clock; null if it has none.
    leader_epoch -- Leader epoch that wrote the record; null if it has none.
    type -- Record type: the key's first two bytes; null where there is no such key.
    version -- Version of the value; null for a tombstone.
    group_id -- Group; null where the key could not be read.
    member_id -- Member that the key names; null for records of a whole group.
    is_tombstone -- The value is null: what the key names is gone.
    error -- Why the record was not decoded, or why the lost offsets, which the log has, cannot be
        read: one line; else null.
    key -- Raw, of records that were not decoded; left out where clients are hashed, and error says
        so.
    value -- Raw, as key.
    """,
)

GROUP_LOG_DECODED = columns_of(
    group_log.SCHEMA,
    """
    classic -- Type 2: a classic group. Bytes of subscriptions and assignments stay where they are
        not the consumer protocol's.
    group_epoch -- Types 3, 11, 17: the group's epoch.
    partition_metadata -- Type 4, written as a tombstone only since 4.1.
    member -- Types 5, 10, 19: a member. session_timeout_ms and protocols are of members that speak
        the classic protocol.
    target_epoch -- Types 6, 12, 20: the epoch of the target assignment; assigned_at is null before
        4.3.0 and in conversions.
    target -- Types 7, 13, 21: the target assignment of a member.
    current -- Types 8, 14, 22: what a member has.
    regular_expression -- Type 16: the topics that a subscribed pattern matched; the pattern is of
        the key.
    share_state -- Type 15: the partitions that a share group has state of.
    topology -- Type 23: the topology of a streams group.
    """,
)

# An aggregate as rows of commits nest it and bronze.offset_commits shows it: by name, its type and
# its meaning.
COMMIT_COLUMNS = columns_of(
    group_log.ENTRY,
    """
    topic -- Topic whose offsets were committed.
    partition -- Partition of the topic.
    topic_id -- Kafka's id of the topic, as the coordinator notes it from Kafka 4.1 on, but not of
        commits in transactions. Null where it does not. Commits with another one, or none, are
        another row.
    commits -- Commits, removals not counted.
    from_offset -- Offset in the log of the first commit: of its record, or of the marker that
        commits its transaction. Null where there is none but a removal.
    from_timestamp -- Time of that record or marker: the coordinator's clock.
    first_committed -- The offset of the topic that the first commit committed.
    to_offset -- Offset in the log of the last commit, as from_offset.
    to_timestamp -- Time of that record or marker.
    last_committed -- The offset of the topic that the last commit committed.
    gap_from -- Where the longest time between two successive commits of the row begins; null with
        fewer than two.
    gap_to -- Where it ends.
    falls -- Commits of an offset below that of the commit before in the row.
    fallen -- By how much the committed offset fell, all falls together.
    removed_offset -- Offset in the log of the record that removed the committed offset, after the
        commits: it expired, or it, the group or the topic was deleted. A commit that follows begins
        another row. Null where none did.
    removed_timestamp -- Time of that record.
    """,
)
GROUP_LOG_COMMITS = columns_of(
    group_log.SCHEMA,
    """
    producer_id -- On marker rows: the producer whose transaction ended. On commits rows: the
        producer whose transaction is open at the end of what the batch went through; they count
        once the producer's next marker row is_committed, with the marker's offset and time, and
        never if it is not. Null for commits that count.
    is_committed -- On marker rows: whether the transaction was committed, or aborted.
    chunk -- On commits rows: 0, 1, ...: more than 1,000 aggregates take several rows.
    offset_commits -- On commits rows: an aggregate for each topic and partition, in the order of
        the log.
    """,
)

GROUP_LOG = Table(
    schema="bronze",
    name="group_log",
    comment=(
        "Records that group coordinators wrote to __consumer_offsets, by offset, each record once; "
        "of offset commits what they came to."
    ),
    columns=GROUP_LOG_KEY
    + GROUP_LOG_SPAN
    + GROUP_LOG_RECORD
    + GROUP_LOG_DECODED
    + GROUP_LOG_COMMITS,
    key=("cluster", "log_partition", "offset", "record", "group_id", "chunk"),
    constraints={
        "record_known": "record IN ('record', 'read', 'lost', 'truncated', 'commits', 'marker')",
        "span_is_whole": "(record = 'record') = (next_offset IS NULL)",
        "undecoded_kept": (
            "error IS NULL OR key IS NOT NULL OR value IS NOT NULL OR record <> 'record' OR error "
            "LIKE '%(clientHashKey)' OR (is_tombstone AND error = 'no key')"
        ),
    },
    partition_by=("day",),
    log_hours=24,
    keeps_changes=True,
)

# --- the controllers' log ---


CLUSTER_LOG_KEY = columns_of(
    cluster_log.SCHEMA,
    """
    cluster -- Alias of the cluster.
    record -- record: a record of the log | snapshot: a record of a snapshot, which holds the state
        that the log before it led to | span: the fate of offsets, which went says.
    offset -- Offset of the record; its position in a snapshot, from 0 on; on span rows the offset
        at which the span begins.
    snapshot_offset -- Snapshot that the row is of, also a span row: it holds the state before this
        offset. Null for the log.
    snapshot_epoch -- Leader epoch of the last record that the snapshot covers; null for the log.
    cluster_id -- Kafka's id of the cluster; null for files of which nobody says it.
    read_at -- Driver's clock when the batch was planned that read it.
    day -- Day (UTC) of read_at.
    """,
)

CLUSTER_LOG_SPAN = columns_of(
    cluster_log.SCHEMA,
    """
    went -- On span rows: read (offset up to next_offset was read, each record once) | lost (offset
        up to next_offset was gone before it could be read, and if the log now begins at
        next_offset, the snapshot there follows; or it cannot be read, error says why, and the
        snapshot at next_offset follows; or its cluster was taken out of the configuration just
        before) | truncated (what had been read up to offset is the log's up to next_offset alone:
        the log was lost or made again; the next batch has its newest snapshot and the log from
        there on, or all of the log if it has no snapshot) | cut_off (a file ends within a batch
        that begins at offset).
    next_offset -- On span rows: the offset after the last; null after cut_off.
    records -- On read rows: rows of records.
    no_ops -- On read rows: NoOpRecords, which have no rows: by two a second controllers say that
        they live.
    counted -- On read rows: records without rows of credentials and delegation tokens, and in
        snapshots of ACLs and client quotas.
    silence_from -- On read rows of the log: where the longest time between two successive records
        begins, NoOpRecords and the last record before the span included; null where there are no
        two.
    silence_to -- Where it ends. Both are times of records, from the clocks of controllers.
    """,
)

CLUSTER_LOG_RECORD = columns_of(
    cluster_log.SCHEMA,
    """
    timestamp -- Of the record: the active controller's clock. On read rows of the last record,
        which may have no row.
    leader_epoch -- Epoch of the active controller that wrote the record; all records of a snapshot
        have its own. On read rows of the last record.
    is_control -- Whether it is a record of the quorum itself, which has types of its own.
    type -- Record type (apiKey); null where there is none to be read.
    version -- Version of the record.
    name -- Kafka's name of the type; null of an unknown one.
    size -- Bytes of the record's value. The bytes themselves are never kept.
    error -- Why the record was not decoded, such as a type of a newer Kafka, or why the lost
        offsets, which the log has, cannot be read: one line; else null.
    """,
)

CLUSTER_LOG_DECODED = columns_of(
    cluster_log.SCHEMA,
    """
    topic -- Types 2, 9, 28: a topic is made, removed (by its id alone), or loses its eligible
        leaders (by its name alone; none is all topics).
    partition -- Type 3: a partition as it is made, or is in a snapshot. leader_recovery_state 1:
        its leader came by an unclean election and is not done with that.
    partition_change -- Type 5: a change of a partition. A field that it leaves as it was is null. A
        record with a leader, the same one too, raises the leader epoch by one, any record the
        partition epoch.
    broker -- Type 0: a broker registers.
    broker_change -- Types 1, 7, 8, 17: a broker is unregistered, fenced (1) or unfenced (-1), or
        begins a controlled shutdown (1). A field that stays as it was is null.
    controller -- Type 27: a controller registers. Type 29, from Kafka 4.4 on: it is unregistered;
        then only its id is there.
    config -- Type 4: a configuration is set or removed. Values that may be secrets are null.
    feature -- Type 12: the finalized level of a feature; 0 removes it.
    producer_ids -- Type 15: a broker takes a block of producer ids.
    zk_migration_state -- Type 21: how far a migration from ZooKeeper is.
    transaction -- Types 23, 25: a transaction begins, or is aborted. Its records count from its end
        (type 24) on.
    leader_change -- Control type 2: a controller becomes active.
    last_contained_log_timestamp_ms -- Control type 3, the first record of a snapshot: the time of
        the last record that it covers, ms since 1970.
    kraft_version -- Control type 5: the version of the quorum.
    voters -- Control type 6: the voters of the quorum, with their addresses.
    """,
)

CLUSTER_LOG = Table(
    schema="bronze",
    name="cluster_log",
    comment=(
        "Records that controllers wrote to __cluster_metadata and that are committed, by offset, "
        "each record once; what had gone from the log before, as a snapshot. NoOpRecords and "
        "records with secrets are counted only. Of ACLs and client quotas rows have the type alone."
    ),
    columns=CLUSTER_LOG_KEY + CLUSTER_LOG_SPAN + CLUSTER_LOG_RECORD + CLUSTER_LOG_DECODED,
    key=("cluster", "record", "offset", "snapshot_offset", "went"),
    constraints={
        "record_known": "record IN ('record', 'snapshot', 'span')",
        "went_known": (
            "record <> 'span' OR (went IS NOT NULL AND went IN ('read', 'lost', 'truncated', "
            "'cut_off'))"
        ),
        "went_of_spans": "record = 'span' OR went IS NULL",
        "span_is_whole": "(went IS NOT NULL AND went <> 'cut_off') = (next_offset IS NOT NULL)",
        "snapshot_named": (
            "record <> 'snapshot' OR (snapshot_offset IS NOT NULL AND snapshot_epoch IS NOT NULL)"
        ),
    },
    partition_by=("day",),
    log_hours=24,
    keeps_changes=True,
)

OFFSET_COMMITS = View(
    schema="bronze",
    name="offset_commits",
    comment=(
        "Offset commits of groups. A row is an aggregate of one topic and partition. It ends "
        "before the next record of its group, or at the end of a batch. If a transaction is open "
        "then, its commits have a row of their own, with a producer_id: see bronze.group_log."
    ),
    parts=(
        f"""SELECT cluster, cluster_id, log_partition, group_id, producer_id, offset, next_offset,
  chunk, {", ".join(f"told.{column.name}" for column in COMMIT_COLUMNS)},
  read_at, day
FROM (
  SELECT cluster, cluster_id, log_partition, group_id, producer_id, offset, next_offset, chunk,
    read_at, day, explode(offset_commits) AS told
  FROM {{bronze.group_log}} WHERE record = 'commits'
)""",  # noqa: S608 - names of our own
    ),
    meanings=tuple((column.name, column.comment) for column in COMMIT_COLUMNS),
)

TABLES = (METADATA_POLLS, GROUP_LOG, CLUSTER_LOG)
VIEWS = (OFFSET_COMMITS,)

IS_OF_LOG_DIRS = (
    "record = 'answer' AND kind = 'log_dirs' AND outcome LIKE 'ok%' AND cluster_id IS NOT NULL"
)
"""That a row of bronze is the header of an answer that tells log directories."""

IS_VISIT = (
    "record = 'answer' AND kind = 'offsets' AND outcome LIKE 'ok%' AND cluster_id IS NOT NULL"
)
"""That a row of bronze is the header of an answer that tells the offsets of all groups."""

NOT_TAKEN = """(positions[string(log_partition)][1] IS NULL
  OR coalesce(next_offset, offset + 1) > positions[string(log_partition)][1]
  -- Before a log was truncated it had offsets that it may not reach again for long.
  AND (positions[string(log_partition)][0] <= 0
    OR read_at >= timestamp_micros(positions[string(log_partition)][0])))"""
"""That the history of a log has not had a row, by `positions` of its cluster's internal.state."""

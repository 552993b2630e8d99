"""Transactions: what coordinators wrote to their log, and what became of it."""

from metadata_source.columns import transaction_log
from schemas.gold import ID, UPDATED_AT
from schemas.silver import CLUSTER_COLUMNS
from schemas.table import (
    PART,
    Column,
    Table,
    View,
    columns,
    columns_of,
    meanings,
    part_column,
)

TRANSACTION_LOG_KEY = columns_of(
    transaction_log.SCHEMA,
    """
    cluster -- Alias of the cluster.
    log_partition -- Partition of __transaction_state: all records of a transactional id are in one.
    offset -- Offset of the record; of other rows the first that they are of.
    record -- transactions (what the records of one pattern of transactional ids came to, of one
        hour of their timestamps, in a stretch: what a batch went through between two multiples of
        5,000 offsets; nothing of it depends on other stretches) | record (a record that cannot be
        read, and error says why) | read (what a batch went through: offset up to next_offset) |
        lost (offset up to next_offset was gone before it could be read: the log begins later; or
        its cluster was taken out of the configuration just before; or it cannot be read, and error
        says why) | truncated (what had been read up to offset is the log's up to next_offset alone:
        an unclean election, or the topic was made again; reading continues at next_offset).
    cluster_id -- Kafka's id of the cluster; null where the brokers did not say.
    read_at -- Driver's clock when the batch was planned that read it.
    day -- Day (UTC) of read_at.
    """,
)

TRANSACTION_LOG_SPAN = columns_of(
    transaction_log.SCHEMA,
    """
    next_offset -- Of rows other than records: the offset after the last that they are of.
    counted -- On read rows: records that rows of transactions count. On transactions rows with
        chunk 0: the records that the row counts.
    records -- On read rows: rows of records.
    holes -- On read rows: offsets without a record, compacted away. Where a log is read from its
        beginning there are many: of an id only its last records are left.
    caught_up_at -- On read rows: when the brokers said where their log ends, if the batch went
        through all of it. Null if it left something for the next one. A row without offsets
        (next_offset is offset) says that nothing was new; while a log is silent they are fewer and
        fewer.
    """,
)

TRANSACTION_LOG_RECORD = columns_of(
    transaction_log.SCHEMA,
    """
    timestamp -- Of the record: the coordinator's clock; null if it has none.
    leader_epoch -- Leader epoch of the log's partition that wrote the record, on transactions rows
        the last of their records: another one is another coordinator. Null if it has none.
    version -- Version of the value; null for a tombstone.
    transactional_id -- Of a record that cannot be read; null where its key cannot. Long ones are
        cut as in bronze.transaction_states.
    is_tombstone -- The value is null: the coordinator forgets the id.
    error -- Why the record was not decoded, or why the lost offsets, which the log has, cannot be
        read: one line; else null.
    key -- Raw, of records that were not decoded.
    value -- Raw, as key.
    """,
)

TRANSACTION_LOG_COUNTS = columns_of(
    transaction_log.SCHEMA,
    """
    pattern -- The transactional id with uuids and runs of 16 or more hexadecimal digits as *, and
        then without the digits, * and -_.: at its end: app-0_12 and app-<uuid>-3 are app, an id of
        nothing else is *. Longer ones than 255 characters are cut as ids in states. Null: all that
        are not among the 200 patterns with most records (then those that come first) of a stretch:
        at most 10,000 a cluster at once, with Kafka's 50 partitions.
    chunk -- 0, 1, ...: more than 1,000 states take several rows, of which 0 alone has the counts.
    from_timestamp -- The least timestamp of the row's records; null if they have none.
    to_timestamp -- The greatest: of the same hour (UTC).
    ids -- Transactional ids with a record.
    begun -- Transactions that began in the stretch, as their first record in it says.
    committed -- Transactions that were completed and committed.
    aborted_by_client -- Transactions that were completed and aborted, by their producer; see
        bronze.transaction_states for how that is known.
    aborted_by_coordinator -- By the coordinator: a time-out, or another producer of the id
        began (InitProducerId), or an administrator fenced it.
    aborted_by_unknown -- Aborted, and these records do not tell by whom: its entry of states has
        aborted_by null, and what is read before and after it may tell.
    timed_out -- Of those aborted by the coordinator or by unknown: prepared later than started_at
        + timeout_ms. With an unknown one that is inferred.
    epochs_raised -- Times that a producer began again, or went on after an error (InitProducerId:
        a record in state Empty with an epoch above 0). Epochs that a transaction's end raises
        (version 2, KIP-890) do not count.
    producer_ids_given -- Times that an id got another producer id: it is new or had expired, or its
        epochs were used up.
    removed -- Tombstones: the coordinator forgot the id, which had no open transaction
        (transactional.id.expiration.ms).
    total_ms -- Time from start to completion, all completed transactions of which both are known.
    longest_ms -- The longest of them; null without one.
    longest_completing_ms -- The longest time from prepared to completed, in which markers are
        written, where both records are here; null without one.
    most_partitions -- Most partitions of one record; null where none has any.
    states -- Transactions that a history needs one by one, as far as these records have them, in
        the order of offset: see bronze.transaction_states. The row has those whose last record is
        of its hour.
    """,
)

# An entry as rows of transactions nest it and bronze.transaction_states shows it.
STATE_COLUMNS = columns_of(
    transaction_log.STATE,
    """
    transactional_id -- Transactional id. Of one that is longer than 255 characters the first 200,
        an ellipsis, and 32 hexadecimal digits of its SHA-256 (of its UTF-8): so no two are alike.
    state -- Of the last record here, in Kafka's words: Ongoing | PrepareCommit | PrepareAbort |
        CompleteCommit | CompleteAbort | Empty (InitProducerId: no transaction) | Dead (a tombstone:
        right after an open transaction, whose fields follow, or of an id without one here).
    offset -- Offset of the last record here.
    timestamp -- Of that record: the coordinator's clock; null if it has none.
    leader_epoch -- Leader epoch that wrote that record; null if it has none.
    was_open -- The begin of the transaction is not among the records of the stretch: it is in one
        before, or was compacted away. Null where that is not known: it began in the second in which
        the stretch begins. False of Empty.
    from_offset -- Offset of its first record here.
    from_timestamp -- Of that record.
    from_leader_epoch -- Leader epoch that wrote it. If it is not leader_epoch, the coordinator
        moved in between.
    producer_id -- Producer id, of the last record here.
    previous_producer_id -- As that record has it, the producer id before that record; null for
        none and in values of version 0.
    next_producer_id -- As that record has it: the producer id that follows this one, whose epochs
        are used up; null for none and in values of version 0.
    producer_epoch -- Epoch of the producer id, of the last record here.
    next_producer_epoch -- Epoch of next_producer_id, as Kafka from 4.4 on may have it; null for
        none.
    client_transaction_version -- Of the last record here: 2 for clients with KIP-890, whose epoch
        each end of a transaction raises, 0 or 1 for others; what the coordinator itself prepares
        has the cluster's own. Null in values of version 0 (before Kafka 4.0).
    ongoing_epoch -- Epoch of the last record here in state Ongoing; null without one.
    ongoing_client_version -- client_transaction_version of that record.
    timeout_ms -- Time-out of the transaction (transaction.timeout.ms); 2147483647 is none, of
        two-phase commits.
    started_at -- When it began: when its first partition was added; the same in all of its records.
        With transactional_id and producer_id it names the transaction. Null for none.
    updated_at -- When the last record here was made.
    prepared_offset -- Offset of the record that decides for commit or abort; null without one here.
    prepared_at -- When that record was made: the end of the transaction for its producer.
    completed_offset -- Offset of the record after all markers are written; null without one here.
    completed_at -- When that record was written: its timestamp, as its value was made once the end
        was decided.
    initialized_offset -- If InitProducerId is the next record of the id after an abort that is
        complete, and of its epoch, of the next one, or of another producer id: its offset. Of Empty
        its own.
    initialized_at -- When that record was made.
    followed_at -- Of a transaction without its end here: when the next record of its id was made,
        which is not of it, so the end was compacted away before it could be read. Of Dead the time
        of the tombstone. Null if none follows in the stretch: it may be open still.
    aborted_by -- Of a transaction that is prepared for abort, or aborted: client | coordinator (a
        time-out; another producer of the id began, or an administrator fenced it) | null: these
        records do not tell. A time-out and a fence raise the epoch before they abort. With clients
        before KIP-890 (client_transaction_version of the prepared record null or below 2) it is
        coordinator if the epoch is above ongoing_epoch, else client. With version 2 each end raises
        the epoch: it is coordinator if ongoing_client_version is lower, or if the epoch rose by two
        (Kafka 4.0.0); client if the id's next record has the same epoch and is not InitProducerId,
        or if there was nothing to abort; else null. If both are null, ongoing_epoch and
        ongoing_client_version of its entry before may tell. If it is null, and prepared_at is after
        started_at + timeout_ms, it was most likely the time-out. If it is null, and initialized_at
        is within seconds, or the next entry of the id is Empty and that soon, it was most likely
        fenced; else most likely the client aborted it.
    partition_count -- Partitions of the transaction, of its record here with most.
    partitions -- Those of its last record here that has any, the first 200 of them. Null if none
        has, and of an entry that is here only because it was open, or may have been, before.
    """,
)

TRANSACTION_LOG = Table(
    schema="bronze",
    name="transaction_log",
    comment=(
        "Records that transaction coordinators wrote to __transaction_state, by offset, each "
        "counted once: what those of a pattern of transactional ids came to, and by itself each "
        "transaction that is open at the end of a batch, aborted by its coordinator, or long."
    ),
    columns=TRANSACTION_LOG_KEY
    + TRANSACTION_LOG_SPAN
    + TRANSACTION_LOG_RECORD
    + TRANSACTION_LOG_COUNTS,
    key=("cluster", "log_partition", "offset", "record", "pattern", "chunk", "caught_up_at"),
    constraints={
        "record_known": "record IN ('transactions', 'record', 'read', 'lost', 'truncated')",
        "span_is_whole": "(record = 'record') = (next_offset IS NULL)",
        "undecoded_kept": (
            "record <> 'record' OR (error IS NOT NULL AND (key IS NOT NULL OR value IS NOT NULL OR "
            "error = 'no key'))"
        ),
        "chunk_of_transactions": "(record = 'transactions') = (chunk IS NOT NULL)",
    },
    partition_by=("day",),
    log_hours=24,
    keeps_changes=True,
)

TRANSACTION_STATES = View(
    schema="bronze",
    name="transaction_states",
    comment=(
        "Transactions that a history needs one by one, as far as the records of a stretch have "
        "them (what a batch went through between two multiples of 5,000 offsets). Those: open at "
        "the end of the stretch; open at its begin, or perhaps, and ended; aborted by the "
        "coordinator, or these records do not tell by whom; longer than timeout_ms or five minutes "
        "until completed, or longer than 30 s from prepared to completed; left open, although "
        "another record of the id follows that is not of it. And the first record of an id in a "
        "stretch if it is a tombstone, or InitProducerId with an epoch above 0 or with another "
        "producer id, and if records before it were compacted away before they could be read. All "
        "others are counted in bronze.transaction_log."
    ),
    parts=(
        f"""SELECT cluster, cluster_id, log_partition, pattern,
  {", ".join(f"entry.{column.name}" for column in STATE_COLUMNS)}, read_at, day
FROM (
  SELECT cluster, cluster_id, log_partition, pattern, read_at, day, explode(states) AS entry
  FROM {{bronze.transaction_log}} WHERE record = 'transactions'
)""",  # noqa: S608 - names of our own
    ),
    meanings=tuple((column.name, column.comment) for column in STATE_COLUMNS),
)

_LOG_PARTITION = Column(
    "log_partition",
    "int",
    "Partition of __transaction_state: its leader is the coordinator of its transactional ids.",
    nullable=False,
)

TRANSACTIONS = Table(
    schema="gold",
    name="transactions",
    comment=(
        "Transactions that were open for longer than their time-out or five minutes, were aborted "
        "by their coordinator, or are or were stuck, as the coordinators' log has them. All others "
        "are counted in gold.transactional_ids. Times are the coordinators'."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        *columns("""
            transactional_id string NOT NULL -- Transactional id; long ones are cut as in
                bronze.transaction_states.
            pattern string NOT NULL -- As of gold.transactional_ids: the id without its numbers.
        """),
        _LOG_PARTITION,
        *columns("""
            producer_id bigint -- Producer id, as the last record that was read has it.
            producer_epoch int -- Its epoch there. A coordinator that aborts raises it, and from
                version 2 on (KIP-890) each end does.
            client_transaction_version int -- Version of transactions that the last record was
                written with; null before Kafka 4.0.
            timeout_ms int -- Its time-out (transaction.timeout.ms); 2147483647 is none.
            started_at timestamp NOT NULL -- When its first partition was added.
            is_begin_read boolean NOT NULL -- Its first record was read; else that was compacted
                away, or lost, and first_leader_epoch and first_offset are those of a later one.
            state string NOT NULL -- Of its last record, in Kafka's words: Ongoing | PrepareCommit |
                PrepareAbort | CompleteCommit | CompleteAbort | Dead (forgotten while it was open).
            last_record_at timestamp NOT NULL -- When that record was made.
            prepared_after timestamp -- Commit or abort was decided after this, or at it: the end
                for its producer. Null while it is not, as far as the log was read.
            prepared_before timestamp -- Commit or abort had been decided by this; the same if that
                record was read. Null while it is not, and where nothing tells.
            ended_after timestamp -- Its markers were written after this, or at it. Null while it is
                open.
            ended_before timestamp -- Its markers had been written by this, and readers of committed
                records went past it; the same if that record was read. Null while it is open, and
                where nothing tells.
            outcome string -- committed | aborted, from when that is decided on; null before, and
                where nothing tells.
            aborted_by string -- client | coordinator; null if it is not aborted, or nothing tells.
            reason string -- Why the coordinator aborted it: timed_out | fenced (another producer of
                the id began, or an administrator fenced it). Null if it did not, or nothing tells.
            reason_sureness string -- How aborted_by and reason are known: exact | inferred
                (docs/design/transactions.md); null without aborted_by.
            stuck string -- How it is stuck, while is_live: overdue (Ongoing beyond its time-out
                and the 10 s in which the coordinator looks) | stuck_completing (prepared for 30 s:
                markers cannot be written). Later also hanging (open on a partition, and unknown to
                its coordinator, KIP-664), which no log tells. Null if it is not.
            overdue_since timestamp -- Since when it was overdue, until prepared_before. Null if it
                never was, as far as is known.
            stuck_completing_since timestamp -- Since when it was stuck_completing, until
                ended_before. Null if it never was, as far as is known.
            seen_at timestamp -- While is_live, and if records were lost: up to then nothing else
                had been written, as of when the row was written.
            close_reason string -- Why the row changes no more: ended (committed or aborted, as the
                log says) | not_seen (the id went on, and the end of this one was compacted away
                before it was read) | forgotten (the coordinator removed the id) | records_lost
                (some of the log could not be read, or was cut off: what became of it is not known;
                if it went on, it has another row). Null while is_live.
            first_leader_epoch int -- Leader epoch of log_partition that wrote its first record: the
                coordinator then. Null if the record has none.
            leader_epoch int -- The same of its last record.
            coordinator_moved boolean -- The two differ: the partition had another leader election
                in between. Null if that is not known.
            first_offset bigint NOT NULL -- Offset of its first record that was read.
            last_offset bigint NOT NULL -- Offset of its last record that was read.
            partition_count int -- Partitions that it wrote to, or sent offsets to; null if no
                record that was read has any.
            partitions array<struct<topic: string, partitions: array<int>>> -- These partitions, 200
                at most. Those of __consumer_offsets are of groups whose offsets it commits. Null if
                no record that was read has any.
        """),
        UPDATED_AT,
        Column(
            "is_live",
            "boolean",
            "close_reason IS NULL: a later round may still change the row, or remove it if the "
            "transaction turns out to be an ordinary one.",
            nullable=False,
            generated_as="close_reason IS NULL",
        ),
        part_column(),
    ),
    key=("id",),
    constraints={
        "outcome_known": "outcome IS NULL OR outcome IN ('committed', 'aborted')",
        "aborted_by_known": "aborted_by IS NULL OR aborted_by IN ('client', 'coordinator')",
        "reason_known": "reason IS NULL OR reason IN ('timed_out', 'fenced')",
        "sureness_known": "reason_sureness IS NULL OR reason_sureness IN ('exact', 'inferred')",
        "stuck_known": (
            "stuck IS NULL OR stuck IN ('overdue', 'stuck_completing', 'hanging') AND "
            "close_reason IS NULL"
        ),
        "close_known": (
            "close_reason IS NULL OR close_reason IN ('ended', 'not_seen', 'forgotten', "
            "'records_lost')"
        ),
    },
    partition_by=("is_live", PART),
    live="is_live",
    none_without="transactional_id",
    log_hours=24,
    over=("started_at", "last_record_at", "ended_before"),
)

_COUNTS = columns("""
    begun bigint NOT NULL -- Transactions that began.
    committed bigint NOT NULL -- Transactions that were completed and committed.
    aborted_by_client bigint NOT NULL -- Transactions that were completed and aborted by their
        producer.
    aborted_by_coordinator bigint NOT NULL -- By the coordinator: a time-out, or another producer of
        the id began, or an administrator fenced it.
    aborted_by_unknown bigint NOT NULL -- Aborted, and the records of one batch do not tell by whom:
        most of them by their producers. Those of the coordinator are in gold.transactions, too.
    timed_out bigint NOT NULL -- Of those aborted by the coordinator or by unknown: decided after
        the time-out. Inferred.
    epochs_raised bigint NOT NULL -- Times that a producer began again, or went on after an error
        (InitProducerId): many are a producer that restarts again and again.
    producer_ids_given bigint NOT NULL -- Times that an id got another producer id.
    removed bigint NOT NULL -- Ids that the coordinator forgot (transactional.id.expiration.ms).
    completed bigint NOT NULL -- Transactions that were completed.
    total_ms bigint NOT NULL -- Time from start to completion, all of them together.
    longest_ms bigint -- The longest of them; null without one.
    longest_completing_ms bigint -- The longest time from prepared to completed, in which markers
        are written; null where no batch had both records.
    most_partitions int -- Most partitions of one record; null where none has any.
""")

TRANSACTION_COUNTS = Table(
    schema="internal",
    name="transaction_counts",
    comment=(
        "Records of transactional ids by pattern, hour and partition of the coordinators' log. "
        "Late records get a row of their own; gold.transactional_ids adds them up."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        _LOG_PARTITION,
        *columns("""
            pattern string NOT NULL -- As in bronze.transaction_log; empty in place of null.
            hour timestamp NOT NULL -- Hour (UTC) of the records, by their timestamps.
            counted_since timestamp NOT NULL -- When the first batch was planned that it counts.
            read_at timestamp NOT NULL -- When the last one was.
            ids_min bigint NOT NULL -- Transactional ids with a record, of the stretch with most.
            ids_max bigint NOT NULL -- Those of all stretches together: one is counted in each.
        """),
        *_COUNTS,
        UPDATED_AT,
        Column(
            "is_live",
            "boolean",
            "Records of the hour may still come: nothing was read of the partition an hour after "
            "its end.",
            nullable=False,
        ),
        part_column(),
    ),
    key=("cluster_id", "cluster", "log_partition", "pattern", "hour", "counted_since"),
    partition_by=("is_live", PART),
    live="is_live",
    log_hours=24,
    over=("hour", "read_at"),
)

LOG_MEMORIES = Table(
    schema="internal",
    name="transaction_memories",
    comment="Memory of the fold of transactions, by partition of the coordinators' log.",
    columns=(
        *CLUSTER_COLUMNS,
        _LOG_PARTITION,
        *columns("""
            memory string NOT NULL -- JSON of the fold's own: its open transactions.
            due_at timestamp -- When an open one is due to be long or stuck; null if none is.
            not_followed bigint NOT NULL -- Open transactions that were left out since reading
                began: more than 2,000 were open, and these were the youngest.
        """),
        part_column(),
    ),
    key=("cluster_id", "cluster", "log_partition"),
    partition_by=(PART,),
    live="true",
    none_without="memory",
    log_hours=24,
)


def _summed(name: str) -> str:
    """A count of several rows as one."""
    how = "max" if name.startswith(("longest", "most")) else "sum"
    return f"{how}({name}) AS {name}"


TRANSACTIONAL_IDS = View(
    schema="gold",
    name="transactional_ids",
    comment=(
        "Counts of the records of transactional ids, by pattern and hour: ids of one application "
        "have one pattern. Completed transactions count in the hour of their completion."
    ),
    parts=(
        f"""SELECT cluster_id, cluster, nullif(pattern, '') AS pattern, hour,
  sum(ids) AS ids_min, sum(ids_max) AS ids_max,
  {", ".join(_summed(column.name) for column in _COUNTS)},
  CASE WHEN sum(completed) > 0
    THEN CAST(floor(sum(total_ms) / sum(completed)) AS BIGINT) END AS mean_ms,
  max(read_at) AS read_at
FROM (
  SELECT cluster_id, cluster, pattern, hour, log_partition, max(ids_min) AS ids,
    sum(ids_max) AS ids_max, {", ".join(f"{_summed(each.name)}" for each in _COUNTS)},
    max(read_at) AS read_at
  FROM {{internal.transaction_counts}}
  GROUP BY cluster_id, cluster, pattern, hour, log_partition
)
GROUP BY cluster_id, cluster, pattern, hour""",  # noqa: S608 - names of our own
    ),
    meanings=(
        *meanings("""
            cluster_id -- Kafka's id of the cluster.
            cluster -- Alias of the cluster.
            pattern -- The transactional id without numbers, uuids and runs of hexadecimal digits;
                null: all that are not among the 200 patterns with most records of a partition of
                the log in a batch.
            hour -- Hour (UTC) of the records.
            ids_min -- Transactional ids with a record: at least.
            ids_max -- Transactional ids with a record: at most, as one counts in each batch.
        """),
        *((column.name, column.comment) for column in _COUNTS),
        *meanings("""
            mean_ms -- Mean time from start to completion; null without a completed one.
            read_at -- When the last batch was planned that counts here.
        """),
    ),
)

TABLES = (TRANSACTION_LOG,)
"""Of bronze."""
HISTORY_TABLES = (TRANSACTIONS, TRANSACTION_COUNTS, LOG_MEMORIES)
VIEWS = (TRANSACTION_STATES, TRANSACTIONAL_IDS)

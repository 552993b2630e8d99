"""Columns of `bronze.transaction_log`."""

from typing import Final

import pyarrow as pa

from metadata_source.columns import BYTES, FLAG, INT, INTS, LONG, TEXT, TIME, struct

PARTITIONS: Final = pa.list_(struct(topic=TEXT, partitions=INTS))

#: What a record's key and value tell.
RECORDS: Final = pa.schema(
    [
        ("version", INT),
        ("transactional_id", TEXT),
        ("is_tombstone", FLAG),
        ("error", TEXT),
        ("key", BYTES),
        ("value", BYTES),
    ]
)

#: A transaction, or another record of an id, that a history needs by itself.
STATE: Final = struct(
    transactional_id=TEXT,
    state=TEXT,
    offset=LONG,
    timestamp=TIME,
    leader_epoch=INT,
    was_open=FLAG,
    from_offset=LONG,
    from_timestamp=TIME,
    from_leader_epoch=INT,
    producer_id=LONG,
    previous_producer_id=LONG,
    next_producer_id=LONG,
    producer_epoch=INT,
    next_producer_epoch=INT,
    client_transaction_version=INT,
    ongoing_epoch=INT,
    ongoing_client_version=INT,
    timeout_ms=INT,
    started_at=TIME,
    updated_at=TIME,
    prepared_offset=LONG,
    prepared_at=TIME,
    completed_offset=LONG,
    completed_at=TIME,
    initialized_offset=LONG,
    initialized_at=TIME,
    followed_at=TIME,
    aborted_by=TEXT,
    partition_count=INT,
    partitions=PARTITIONS,
)

#: Columns of rows `transactions`.
ROWS: Final = pa.schema(
    [
        ("record", TEXT),
        ("log_partition", INT),
        ("offset", LONG),
        ("next_offset", LONG),
        ("leader_epoch", INT),
        ("counted", LONG),
        ("pattern", TEXT),
        ("chunk", INT),
        ("from_timestamp", TIME),
        ("to_timestamp", TIME),
        ("ids", LONG),
        ("begun", LONG),
        ("committed", LONG),
        ("aborted_by_client", LONG),
        ("aborted_by_coordinator", LONG),
        ("aborted_by_unknown", LONG),
        ("timed_out", LONG),
        ("epochs_raised", LONG),
        ("producer_ids_given", LONG),
        ("removed", LONG),
        ("total_ms", LONG),
        ("longest_ms", LONG),
        ("longest_completing_ms", LONG),
        ("most_partitions", INT),
        ("states", pa.list_(STATE)),
    ]
)

SCHEMA: Final = pa.schema(
    [
        pa.field("cluster", TEXT, nullable=False),
        pa.field("log_partition", INT, nullable=False),
        pa.field("offset", LONG, nullable=False),
        pa.field("record", TEXT, nullable=False),
        pa.field("cluster_id", TEXT),
        pa.field("read_at", TIME, nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("next_offset", LONG),
        pa.field("counted", LONG),
        pa.field("records", LONG),
        pa.field("holes", LONG),
        pa.field("caught_up_at", TIME),
        pa.field("timestamp", TIME),
        pa.field("leader_epoch", INT),
        *RECORDS,
        *list(ROWS)[ROWS.get_field_index("pattern") :],
    ]
)

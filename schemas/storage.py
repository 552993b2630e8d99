"""Storage: sizes in the log directories of brokers, by day."""

from schemas.gold import UPDATED_AT
from schemas.silver import CLUSTER_COLUMNS
from schemas.table import PART, Column, Table, columns, part_column

LEVELS = ("log_dir", "topic", "partition", "future")

STORAGE = Table(
    schema="gold",
    name="storage",
    comment=(
        "How much lay in the log directories of brokers, a row for each day (UTC) and directory, "
        "topic of a directory, and partition, by the answers to the enrichment `log_dirs`. "
        "Directories that were online, and their topics, have one for each day on which their "
        "broker answered; of partitions the 200 largest of a broker, and those that changed by "
        "more than 5 %."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        *columns("""
            day date NOT NULL -- Day (UTC) of the answers.
            broker_id int NOT NULL -- Broker id.
            log_dir string NOT NULL -- Path of the directory on the broker.
            level string NOT NULL -- log_dir: all in the directory | topic: a topic's replicas in it
                | partition | future (a replica that moves to the directory from another one of its
                broker).
            topic string -- Topic name; null of directories.
            partition int -- Partition of the topic; null of directories and topics.
            size_bytes bigint -- Bytes of its log segments, of directories with those of replicas
                that move to it, as of last_at. Null if the broker did not say. A change of a topic
                or a partition by less than 5 % (of the 200 largest by less than 1 %), or one of
                changes_left_out, may not be in it.
            min_bytes bigint -- The least of the day, of what is in it; null if no size is known.
            max_bytes bigint -- The greatest of the day; as min_bytes.
            replicas bigint -- Replicas in it, as of last_at; 0: it lay there no more.
            futures int -- Of directories: those of the replicas that move to it; else null.
            offset_lag bigint -- Of a future: records that it is behind the replica that it
                replaces; else null.
            changes_left_out int -- Of directories: sizes of topics and partitions of the broker
                that changed, and were left out of the last answer as more than 100 did; else null.
            total_bytes bigint -- Of directories: size of the volume; null before Kafka 3.3.
            usable_bytes bigint -- Of directories: bytes that were left of the volume as of last_at;
                null as total_bytes. Directories in one volume share it.
            whole_at timestamp -- Of directories: when the last answer of the day was complete that
                has all its topics: those whose last_at is older lie there no more. Null of all
                else, and if no answer of the day has them all.
            first_at timestamp NOT NULL -- When the first answer of the day was complete of which
                its size was kept.
            last_at timestamp NOT NULL -- When the last one was.
        """),
        UPDATED_AT,
        Column(
            "is_live",
            "boolean",
            "A later round may still change the row: while its day is the cluster's newest.",
            nullable=False,
        ),
        part_column(),
    ),
    key=(
        *("cluster_id", "cluster", "day", "broker_id"),
        *("log_dir", "level", "topic", "partition"),
    ),
    constraints={
        "level_known": f"level IN {LEVELS}",
        "sizes_in_order": "min_bytes IS NULL OR min_bytes <= max_bytes",
        "times_in_order": "first_at <= last_at",
    },
    partition_by=("is_live", PART),
    live="is_live",
    replaced_by=("cluster_id", "cluster"),
    over=("first_at", "last_at"),
)

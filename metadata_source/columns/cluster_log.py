"""Columns of `bronze.cluster_log`."""

from typing import Final

import pyarrow as pa

from metadata_source.columns import FLAG, INT, INTS, LONG, OF_RECORDS, TEXT, TEXTS, TIME, struct

END_POINTS = pa.list_(struct(name=TEXT, host=TEXT, port=INT, security_protocol=INT))
FEATURES = pa.list_(struct(name=TEXT, min_supported_version=INT, max_supported_version=INT))
_REPLICAS = {
    "replicas": INTS,
    "isr": INTS,
    "removing_replicas": INTS,
    "adding_replicas": INTS,
    "leader": INT,
    "leader_recovery_state": INT,
    "directories": TEXTS,
    "elr": INTS,
    "last_known_elr": INTS,
}
LEADER_VOTERS = pa.list_(struct(voter_id=INT, directory_id=TEXT))
VOTER = struct(
    voter_id=INT,
    directory_id=TEXT,
    endpoints=pa.list_(struct(name=TEXT, host=TEXT, port=INT)),
    min_supported_version=INT,
    max_supported_version=INT,
)

#: `size` is that of the record's value, in bytes. `broker_change.fenced` is 1 or, of a broker that
#: is unfenced, -1.
RECORDS: Final = pa.schema(
    [
        *OF_RECORDS,
        ("type", INT),
        ("version", INT),
        ("name", TEXT),
        ("size", INT),
        ("error", TEXT),
        ("topic", struct(topic=TEXT, topic_id=TEXT)),
        (
            "partition",
            struct(
                topic_id=TEXT, partition=INT, **_REPLICAS, leader_epoch=INT, partition_epoch=INT
            ),
        ),
        ("partition_change", struct(topic_id=TEXT, partition=INT, **_REPLICAS)),
        (
            "broker",
            struct(
                broker_id=INT,
                broker_epoch=LONG,
                incarnation_id=TEXT,
                end_points=END_POINTS,
                features=FEATURES,
                rack=TEXT,
                fenced=FLAG,
                in_controlled_shutdown=FLAG,
                is_migrating_zk_broker=FLAG,
                log_dirs=TEXTS,
                cordoned_log_dirs=TEXTS,
            ),
        ),
        (
            "broker_change",
            struct(
                broker_id=INT,
                broker_epoch=LONG,
                fenced=INT,
                in_controlled_shutdown=INT,
                log_dirs=TEXTS,
                cordoned_log_dirs=TEXTS,
            ),
        ),
        (
            "controller",
            struct(
                controller_id=INT,
                incarnation_id=TEXT,
                zk_migration_ready=FLAG,
                end_points=END_POINTS,
                features=FEATURES,
            ),
        ),
        (
            "config",
            struct(resource_type=INT, resource_name=TEXT, name=TEXT, value=TEXT, is_removed=FLAG),
        ),
        ("feature", struct(name=TEXT, level=INT)),
        ("producer_ids", struct(broker_id=INT, broker_epoch=LONG, next_producer_id=LONG)),
        ("zk_migration_state", INT),
        ("transaction", struct(name=TEXT, reason=TEXT)),
        ("leader_change", struct(leader=INT, voters=LEADER_VOTERS, granting_voters=LEADER_VOTERS)),
        ("last_contained_log_timestamp_ms", LONG),
        ("kraft_version", INT),
        ("voters", pa.list_(VOTER)),
    ]
)

SCHEMA: Final = pa.schema(
    [
        pa.field("cluster", TEXT, nullable=False),
        pa.field("record", TEXT, nullable=False),
        pa.field("offset", LONG, nullable=False),
        pa.field("snapshot_offset", LONG),
        pa.field("snapshot_epoch", INT),
        pa.field("cluster_id", TEXT),
        pa.field("read_at", TIME, nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("went", TEXT),
        pa.field("next_offset", LONG),
        pa.field("records", LONG),
        pa.field("no_ops", LONG),
        pa.field("counted", LONG),
        pa.field("silence_from", TIME),
        pa.field("silence_to", TIME),
        pa.field("timestamp", TIME),
        pa.field("leader_epoch", INT),
        pa.field("is_control", FLAG),
        *(each for each in RECORDS if each.name not in OF_RECORDS.names),
    ]
)

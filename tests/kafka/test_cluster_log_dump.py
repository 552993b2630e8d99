"""The log and the snapshots of a real controller, held record by record against Kafka's own
DumpLogSegments.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from local_cluster import LocalCluster
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.record_batches import RecordBatches, read_batches
from tests.support.cluster_records import SECRET, kept
from tests.support.dumped import printed_record
from tests.support.group_messages import without_nulls
from tests.support.waiting import eventually
from truth.dump import dump

CONTROLLER = 3
BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* partitionLeaderEpoch: (\d+) .* "
    r"position: (\d+) "
)


@pytest.fixture(scope="module")
def files() -> Iterator[dict[Path, str]]:
    """The segments and snapshots of a controller that saw a few things, with what DumpLogSegments
    prints of each.
    """
    often = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    with LocalCluster(brokers=2, controllers=1, properties=often) as cluster:
        do_things(cluster)
        folder = cluster.files(CONTROLLER).data / "__cluster_metadata-0"
        eventually(lambda: list(folder.glob("*.checkpoint")), "a snapshot")
        cluster.stop(CONTROLLER)
        found = [*sorted(folder.glob("*.log")), max(folder.glob("*.checkpoint"))]
        printed = re.split(
            r"^Dumping (.*)\n", dump(cluster.kafka_version, found), flags=re.MULTILINE
        )[1:]
        yield {
            folder / Path(name).name: text
            for name, text in zip(printed[::2], printed[1::2], strict=True)
        }


def do_things(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topics = [
        NewTopic("orders", 30, 2, config={"min.insync.replicas": "1"}),
        NewTopic("gone", 1, 1),
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)
    settings = [
        ConfigResource(
            kind,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            ],
        )
        for kind, name, key, value in (
            (ResourceType.TOPIC, "orders", "retention.ms", "1000"),
            (ResourceType.TOPIC, "orders", "compression.type", "lz4"),
            (ResourceType.BROKER, "1", "leader.replication.throttled.rate", "100000"),
        )
    ]
    for setting in settings:
        admin.incremental_alter_configs([setting])[setting].result(30)
    user = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), SECRET.encode(), b"salt"
    )
    admin.alter_user_scram_credentials([user])["alice"].result(30)
    admin.delete_topics(["gone"])["gone"].result(30)
    cluster.stop(2)


def read(file: Path) -> RecordBatches:
    data = file.read_bytes()
    found = read_batches(data)
    assert found.size == len(data)
    return found


def test_every_record_is_what_kafka_prints(files: dict[Path, str]) -> None:
    names = set()
    for file, text in files.items():
        rows = [without_nulls(row) for row in decode_records(read(file).records).to_pylist()]
        assert {row.pop("leader_epoch") for row in rows} == {1}
        assert rows == [printed_record(line) for line in text.splitlines() if line.startswith("|")]
        names |= {row["name"] for row in rows}
    assert names >= {
        "LeaderChangeMessage",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        "RegisterBrokerRecord",
    }
    assert names >= {
        "TopicRecord",
        "RemoveTopicRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "ConfigRecord",
    }
    assert names >= {"BrokerRegistrationChangeRecord", "UserScramCredentialRecord", "NoOpRecord"}


def test_every_batch_is_where_kafka_says(files: dict[Path, str]) -> None:
    for file, text in files.items():
        batches = read(file).batches.to_pylist()
        told = [
            tuple(map(int, match.groups()))
            for line in text.splitlines()
            if (match := BATCH.match(line))
        ]
        assert told == [
            tuple(
                each[name]
                for name in (
                    "base_offset",
                    "last_offset",
                    "record_count",
                    "leader_epoch",
                    "position",
                )
            )
            for each in batches
        ]


def test_no_credential_of_the_log_is_kept(files: dict[Path, str]) -> None:
    printed = "".join(files.values())
    credential, *_ = map(
        json.loads, re.findall(r'"type":"USER_SCRAM_CREDENTIAL_RECORD".*"data":(\{.*?\})', printed)
    )
    secrets = [base64.b64decode(credential[name]) for name in ("storedKey", "serverKey")] + [
        b"alice"
    ]
    log = b"".join(file.read_bytes() for file in files)
    assert all(secret in log for secret in secrets)
    for file in files:
        everything = kept(decode_records(read(file).records))
        assert not any(secret in everything for secret in secrets)

"""The coordinators' log as rows: of brokers that speak bytes."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from metadata_source.columns.group_log import SCHEMA
from metadata_source.logs.topic.positions import Span
from metadata_source.options import parse_group_log
from metadata_source.protocol.record_batches import RECORDS
from tests.support.group_log import log_of
from tests.support.group_messages import key_bytes, redpanda_member
from tests.support.log_brokers import TOPIC, Brokers, commit_of, group_of
from tests.support.offset_commits import commit_key, commit_value

READ_AT = datetime(2026, 11, 27, tzinfo=UTC)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    with made.listening():
        yield made


def rows(
    brokers: Brokers, end: int, *, kind: str = "kafka", **options: str
) -> list[dict[str, Any]]:
    """Those of partition 0 from its first record on."""
    servers = {"kafka.bootstrap.servers": brokers.nodes.servers, "kind": kind}
    (cluster,) = parse_group_log(servers).clusters
    spans = [Span("c", "id", None, 0, 100, end)]
    found = list(log_of(TOPIC, **options).rows(cluster, spans, READ_AT, time.sleep))
    table = pa.Table.from_batches(found, SCHEMA)
    table.validate(full=True)
    read: list[dict[str, Any]] = table.to_pylist()
    return read


def test_a_log_as_rows(brokers: Brokers) -> None:
    brokers.append(0, group_of("g"), commit_of("g"), commit_of("h"), (b"\0\3\0\1g", None))
    brokers.append(0, (b"\0\0\0\1", bytes(6)), control=True)
    found = rows(brokers, 105)
    assert {(row["cluster"], row["cluster_id"], row["read_at"]) for row in found} == {
        ("c", "id", READ_AT)
    }
    told = [(row["record"], row["offset"], row["next_offset"], row["group_id"]) for row in found]
    assert sorted(told, key=str) == [
        ("commits", 101, 102, "g"),
        ("commits", 102, 103, "h"),
        ("marker", 104, 105, None),
        ("read", 100, 105, None),
        ("record", 100, None, "g"),
        ("record", 103, None, "g"),
    ]
    (read,) = (row for row in found if row["record"] == "read")
    assert (read["commits"], read["records"], read["holes"]) == (2, 2, 1)
    assert {row["leader_epoch"] for row in found if row["record"] == "record"} == {7}


def test_only_groups_that_are_wanted_have_their_commits_kept(brokers: Brokers) -> None:
    groups = ("orders", "orders-2", "no orders", "other")
    brokers.append(0, *map(commit_of, groups), group_of("other"))
    found = rows(brokers, 105, groupsPattern="orders.*")
    assert [row["group_id"] for row in found if row["record"] == "commits"] == [
        "orders",
        "orders-2",
    ]
    assert [row["group_id"] for row in found if row["record"] == "record"] == ["other"]
    assert [row["commits"] for row in found if row["record"] == "read"] == [4]


@pytest.mark.parametrize(
    ("keys", "is_control", "has_news"),
    [
        ([commit_of("g")[0]], False, False),
        ([b"\0\0\0\1g\0\1t\0\0\0\0"], False, False),
        ([b"\0\0\0\1"], True, False),
        # Of a later version, as a type of others.
        ([b"\0\2\0\1"], True, False),
        ([group_of("g")[0]], False, True),
        ([commit_of("g")[0], group_of("g")[0]], False, True),
        ([None], False, True),
    ],
)
def test_commits_and_markers_are_no_news(
    keys: list[bytes | None], *, is_control: bool, has_news: bool
) -> None:
    records = pa.RecordBatch.from_pylist(
        [
            {
                "offset": 0,
                "leader_epoch": 1,
                "timestamp_ms": 1,
                "is_control": is_control,
                "key": key,
                "value": None,
            }
            for key in keys
        ],
        RECORDS,
    )
    assert log_of(TOPIC).has_news(records) == has_news


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            commit_key("a", "t", 0)[:-1],
            commit_value(3, 5),
            "OffsetCommitKey v0: partition at byte 8: 4 bytes wanted, 3 left",
        ),
        (commit_key("a", "t", 0), b"", "a value of 0 bytes, 2 at least wanted"),
        (
            commit_key("a", "t", 0),
            b"\0\5" + bytes(30),
            "unknown version 5 of record type 1, known are 0 to 4",
        ),
        (commit_key("a", "t", 0), commit_value(3, -5, "SECRET"), "-5 is no offset"),
        (commit_key("a", "t", 0), commit_value(3, 5) + b"SECRET", "1 bytes are left over"),
        (
            commit_key("a", "t", 0, kind=0),
            commit_value(4, 5, "SECRET")[:-9],
            "OffsetCommitValue v4: ",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 20])
def test_a_commit_that_cannot_be_read_is_a_row_without_its_value(
    brokers: Brokers, key: bytes, value: bytes, said: str, count: int
) -> None:
    brokers.append(0, (commit_key("a", "t", 1), commit_value(3, 5)), *[(key, value)] * count)
    found = rows(brokers, 101 + count)
    (went,) = (row for row in found if row["record"] == "read")
    wrong = [row for row in found if row["record"] == "record"]
    assert (went["commits"], went["records"], went["holes"], len(wrong)) == (1, count, 0, count)
    for row in wrong:
        assert said.removeprefix("1 bytes") in row["error"]
        assert (row["key"], row["value"], row["type"]) == (key, None, int.from_bytes(key[:2]))
        assert "SECRET" not in str(row)
    assert [
        row["offset_commits"][0]["partition"] for row in found if row["record"] == "commits"
    ] == [1]


@pytest.mark.parametrize("kind", ["redpanda", "kafka"])
def test_groups_of_a_cluster_of_redpanda_are_read_as_it_writes_them(
    brokers: Brokers, kind: str
) -> None:
    member = redpanda_member("m1", b"") + bytes(4)
    group = (
        b"\0\3\0\x08consumer" + bytes(4) + b"\xff\xff\xff\xff" + bytes(8) + (1).to_bytes(4) + member
    )
    brokers.append(0, (key_bytes(2, {"group": "g"}), group))
    (row,) = (row for row in rows(brokers, 101, kind=kind) if row["record"] == "record")
    assert (row["error"] is None) == (kind == "redpanda")
    assert row["classic"] is None or [each["member_id"] for each in row["classic"]["members"]] == [
        "m1"
    ]

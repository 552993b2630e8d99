"""The source `kafka_group_log` without Kafka: its options, and what lies between two places in logs."""

import json
import pickle
import zlib
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from pyspark.sql.pandas.types import from_arrow_schema

from metadata_source.errors import GroupLogError, OptionsError, ProtocolError
from metadata_source.group_log.batches import read_answers
from metadata_source.group_log.datasource import KafkaGroupLogSource, _tasks
from metadata_source.group_log.places import Log, Place, Span, advance, spans
from metadata_source.group_log.reader import SCHEMA, Went, record_rows, span_rows
from metadata_source.group_log.watcher import LogWatcher
from metadata_source.options import GROUP_LOG_OPTIONS, markdown_table, parse_group_log
from metadata_source.protocol.codecs import decompress, with_lz4_checksum
from metadata_source.tasks import CLUSTERS_A_TASK, OFFSETS_A_TASK, grouped
from schemas.bronze import GROUP_LOG
from tests.record_batches import Batch, Record, batch_bytes

BOOTSTRAP = {"kafka.bootstrap.servers": "one:9092"}


def test_the_columns_are_those_of_bronze():
    assert [(each.name, each.dataType.simpleString(), each.nullable) for each in from_arrow_schema(SCHEMA)] == [
        (column.name, column.type.replace(": ", ":").replace(", ", ","), column.nullable)
        for column in GROUP_LOG.columns
    ]
    assert KafkaGroupLogSource(BOOTSTRAP).schema() == from_arrow_schema(SCHEMA)


@pytest.mark.parametrize(
    ("given_text", "starting"),
    [
        (None, "earliest"),
        ("Latest", "latest"),
        ("1763802000000", 1763802000000),
        ("2025-11-22T09:00:00Z", 1763802000000),
        ("2025-11-22T10:00:00.500+01:00", 1763802000500),
    ],
)
def test_where_a_log_begins(given_text, starting):
    assert parse_group_log(BOOTSTRAP | ({"startingoffsets": given_text} if given_text else {})).starting == starting


def test_what_is_asked_for():
    options = parse_group_log(
        {
            "clusters": json.dumps({"a": BOOTSTRAP, "b": BOOTSTRAP | {"clusterId": "x"}}),
            "MAXRECORDSPERBATCH": "7",
            "requestTimeout": "5s",
            "clientHashKey": "env:HASH_KEY",
            "groupsPattern": "orders.*",
        },
        "stream",
    )
    assert [cluster.alias for cluster in options.clusters] == ["a", "b"]
    assert (options.max_records, options.request_timeout_ms, options.client_hash_key) == (7, 5_000, "env:HASH_KEY")
    assert options.groups_pattern == r"\A(?:orders.*)\z"


@pytest.mark.parametrize(
    ("mode", "given_options", "said"),
    [
        (None, {}, "kafka.bootstrap.servers: missing"),
        (
            None,
            BOOTSTRAP | {"startingOffset": "earliest"},
            "unknown option 'startingOffset': did you mean 'startingOffsets'?",
        ),
        (None, BOOTSTRAP | {"pollInterval": "1s"}, "unknown option 'pollInterval'"),
        (None, BOOTSTRAP | {"startingOffsets": "yesterday"}, "'yesterday' is neither earliest, latest, a time such as"),
        (None, BOOTSTRAP | {"startingOffsets": "2025-11-22T09:00:00"}, "has no zone: end it with Z or an offset"),
        (None, BOOTSTRAP | {"maxRecordsPerBatch": "0"}, "maxRecordsPerBatch: '0' is not a whole number from 1"),
        ("batch", BOOTSTRAP | {"maxRecordsPerBatch": "9"}, "not in a batch read, which reads all there is"),
        (None, BOOTSTRAP | {"clientHashKey": "hunter2"}, "clientHashKey: not a reference"),
        (None, BOOTSTRAP | {"groupsPattern": "a)|(b"}, "groupsPattern: 'a)|(b' is not a regular expression of RE2"),
        ("batch", BOOTSTRAP | {"resumeAt": "{}"}, "resumeAt: not in a batch read"),
        *(
            (None, BOOTSTRAP | {"resumeAt": text}, 'resumeAt: not JSON such as {"alias": {"0": 42}}')
            for text in ("here", "[]", '{"a": 4}', '{"a": {"x": 4}}', '{"a": {"0": null}}')
        ),
        (None, {"clusters": '{"a": {"startingOffsets": "latest"}}'}, "startingOffsets: one for the whole read"),
    ],
)
def test_what_cannot_be_meant(mode, given_options, said):
    with pytest.raises(OptionsError) as raised:
        parse_group_log(given_options, mode)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_the_table_shows_every_option_once():
    lines = markdown_table(GROUP_LOG_OPTIONS).splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == [option.name for option in GROUP_LOG_OPTIONS]


def test_msk_takes_tokens_by_oauthbearer():
    sasl = BOOTSTRAP | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "aws_msk_iam"}
    (cluster,) = parse_group_log(sasl).clusters
    assert (cluster.sasl_mechanism, cluster.sent_mechanism) == ("AWS_MSK_IAM", "OAUTHBEARER")


OFFSETS = st.integers(0, 1_000)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    begins = draw(st.dictionaries(st.integers(0, 5), OFFSETS, min_size=1))
    ends = {partition: begin + draw(OFFSETS) for partition, begin in begins.items()}
    return Log("cluster", "topic", frozenset(begins), begins, ends)


@given(logs(), st.data(), st.integers(1, 500))
def test_bounded_batches_go_through_every_offset_once_and_come_to_the_end(seen, data, limit):
    """From places before, in and at the end of the log: what comes between two places, joined, is all there was to
    come.
    """
    known = data.draw(st.sets(st.sampled_from(sorted(seen.partitions))))
    start = {partition: data.draw(st.integers(0, seen.ends[partition])) for partition in known}
    place = Place("cluster", "topic", start)
    at = dict(start)
    for _ in range(2_100):
        following = advance(place, seen, limit)
        between = list(spans({"c": place}, {"c": following}))
        assert not any(span.truncated for span in between)
        readable = [span.end - max(span.start, seen.begins[span.partition]) for span in between]
        assert sum(readable) <= limit + len(seen.partitions)
        for span in between:
            assert span.start == at[span.partition]
            at[span.partition] = span.end
        assert Place.from_json(json.loads(json.dumps(following.to_json()))) == following
        if following == place:
            break
        at = {partition: at.get(partition, following.next[partition]) for partition in following.next}
        place = following
    assert place.next == seen.ends == at


def test_a_partition_that_is_new_begins_with_its_first_record():
    place = Place("cluster", "topic", {0: 10})
    seen = Log("cluster", "topic", frozenset({0, 1}), {0: 0, 1: 3}, {0: 12, 1: 9})
    following = advance(place, seen)
    assert following.next == {0: 12, 1: 3}
    assert list(spans({"c": place}, {"c": following})) == [Span("c", "cluster", "topic", 0, 10, 12)]
    assert advance(following, seen).next == {0: 12, 1: 9}


def test_without_a_leader_a_partition_keeps_its_place():
    place = Place("cluster", "topic", {0: 10, 1: 4})
    seen = Log("cluster", "topic", frozenset({0, 1}), {0: 0}, {0: 12})
    assert not seen.whole
    assert advance(place, seen).next == {0: 12, 1: 4}
    gone = Log("cluster")
    assert advance(place, gone) == place


def test_a_log_that_ends_before_its_place_was_truncated():
    place = Place("cluster", "topic", {0: 10, 1: 4})
    seen = Log("cluster", "topic", frozenset({0, 1}), {0: 0, 1: 0}, {0: 7, 1: 4})
    following = advance(place, seen, 1)
    (span,) = spans({"c": place}, {"c": following})
    assert (span.start, span.end, span.truncated) == (10, 7, True)
    assert advance(following, seen, 1) == following


def test_a_topic_that_was_made_again_is_read_from_its_beginning():
    place = Place("cluster", "topic", {0: 10, 1: 4})
    again = Log("cluster", "another", frozenset({0, 1}), {0: 0, 1: 0}, {0: 300, 1: 4})
    leaderless = replace(again, begins={0: 0}, ends={0: 300})
    assert advance(place, leaderless) == place
    following = advance(place, again)
    assert following == Place("cluster", "another", {0: 0, 1: 0})
    assert [(span.start, span.end, span.truncated) for span in spans({"c": place}, {"c": following})] == [
        (10, 0, True),
        (4, 0, True),
    ]
    assert advance(following, again).next == {0: 300, 1: 4}


def test_a_cluster_that_is_found_has_a_batch_without_rows():
    place = Place("cluster", "topic", {0: 10})
    assert list(spans({}, {"c": place})) == []
    assert list(spans({"c": Place("cluster", None, {})}, {"c": place})) == []


def test_a_log_whose_place_was_lost_is_read_from_where_it_was_read_up_to(monkeypatch):
    """Though it is to begin at its end, and some of it is gone by now: that is a span, whose rows say so."""
    seen = Log("cluster", "topic", frozenset(range(4)), {0: 7, 1: 0, 2: 0, 3: 0}, {0: 90, 1: 90, 2: 90, 3: 90})
    monkeypatch.setattr(LogWatcher, "look", lambda *_: seen)
    options = {"resumeAt": json.dumps({"default": {"0": 3, "1": 40, "2": 95}}), "startingOffsets": "latest"}
    source = KafkaGroupLogSource(BOOTSTRAP | options)
    reader = source.streamReader(source.schema())
    start = reader.latestOffset(reader.initialOffset(), None)
    end = reader.latestOffset(start, None)
    (task,) = reader.partitions(start, end)
    found = {span.partition: (span.start, span.end, span.truncated) for span in task.spans["default"]}
    assert found == {0: (3, 90, False), 1: (40, 90, False), 2: (95, 90, True), 3: (0, 90, False)}
    reader.stop()


def test_what_a_cluster_that_is_no_longer_configured_had_to_come_is_lost():
    options = parse_group_log(BOOTSTRAP)
    source = KafkaGroupLogSource(BOOTSTRAP)
    # That a log had been truncated is known already, and said.
    for start, end, became in (3, 9, "lost"), (9, 3, "truncated"):
        (task,) = _tasks([Span("gone", "cluster", "topic", 0, start, end)], options, "topic")
        (batch,) = source.streamReader(source.schema()).read(task)
        (row,) = batch.to_pylist()
        assert (row["cluster"], row["record"], row["offset"], row["next_offset"]) == ("gone", became, start, end)
    assert list(source.streamReader(source.schema()).read(None)) == []  # Spark's own, for a batch without tasks


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2 * OFFSETS_A_TASK)), max_size=80),
)
def test_each_span_is_read_by_one_task_and_a_task_takes_no_more_than_it_may(sizes):
    between = [Span(f"c{cluster}", None, None, n, 0, size) for n, (cluster, size) in enumerate(sizes)]
    tasks = list(grouped(between))
    assert (
        sorted((span for task in tasks for spans_ in task.values() for span in spans_), key=lambda span: span.partition)
        == between
    )
    for task in tasks:
        assert len(task) <= CLUSTERS_A_TASK
        assert {span.cluster for spans_ in task.values() for span in spans_} == set(task)
        *others, _ = sorted((span for spans_ in task.values() for span in spans_), key=lambda span: span.partition)
        assert sum(span.end for span in others) < OFFSETS_A_TASK


def test_many_clusters_with_little_news_are_few_tasks():
    between = [Span(f"c{cluster}", None, None, n, 0, 20) for cluster in range(300) for n in range(50)]
    assert len(list(grouped(between))) == 19


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_messages_of_old_formats_are_read_before_record_batches(magic: int, codec: int):
    """A compacted log has them for as long as nobody writes their keys again."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, value in enumerate((b"\0\0", None, b"\0\1")):
        builder.append(offset, 1_763_802_000_000 + offset, b"\0\x63", value)
    old = bytes(builder.build())
    if codec:
        # As a broker writes it: a compressed message has the offset of the last one in it.
        old = (2).to_bytes(8) + old[8:]
    new = batch_bytes(Batch(3, [Record(0, 0, b"\0\x63", b"\0\2")], base_timestamp=1_763_802_000_000))
    found = list(read_answers({4: old + new + new[:20], 7: new}))
    rows = [
        (p, *row.values()) for each in found for p, row in zip(each.partitions, each.records.to_pylist(), strict=True)
    ]
    times = [1_763_802_000_000 + offset if magic else -1 for offset in range(3)]
    assert rows == [
        (4, 0, -1, times[0], False, b"\0\x63", b"\0\0"),
        (4, 1, -1, times[1], False, b"\0\x63", None),
        (4, 2, -1, times[2], False, b"\0\x63", b"\0\1"),
        *((p, 3, 1, 1_763_802_000_000, False, b"\0\x63", b"\0\2") for p in (4, 7)),
    ]
    assert [each.after for each in found] == [{4: 3}, {4: 4, 7: 4}]
    table = pa.Table.from_batches([each.records for each in found]).append_column("log_partition", pa.array([4] * 5))
    span = Span("c", "id", "topic", 4, 0, 9)
    first = record_rows(span, datetime.now(UTC), table, None).to_pylist()[0]
    assert (first["timestamp"] is None, first["leader_epoch"]) == (magic == 0, None)


#: Three messages, compressed with LZ4 by Kafka 4.4.0's own MemoryRecords, by their format. In format 0 the header's
#: checksum is the wrong one that clients wrote (KAFKA-3160).
LZ4_OF_KAFKA = {
    0: (
        "00000000000000070000006fb59819520003ffffffff0000006104224d1860401a52000000120001009105000000419194ce"
        "540f00ff00016b0000003276616c75652d302d61010016013d00300000064d0040bbbcf6360d00094d001f314d001f10074d"
        "004dc5c4be904d001f324d001350616161616100000000"
    ),
    1: (
        "000000000000000700000083d3b6566501030000019aaacaaa82ffffffff0000006d04224d186040825e00000016000100f0"
        "0049acdbd96101000000019aaacaaa800900ef6b0000003276616c75652d302d61010016035400004c0050494c206f8c0900"
        "0155001b8155001f3155001f950200000049b65db2fa55001b8255001f3255001350616161616100000000"
    ),
}


@pytest.mark.parametrize("magic", [0, 1])
def test_the_checksum_of_an_lz4_header_counts_in_format_1_alone(magic: int):
    data = bytes.fromhex(LZ4_OF_KAFKA[magic])
    (found,) = read_answers({0: data})
    values = [f"value-{n}-{'a' * 42}".encode() for n in range(3)]
    assert found.records["value"].to_pylist() == values
    assert found.records["offset"].to_pylist() == [5, 6, 7]
    header = data.index(b"\x04\x22\x4d\x18")
    wrong = bytearray(data)
    wrong[header + 6] ^= 0x55
    wrong[12:16] = zlib.crc32(wrong[16:]).to_bytes(4)
    if magic == 0:
        (again,) = read_answers({0: bytes(wrong)})
        assert again.records == found.records
    else:
        with pytest.raises(ProtocolError, match="not lz4"):
            list(read_answers({0: bytes(wrong)}))


@pytest.mark.parametrize("size", [b"", (5).to_bytes(8, "little")])
def test_the_checksum_of_an_lz4_header_is_made_of_all_of_its_fields(size: bytes):
    header = b"\x04\x22\x4d\x18" + bytes([0x68 if size else 0x60, 0x40]) + size
    frame = header + b"?" + (5 | 1 << 31).to_bytes(4, "little") + b"hello" + bytes(4)
    assert decompress(with_lz4_checksum(frame), "lz4", 99) == b"hello"
    assert [with_lz4_checksum(data) for data in (b"", b"\x04\x22", b"none of LZ4")] == [
        b"",
        b"\x04\x22",
        b"none of LZ4",
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_old_format_that_is_wrong_is_one_error(magic: int):
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(0, 1_763_802_000_000, b"key", b"value")
    good = bytes(builder.build())
    for at in range(12, len(good)):
        wrong = good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :]
        with pytest.raises(ProtocolError):
            list(read_answers({0: good + wrong}))
    (found,) = read_answers({0: good + good[:-1]})
    assert len(found.records) == 1


def test_rows_of_spans_have_the_columns_and_readers_pickle():
    went = Went(Span("c", None, None, 0, 1, 2), "read", 1, 2, commits=1, records=0, holes=0)
    assert span_rows([went], datetime.now(UTC)).schema == SCHEMA
    source = KafkaGroupLogSource(BOOTSTRAP)
    for reader in (source.reader(source.schema()), source.streamReader(source.schema())):
        copied = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
        assert vars(copied) == vars(reader)
    error = GroupLogError("timeout", "nothing came")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)  # noqa: S301


def test_a_reader_goes_to_its_workers_without_secrets_and_connections(monkeypatch):
    """Spark pickles it with what it has looked at."""
    monkeypatch.setenv("GROUP_LOG_PASSWORD", "passMk7Qz2Wn4")
    monkeypatch.setenv("HASH_KEY", "hashMk4Ns7Fd2")
    source = KafkaGroupLogSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": "env:GROUP_LOG_PASSWORD",
            "clientHashKey": "env:HASH_KEY",
            "requestTimeout": "1s",
        }
    )
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    try:
        assert reader.latestOffset({}, None) == {}
        assert reader._looks is not None
        pickled = pickle.dumps(reader)
    finally:
        reader.stop()
    assert b"env:GROUP_LOG_PASSWORD" in pickled
    assert not [mark for mark in (b"passMk7Qz2Wn4", b"hashMk4Ns7Fd2") if mark in pickled]
    assert pickle.loads(pickled)._looks is None  # noqa: S301 - our own bytes

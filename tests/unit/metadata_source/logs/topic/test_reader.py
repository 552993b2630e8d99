"""Spans of a topic's log as records, each of which is read or lost once: batches that cannot be
read cost their own offsets, and no others.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.errors import LogError, PollError
from metadata_source.logs.group.commits import Commits
from metadata_source.logs.topic import batches, reader
from metadata_source.logs.topic.batches import Answered, read_answers
from metadata_source.logs.topic.positions import Span
from metadata_source.logs.topic.watcher import Led
from metadata_source.protocol import record_batches
from tests.support.for_each import for_each
from tests.support.group_log import log_of
from tests.support.record_batches import Batch, Record, batch_bytes
from tests.support.topic_batches import KEY, batch, flipped, old
from tests.support.topic_leader import Leader


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_WAIT_S", 0.001)


def read(
    leader: Leader, ends: dict[int, int], timeout_s: float = 5.0
) -> tuple[dict[int, list[int]], list[reader.Went]]:
    """The offsets of the records that came of each partition, and what became of spans from 0
    on.
    """
    spans = [Span("c", "id", None, partition, 0, end) for partition, end in ends.items()]
    reading = reader.Reading(leader, spans, "topic", Commits())
    offsets: dict[int, list[int]] = {partition: [] for partition in ends}
    went: list[reader.Went] = []
    for records, _, ended in reading.steps(timeout_s):
        for each in records:
            for partition, offset in zip(
                *(each[name].to_pylist() for name in ("log_partition", "offset")), strict=True
            ):
                offsets[partition].append(offset)
        went += ended
    return offsets, went


def fates(went: list[reader.Went], partition: int = 0) -> list[tuple[str, int, int]]:
    return [
        (each.record, each.offset, each.next_offset)
        for each in went
        if each.span.partition == partition
    ]


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "its CRC": (lambda: flipped(batch(2, 3), -1), "crc: not that of the bytes"),
    "its codec": (lambda: batch(2, 3, written={"attributes": 5}), "attributes: an unknown codec"),
    "its count": (lambda: batch(2, 3, written={"count": 9}), "count: "),
    "a record": (
        lambda: batch_bytes(Batch(2, [Record(n) for n in (0, 1, 9)], last_offset_delta=2)),
        "records: ",
    ),
}


@pytest.mark.parametrize("kind", BAD)
@for_each("batches_an_answer", [1, 2, 5])
def test_a_bad_batch_is_lost_after_some_tries_and_the_rest_is_read(
    kind: str, batches_an_answer: int
) -> None:
    make, problem = BAD[kind]
    log = [(1, batch(0, 2)), (4, make()), (6, batch(5, 2))]
    leader = Leader({0: log, 1: [(9, batch(0, 10))]}, batches_an_answer)
    offsets, went = read(leader, {0: 7, 1: 10})
    assert offsets == {0: [0, 1, 5, 6], 1: [*range(10)]}
    assert fates(went) == [("read", 0, 2), ("lost", 2, 5), ("read", 5, 7)]
    assert fates(went, 1) == [("read", 0, 10)]
    assert [asked[0] for asked in leader.asked if 0 in asked].count(2) in {2, 3}
    # Another broker may lead by now.
    assert leader.leaders_asked > 1
    (rows,) = log_of("topic").fates(
        [each for each in went if each.record == "lost"], datetime.now(UTC)
    )
    row = rows.to_pylist()[0]
    assert (row["record"], row["offset"], row["next_offset"]) == ("lost", 2, 5)
    assert problem in row["error"]


def test_a_batch_that_was_bad_by_its_way_here_is_read() -> None:
    class Noisy(Leader):
        def answer(self, partition: int, offset: int) -> dict[str, Any]:
            answer = super().answer(partition, offset)
            return answer | (
                {"records": flipped(answer["records"], -1)} if len(self.asked) < 3 else {}
            )

    offsets, went = read(Noisy({0: [(1, batch(0, 2)), (4, batch(2, 3))]}, 2), {0: 5})
    assert (offsets, fates(went)) == ({0: [0, 1, 2, 3, 4]}, [("read", 0, 5)])


@pytest.mark.parametrize("at", [8, 9, 10, 11, 16])
def test_of_a_batch_without_a_length_or_a_format_the_rest_of_the_span_is_lost(at: int) -> None:
    """Nobody can say where the next one begins; it may be read with the next span."""
    bad = flipped(batch(2, 3), at)
    offsets, went = read(
        Leader({0: [(1, batch(0, 2)), (4, bad)], 1: [(0, batch(0))]}), {0: 5, 1: 1}, 0.3
    )
    assert offsets == {0: [0, 1], 1: [0]}
    assert fates(went) == [("read", 0, 2), ("lost", 2, 5)]


@for_each("length", [-12, -1, 0, 1, 4, 13])
@for_each("magic", [0, 2])
def test_a_region_of_zeros_or_of_a_length_of_no_message_is_lost(length: int, magic: int) -> None:
    """A power cut leaves zeros. The CRC of nothing is 0, too."""
    bad = (2).to_bytes(8) + length.to_bytes(4, signed=True) + bytes(4) + bytes([magic]) + bytes(60)
    for log in ([(1, batch(0, 2)), (4, bad)], [(1, batch(0, 2)), (4, bad[: 12 + max(length, 0)])]):
        offsets, went = read(Leader({0: log, 1: [(0, batch(0))]}), {0: 5, 1: 1}, 0.05)
        assert offsets == {0: [0, 1], 1: [0]}
        assert fates(went) == [("read", 0, 2), ("lost", 2, 5)]


def test_a_leader_that_hangs_after_an_answer_that_was_cut_off_loses_nothing() -> None:
    class Hangs(Leader):
        """Answers a part of a batch once, then no more."""

        def fetch(
            self, _address: object, offsets: dict[Led, int], deadline: float
        ) -> list[dict[str, Any]]:
            if self.asked:
                raise PollError("timeout", "no answer")
            return [
                each | {"records": each["records"][:70]}
                for each in super().fetch(_address, offsets, deadline)
            ]

    with pytest.raises(LogError, match="nothing came from offset 0 on") as raised:
        read(Hangs({0: [(4, batch(0, 5))]}), {0: 5}, 0.2)
    assert raised.value.kind == "timeout"


def test_a_log_that_its_own_leader_cannot_read_is_lost_for_this_span() -> None:
    leader = Leader({0: [(4, batch(0, 5))], 1: [(9, batch(0, 10))]})
    leader.codes[0] = 2
    offsets, went = read(leader, {0: 5, 1: 10})
    assert offsets == {0: [], 1: [*range(10)]}
    (lost,) = (each for each in went if each.span.partition == 0)
    assert (lost.record, lost.offset, lost.next_offset, lost.error) == (
        "lost",
        0,
        5,
        "error 2 (CorruptRecordError)",
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_messages_of_old_formats_are_one_row_that_says_so(magic: int, codec: int) -> None:
    """A compacted log has them for as long as nobody writes their keys again. Kafka 4 does not read
    them (KIP-896).
    """
    log = [(1, batch(0, 2)), (3, old(2, 2, magic, codec)), (4, old(4, 1, magic)), (5, batch(5))]
    leader = Leader({0: log, 1: [(9, batch(0, 10))]}, 9)
    offsets, went = read(leader, {0: 6, 1: 10})
    assert offsets == {0: [0, 1, 5], 1: [*range(10)]}
    assert fates(went) == [("read", 0, 2), ("lost", 2, 5), ("read", 5, 6)]
    (lost,) = (each for each in went if each.record == "lost")
    assert lost.error == f"messages of format {magic}, from before Kafka 0.11, are not read"
    assert len(leader.asked) == 1


def test_an_answer_has_one_budget_of_decompressed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of it comes again, from where it was read."""
    budget = 10_000
    monkeypatch.setattr(batches, "MOST_DECOMPRESSED", budget)
    monkeypatch.setattr(record_batches, "MOST_DECOMPRESSED", budget)
    bomb = [
        (n, batch_bytes(Batch(n, [Record(0, 0, KEY, bytes(9_000))], codec="zstd")))
        for n in range(40)
    ]
    too_large = batch_bytes(Batch(40, [Record(0, 0, KEY, bytes(90_000))], codec="zstd"))
    data = b"".join(each for _, each in bomb)
    read_of_one = sum(
        each.records.nbytes for each in read_answers({0: data}) if isinstance(each, Answered)
    )
    assert 9_000 < read_of_one < 3 * budget
    leader = Leader({0: [*bomb, (40, too_large), (41, batch(41))]}, 99)
    offsets, went = read(leader, {0: 42})
    assert offsets == {0: [*range(40), 41]}
    assert fates(went) == [("read", 0, 40), ("lost", 40, 41), ("read", 41, 42)]
    assert len(leader.asked) >= 20


def test_an_answer_that_takes_long_is_read_up_to_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "read_by", lambda _: time.monotonic() - 1)
    leader = Leader({0: [(0, batch(0)), (1, old(1)), (2, batch(2))]}, 9)
    offsets, went = read(leader, {0: 3})
    assert offsets == {0: [0, 2]}
    assert fates(went) == [("read", 0, 1), ("lost", 1, 2), ("read", 2, 3)]
    assert len(leader.asked) == 3


def test_a_broker_that_gives_one_record_at_a_time_does_not_hold_up_the_others_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(reader.time, "monotonic", lambda: clock[0])

    class Slow(Leader):
        def answer(self, partition: int, offset: int) -> dict[str, Any]:
            clock[0] += 2.0
            return super().answer(partition, offset)

    log = [(n, batch(n)) for n in range(1_000)]
    with pytest.raises(LogError, match="it takes longer than a second for 100 offsets") as raised:
        read(Slow({3: log}, 1), {3: 1_000})
    assert raised.value.kind == "timeout"
    assert 60 <= clock[0] <= 70


@st.composite
def logs(draw: st.DrawFn) -> dict[int, list[tuple[int, bytes, bool]]]:
    """Of partitions: batches with their last offsets, and whether they are good."""
    chance = draw(st.randoms(use_true_random=False))
    made: dict[int, list[tuple[int, bytes, bool]]] = {}
    for partition in range(draw(st.integers(1, 3))):
        offset, made[partition] = 0, []
        for _ in range(draw(st.integers(1, 8))):
            count = chance.randint(1, 4)
            kind = chance.choice(["good", "good", "flipped", "old"])
            data = (
                old(offset, count)
                if kind == "old"
                else batch(offset, count, codec=chance.choice(["none", "zstd"]))
            )
            if kind == "flipped":
                # No checksum covers the leader's epoch.
                data = flipped(data, chance.choice([*range(8, 12), *range(16, len(data))]))
            offset += count
            made[partition].append((offset - 1, data, kind == "good"))
            offset += chance.randint(0, 2)  # compacted away
    return made


@given(logs(), st.integers(1, 9))
def test_each_offset_is_read_or_lost_once_and_no_bad_batch_costs_another_partition(
    log: dict[int, list[tuple[int, bytes, bool]]], an_answer: int
) -> None:
    leader = Leader(
        {partition: [each[:2] for each in of] for partition, of in log.items()}, an_answer
    )
    ends = {partition: of[-1][0] + 1 for partition, of in log.items()}
    offsets, went = read(leader, ends, 0.05)
    for partition, of in log.items():
        told = fates(went, partition)
        assert [each[1] for each in told] == [0, *(each[2] for each in told[:-1])]
        assert told[-1][2] == ends[partition]
        is_lost = {
            offset for kind, begin, end in told for offset in range(begin, end) if kind == "lost"
        }
        good = [offset for last, data, is_good in of if is_good for offset in offsets_of(data)]
        assert offsets[partition] == [offset for offset in good if offset not in is_lost]
        if all(is_good for _, _, is_good in of):
            assert not is_lost
        elif all(is_good or data[16] < 2 for _, data, is_good in of):
            assert is_lost.isdisjoint(good)


def offsets_of(data: bytes) -> Iterator[int]:
    yield from record_batches.read_batches(data).records["offset"].to_pylist()

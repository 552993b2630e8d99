"""Places in a log whose leaders change, cleanly and not: against logs of replicas, record by
record.
"""

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.lineage import OPEN, Lineage, is_short, older
from metadata_source.logs.tasks import spans
from metadata_source.logs.topic.positions import (
    CaughtUp,
    LogExtent,
    LogPosition,
    Span,
    advance,
    found,
    noted_end,
)
from tests.support.examples import examples

REPLICAS = 3


@dataclass
class Partition:
    """The replicas of a partition, each record as its epoch and a number of its own."""

    logs: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(REPLICAS)])
    isr: set[int] = field(default_factory=lambda: set(range(REPLICAS)))
    leader: int = 0
    epoch: int = 0
    epoch_start: int = 0
    written: int = 0
    asked: int = 0

    @property
    def log(self) -> list[tuple[int, int]]:
        return self.logs[self.leader]

    @property
    def end(self) -> int:
        """The high watermark."""
        return min(len(self.logs[each]) for each in self.isr)

    def write(self, count: int) -> None:
        """As acks=all has it."""
        self.write_alone(count)
        for replica in self.isr:
            self.follow(replica)

    def write_alone(self, count: int) -> None:
        """What its leader loses by a clean election, too."""
        for _ in range(count):
            self.written += 1
            self.log.append((self.epoch, self.written))

    def follow(self, replica: int) -> None:
        self.logs[replica] = list(self.log)
        self.isr.add(replica)

    def fall_out(self, replica: int) -> None:
        if replica != self.leader:
            self.isr.discard(replica)

    def elect(self, replica: int) -> None:
        """Unclean where the replica is not in sync."""
        self.isr = self.isr - {self.leader} | {replica} if replica in self.isr else {replica}
        self.leader, self.epoch, self.epoch_start = replica, self.epoch + 1, len(self.logs[replica])

    def end_of(self, asked: int) -> tuple[int, int]:
        """LeaderEpochFileCache.endOffsetFor, on the leader."""
        self.asked += 1
        starts: dict[int, int] = {}
        for offset, (epoch, _) in enumerate(self.log):
            starts.setdefault(epoch, offset)
        starts[self.epoch] = min(starts.get(self.epoch, OPEN), self.epoch_start)
        higher = min(start for epoch, start in starts.items() if epoch > asked)
        return max((epoch for epoch in starts if epoch <= asked), default=asked), higher

    def ask_extent(self, position: LogPosition | None) -> LogExtent:
        """As a watcher does."""
        if self.end < self.epoch_start:
            return LogExtent("c", "t", frozenset({0}))  # KIP-207
        ours = position.epochs.get(0, ()) if position is not None else ()
        theirs: Lineage = ((self.epoch, OPEN),)
        while is_short(ours, theirs):
            theirs = older(theirs, *self.end_of(theirs[0][0] - 1), 0)
        return LogExtent("c", "t", frozenset({0}), {0: 0}, {0: self.end}, {0: theirs})


def read(
    partition: Partition, position: LogPosition, seen: list[tuple[int, int]], limit: int | None
) -> tuple[LogPosition, bool]:
    """One batch: change what was seen as its spans say."""
    following = advance(position, partition.ask_extent(position), limit)
    assert LogPosition.from_json(following.to_json()) == following
    for span in spans({"c": position}, {"c": following}):
        if span.truncated:
            same = next(
                (n for n, (a, b) in enumerate(zip(seen, partition.log, strict=False)) if a != b),
                len(seen),
            )
            same = min(same, len(partition.log))
            assert same < len(seen), "nothing that was read is gone"
            assert span.end in {same, 0}, "neither the first record that is gone nor all of the log"
            del seen[span.end :]
        else:
            assert span.start == len(seen)
            seen += partition.log[span.start : span.end]
    return following, following == position


def test_a_log_that_was_cut_off_and_has_grown_again():
    """Offsets alone do not tell: at 10, an election ends the log at 5, commits push it to 12 before
    the next look.
    """
    partition = Partition()
    partition.write(5)
    partition.fall_out(1)
    partition.fall_out(2)
    partition.write(5)
    position = advance(found(partition.ask_extent(None), {0: 0}), partition.ask_extent(None))
    assert (position.next, position.epochs) == ({0: 10}, {0: ((0, 10),)})
    partition.elect(1)
    partition.write(7)
    following = advance(position, partition.ask_extent(position))
    (span,) = spans({"c": position}, {"c": following})
    assert (span.start, span.end, span.truncated) == (10, 5, True)
    rest = advance(following, partition.ask_extent(following))
    assert (rest.next, rest.epochs) == ({0: 12}, {0: ((0, 5), (1, 12))})


def test_a_leader_that_has_not_changed_is_asked_nothing():
    partition = Partition()
    partition.write(3)
    position = advance(found(partition.ask_extent(None), {0: 0}), partition.ask_extent(None))
    partition.elect(1)
    partition.ask_extent(position)
    assert partition.asked == 1
    partition.write(1)
    position = advance(position, partition.ask_extent(position))
    partition.ask_extent(position)
    assert partition.asked == 2


def log_of(lineage: Lineage, end: int, begin: int = 0) -> LogExtent:
    return LogExtent(
        "c", "t", frozenset({0}), {0: begin}, {0: end}, {0: lineage} if lineage else {}
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "became"),
    [
        (((5, 90), (7, 100)), ((5, 90), (7, OPEN)), 120),
        (((5, 90), (7, 100)), ((5, 90), (7, 95), (8, OPEN)), 95),
        # Of epoch 5 the new leader has more than was kept: from there on its log is another.
        (((5, 90), (7, 100)), ((5, 98), (8, OPEN)), 90),
        # No epoch is known to both: all is read again.
        (((5, 90), (7, 100)), ((4, 80), (6, 99), (8, OPEN)), 0),
        # Before Kafka 2.4, and in an offset that was written without epochs, an offset is all there
        # is.
        (((5, 90), (7, 100)), (), 120),
        ((), ((8, OPEN),), 120),
    ],
)
def test_where_two_logs_parted(ours: Lineage, theirs: Lineage, became: int):
    position = LogPosition("c", "t", {0: 100}, {0: ours} if ours else {})
    assert advance(position, log_of(theirs, 120)).next == {0: became}


def two(begins: tuple[int, int], ends: tuple[int, int]) -> LogExtent:
    return LogExtent("c", "t", frozenset({0, 1}), dict(enumerate(begins)), dict(enumerate(ends)))


def test_what_a_bounded_batch_goes_through_are_offsets_that_the_log_has():
    """Offsets that were removed before they could be read, or cut off, take nobody's share."""
    position = LogPosition("c", "t", {0: 0, 1: 0})
    assert advance(position, two((1_000, 0), (1_010, 90)), 10).next == {0: 1_001, 1: 9}
    position = LogPosition("c", "t", {0: 100, 1: 0})
    assert advance(position, two((0, 0), (50, 100)), 10).next == {0: 50, 1: 10}


def test_a_topic_that_was_made_again_is_recorded_of_every_partition():
    """Also of one whose new offset is the number of the old one: what was read before is no longer
    the log's.
    """
    before, after = LogPosition("c", "a", {0: 5, 1: 5}), LogPosition("c", "b", {0: 0, 1: 5})
    assert list(spans({"c": before}, {"c": after})) == [
        Span("c", "c", "b", 0, 5, 0, remade=True),
        Span("c", "c", "b", 1, 5, 5, remade=True),
    ]
    assert all(span.truncated for span in spans({"c": before}, {"c": after}))


def test_what_is_gone_with_the_beginning_of_the_log_is_not_truncated():
    position = LogPosition("c", "t", {0: 100}, {0: ((5, 100),)})
    assert advance(position, log_of(((-1, 200), (7, OPEN)), 300, begin=200)).next == {0: 300}


def test_an_offset_without_epochs_is_taken_as_it_is():
    older_form = {"cluster_id": "c", "topic_id": "t", "next": {"0": 7}}
    assert LogPosition.from_json(older_form) == LogPosition("c", "t", {0: 7})


@pytest.mark.parametrize(
    ("before", "now", "spans_made"),
    [
        ("a", "b", [Span("c", "id", "b", 0, 5, 0, remade=True)]),
        # Topics get ids when their cluster is upgraded to Kafka 2.8; meanwhile some brokers tell
        # them, some do not.
        (None, "b", [Span("c", "id", "b", 0, 5, 9)]),
        ("a", None, [Span("c", "id", "a", 0, 5, 9)]),
    ],
)
def test_a_topic_that_gets_an_id_is_not_made_again(
    before: str | None, now: str | None, spans_made: list[Span]
):
    position = LogPosition("id", before, {0: 5})
    seen = LogExtent("id", now, frozenset({0}), {0: 0}, {0: 9})
    following = advance(position, seen)
    assert list(spans({"c": position}, {"c": following})) == spans_made
    assert following.topic_id == (now or before)


def test_partitions_that_are_added_are_read_from_their_beginning():
    position = LogPosition("id", "t", {0: 5}, {0: ((3, 5),)})
    more = LogExtent(
        "id", "t", frozenset({0, 1}), {0: 0, 1: 0}, {0: 5, 1: 2}, {0: ((3, OPEN),), 1: ((0, OPEN),)}
    )
    added = advance(position, more)
    assert (added.next, added.epochs) == ({0: 5, 1: 0}, {0: ((3, 5),)})
    assert advance(added, more) == LogPosition(
        "id", "t", {0: 5, 1: 2}, {0: ((3, 5),), 1: ((0, 2),)}
    )


# --- batches of a limit ---


def test_a_partition_that_is_new_begins_with_its_first_record():
    position = LogPosition("cluster", "topic", {0: 10})
    seen = LogExtent("cluster", "topic", frozenset({0, 1}), {0: 0, 1: 3}, {0: 12, 1: 9})
    following = advance(position, seen)
    assert following.next == {0: 12, 1: 3}
    assert list(spans({"c": position}, {"c": following})) == [
        Span("c", "cluster", "topic", 0, 10, 12)
    ]
    assert advance(following, seen).next == {0: 12, 1: 9}


def test_without_a_leader_a_partition_keeps_its_place():
    position = LogPosition("cluster", "topic", {0: 10, 1: 4})
    seen = LogExtent("cluster", "topic", frozenset({0, 1}), {0: 0}, {0: 12})
    assert not seen.whole
    assert advance(position, seen).next == {0: 12, 1: 4}
    gone = LogExtent("cluster")
    assert advance(position, gone) == position


def test_a_log_that_ends_before_its_place_was_truncated():
    position = LogPosition("cluster", "topic", {0: 10, 1: 4})
    seen = LogExtent("cluster", "topic", frozenset({0, 1}), {0: 0, 1: 0}, {0: 7, 1: 4})
    following = advance(position, seen, 1)
    (span,) = spans({"c": position}, {"c": following})
    assert (span.start, span.end, span.truncated) == (10, 7, True)
    assert advance(following, seen, 1) == following


def test_a_topic_that_was_made_again_is_read_from_its_beginning():
    position = LogPosition("cluster", "topic", {0: 10, 1: 4})
    again = LogExtent("cluster", "another", frozenset({0, 1}), {0: 0, 1: 0}, {0: 300, 1: 4})
    leaderless = replace(again, begins={0: 0}, ends={0: 300})
    assert advance(position, leaderless) == position
    following = advance(position, again)
    assert following == LogPosition("cluster", "another", {0: 0, 1: 0})
    assert [
        (span.start, span.end, span.truncated) for span in spans({"c": position}, {"c": following})
    ] == [(10, 0, True), (4, 0, True)]
    assert advance(following, again).next == {0: 300, 1: 4}


# --- random logs ---

STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "write_alone"]), st.integers(1, 4))
    | st.tuples(st.sampled_from(["follow", "fall_out", "elect"]), st.integers(0, REPLICAS - 1))
    | st.tuples(st.sampled_from(["read", "read"]), st.sampled_from([None, 1, 3])),
    min_size=20,
    max_size=60,
)


@settings(max_examples=examples(200))
@given(STEPS)
def test_nothing_is_passed_over_whoever_is_elected(steps):
    partition = Partition()
    position = found(partition.ask_extent(None), {0: 0})
    seen: list[tuple[int, int]] = []
    for step, value in steps:
        if step == "read":
            position, _ = read(partition, position, seen, value)
        else:
            getattr(partition, step)(value)
    partition.write(1)
    is_done = False
    while not is_done:
        position, is_done = read(partition, position, seen, None)
    assert seen == partition.log[: partition.end]


OFFSETS = st.integers(0, 1_000)


@st.composite
def logs(draw: st.DrawFn) -> LogExtent:
    begins = draw(st.dictionaries(st.integers(0, 5), OFFSETS, min_size=1))
    ends = {partition: begin + draw(OFFSETS) for partition, begin in begins.items()}
    return LogExtent("cluster", "topic", frozenset(begins), begins, ends)


@given(logs(), st.data(), st.integers(1, 500))
def test_bounded_batches_go_through_every_offset_once_and_come_to_the_end(seen, data, limit):
    """From positions before, in and at the end of the log: what comes between two positions,
    joined, is all there was to come.
    """
    known = data.draw(st.sets(st.sampled_from(sorted(seen.partitions))))
    start = {partition: data.draw(st.integers(0, seen.ends[partition])) for partition in known}
    position = LogPosition("cluster", "topic", start)
    at = dict(start)
    for _ in range(2_100):
        following = advance(position, seen, limit)
        between = list(spans({"c": position}, {"c": following}))
        assert not any(span.truncated for span in between)
        readable = [span.end - max(span.start, seen.begins[span.partition]) for span in between]
        assert sum(readable) <= limit + len(seen.partitions)
        for span in between:
            assert span.start == at[span.partition]
            at[span.partition] = span.end
        assert LogPosition.from_json(json.loads(json.dumps(following.to_json()))) == following
        if following == position:
            break
        at = {
            partition: at.get(partition, following.next[partition]) for partition in following.next
        }
        position = following
    assert position.next == seen.ends == at


def seen_at(asked_s: int, *ends: int) -> LogExtent:
    numbers = range(len(ends))
    of_each = dict(zip(numbers, ends, strict=True))
    begins = dict.fromkeys(numbers, 0)
    return LogExtent("c", "t", frozenset(numbers), begins, of_each, asked_ms=asked_s * 1_000)


def noted(position: LogPosition, seen: LogExtent, limit: int | None = None) -> LogPosition:
    return noted_end(position, advance(position, seen, limit), seen, 60_000)


def test_a_log_that_is_caught_up_with_says_as_of_when() -> None:
    before = LogPosition("c", "t", {0: 5, 1: 5})
    whole = noted(before, seen_at(10, 25, 5))
    assert whole == LogPosition("c", "t", {0: 25, 1: 5}, {}, CaughtUp(10_000, 10_000))
    assert LogPosition.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert list(spans({"c": before}, {"c": whole})) == [
        Span("c", "c", "t", 0, 5, 25, caught_up_ms=10_000)
    ]


@pytest.mark.parametrize(
    ("offset", "caught_up", "follows_end"),
    [(5, None, False), (5, CaughtUp(1, 1), True), (0, None, True)],
)
def test_whether_records_before_a_span_may_have_been_compacted_away(
    offset: int, caught_up: CaughtUp | None, *, follows_end: bool
) -> None:
    before = LogPosition("c", "t", {0: offset}, {}, caught_up)
    (span,) = spans({"c": before}, {"c": noted(before, seen_at(10, 25))})
    assert span.follows_end == follows_end


def test_a_batch_that_leaves_something_says_nothing_of_the_end() -> None:
    before = LogPosition("c", "t", {0: 5, 1: 5}, {}, CaughtUp(1_000, 1_000))
    part = noted(before, seen_at(10, 25, 25), limit=20)
    assert (part.next, part.caught_up) == ({0: 15, 1: 15}, None)
    assert [span.caught_up_ms for span in spans({"c": before}, {"c": part})] == [None, None]
    # An extent that is older than the log says nothing, either.
    assert noted(part, seen_at(10, 25, 25)).caught_up == CaughtUp(10_000, 10_000)
    assert noted(part, replace(seen_at(10, 25, 25), asked_ms=None)).caught_up is None


def test_of_a_partition_that_no_leader_answers_for_nobody_knows_the_end() -> None:
    before = LogPosition("c", "t", {0: 5, 1: 5, 2: 5}, {}, CaughtUp(1_000, 1_000))
    part = replace(seen_at(10, 25, 5, 5), begins={0: 0, 2: 0}, ends={0: 25, 2: 5})
    moved = noted(before, part)
    assert moved == LogPosition("c", "t", {0: 25, 1: 5, 2: 5}, {}, CaughtUp(10_000, 10_000, (1,)))
    assert LogPosition.from_json(json.loads(json.dumps(moved.to_json()))) == moved
    assert CaughtUp.from_json([1, 2]) == CaughtUp(1, 2), "as older versions write it"
    assert list(spans({"c": before}, {"c": moved})) == [
        Span("c", "c", "t", 0, 5, 25, False, 10_000, (1,), True),
        Span("c", "c", "t", 2, 5, 5, False, 10_000, (1,), True),
    ]
    again = spans({"c": moved}, {"c": noted(moved, seen_at(20, 30, 30, 5))})
    assert [(span.partition, span.unanswered, span.follows_end) for span in again] == [
        (0, (), True),
        (1, (), False),
    ]
    none = replace(part, begins={}, ends={}, asked_ms=900_000)
    assert noted(before, none) == before, "nobody answers"


def test_which_partitions_are_answered_for_is_noted_when_it_changes() -> None:
    position = noted(LogPosition("c", "t", {0: 25, 1: 5}), seen_at(0, 25, 5))
    notes = []
    for second in range(0, 4_000, 20):
        seen = seen_at(second, 25, 5)
        if 1_000 < second <= 2_000:
            seen = replace(seen, begins={0: 0}, ends={0: 25})
        following = noted(position, seen)
        if following != position:
            (span,) = spans({"c": position}, {"c": following})
            notes.append((second, span.partition, span.unanswered))
        position = following
    assert notes == [
        *((second, 0, ()) for second in (60, 120, 240, 480, 960)),
        *((second, 0, (1,)) for second in (1_020, 1_080, 1_140, 1_260, 1_500, 1_980)),
        *((second, 0, ()) for second in (2_040, 2_100, 2_160, 2_280, 2_520, 3_000, 3_960)),
    ]


def test_a_silent_log_is_noted_each_time_that_its_silence_has_doubled() -> None:
    position = noted(LogPosition("c", "t", {0: 5, 1: 5}), seen_at(0, 25, 5))
    notes = []
    for second in range(0, 3_600, 20):
        following = noted(position, seen_at(second, 25, 5))
        if following != position:
            notes.append(second)
            (span,) = spans({"c": position}, {"c": following})
            assert (span.start, span.end, span.caught_up_ms) == (25, 25, second * 1_000)
        position = following
    assert notes == [60, 120, 240, 480, 960, 1_920]
    # An outage is over: it is noted at once, and what was written meanwhile is read before.
    assert noted(position, seen_at(7_200, 25, 5)).caught_up == CaughtUp(0, 7_200_000)
    assert noted(position, seen_at(7_200, 25, 9)).caught_up == CaughtUp(7_200_000, 7_200_000)


def test_a_log_that_is_silent_when_it_is_found_is_noted_at_once() -> None:
    position = LogPosition("c", "t", {0: 5})
    assert noted(position, seen_at(10, 5)).caught_up == CaughtUp(10_000, 10_000)
    assert noted(position, LogExtent("c", "t", frozenset({0}), asked_ms=1)) == position

"""What offset commits come to, read in spans that are cut anywhere: as by a plain rule that looks
at each.
"""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata_source.logs.group import commits as commits_module
from metadata_source.logs.group.commits import Commits
from metadata_source.logs.topic.positions import LogExtent, Span
from metadata_source.logs.topic.reader import Reading
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.offset_commits import (
    IDS,
    START_MS,
    At,
    Change,
    Commit,
    Marker,
    Row,
    Written,
    batches,
    begin,
    commit_key,
    folded,
    placed,
    plain,
    plainly,
    rows_of,
    utc,
)
from tests.support.record_batches import CODECS, Batch, Record, batch_bytes
from tests.support.topic_leader import Leader

quickly = settings(
    max_examples=examples(60), database=None, suppress_health_check=[HealthCheck.too_slow]
)
COMMITTED, ABORTED = Marker(is_commit=True), Marker(is_commit=False)


NINE, EIGHT = 9, 8
"""Producers."""


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        pytest.param([(Commit("a", 0, 5), -1)], [("a", 0, 5)], id="in no transaction"),
        pytest.param([(Commit("a", 0, 5), NINE), (COMMITTED, NINE)], [("a", 1, 5)], id="committed"),
        pytest.param([(Commit("a", 0, 5), NINE), (ABORTED, NINE)], [], id="aborted"),
        pytest.param([(Commit("a", 0, 5), NINE)], [], id="open"),
        pytest.param(
            [(Commit("a", 0, 5), NINE), (COMMITTED, EIGHT)], [], id="another producer's marker"
        ),
        pytest.param(
            [(Commit("a", 0, 5), EIGHT), (COMMITTED, NINE)], [], id="of a higher number, too"
        ),
        pytest.param(
            [(Commit("a", 0, 5), NINE), (COMMITTED, NINE), (ABORTED, NINE)],
            [("a", 1, 5)],
            id="the first marker counts",
        ),
        pytest.param(
            [(ABORTED, NINE), (Commit("a", 0, 5), NINE), (COMMITTED, NINE)],
            [("a", 2, 5)],
            id="one that comes after it",
        ),
        pytest.param(
            [
                *((Commit("a", 0, 5), NINE), (Commit("b", 0, 6), EIGHT)),
                *((COMMITTED, EIGHT), (ABORTED, NINE)),
            ],
            [("b", 2, 6)],
            id="two producers at once",
        ),
        pytest.param(
            [(Commit("a", 0, None), NINE), (COMMITTED, NINE)], [("a", 1, None)], id="a removal"
        ),
        pytest.param(
            [
                *((Commit("a", 0, 5), NINE), (COMMITTED, NINE)),
                *((Commit("a", 0, 6), NINE), (COMMITTED, NINE)),
            ],
            [("a", 1, 6)],
            id="two transactions of one producer",
        ),
        pytest.param(
            [
                *((Commit("a", 0, 5), NINE), (Commit("a", 0, 6), EIGHT)),
                *((COMMITTED, EIGHT), (COMMITTED, NINE)),
            ],
            [("a", 2, 5)],
            id="in the order of their markers",
        ),
    ],
)
@for_each("an_answer", [1, 100])
def test_commits_in_transactions_count_at_their_markers(
    written: list[tuple[Any, int]], counted: list[tuple[str, int, int | None]], an_answer: int
) -> None:
    log = placed([Written(*each) for each in written])
    rows = rows_of(log, 0, len(log), an_answer=an_answer)
    found = [
        (
            row["group_id"],
            entry["removed_offset"] if entry["from_offset"] is None else entry["from_offset"],
            entry["last_committed"],
        )
        for row in rows
        if row["record"] == "commits" and row["producer_id"] is None
        for entry in row["offset_commits"]
    ]
    assert found == counted
    assert {(row["record"], row["next_offset"]) for row in rows} >= {("read", len(log))}


@pytest.mark.parametrize(
    ("written", "stretches"),
    [
        pytest.param([Commit("a", 0, 5), Commit("a", 0, 6)], [2], id="commits that follow"),
        pytest.param([Commit("a", 0, 5), Change("b"), Commit("a", 0, 6)], [2], id="another group"),
        pytest.param(
            [*[Commit("a", 0, 5), Change("a")], *[Commit("a", 0, 6)] * 4], [1, 4], id="a record"
        ),
        pytest.param([Change("a"), Commit("a", 0, 5), Change("a")], [1], id="no empty stretch"),
        # An empty name is in the bytes of the marker of an abort.
        pytest.param([Commit("", 0, 5), ABORTED, Commit("", 0, 6)], [2], id="a marker is none"),
    ],
)
@for_each("an_answer", [1, 100])
def test_other_records_of_a_group_end_its_stretch(
    written: list[Any], stretches: list[int], an_answer: int
) -> None:
    """Wherever answers end."""
    log = placed([Written(each, 9 if each is ABORTED else -1) for each in written])
    rows = rows_of(log, 0, len(log), an_answer=an_answer)
    found = [row for row in rows if row["record"] == "commits"]
    assert [row["offset_commits"][0]["commits"] for row in found] == stretches


def of_group(rows: list[Row], group: str = "a") -> list[Row]:
    return [row for row in rows if row["record"] == "commits" and row["group_id"] == group]


def test_a_transaction_that_is_open_holds_up_no_record_and_counts_at_its_marker() -> None:
    log = placed(
        [
            Written(Commit("a", 0, 5), 9),
            Written(Change("a")),
            Written(Commit("b", 0, 5), 8),
            Written(Marker(is_commit=True), 9, 70),
            Written(Marker(is_commit=False), 8),
        ]
    )
    first, second = rows_of(log, 0, 3), rows_of(log, 3, 5)
    assert [row["offset"] for row in first if row["record"] == "record"] == [1]
    assert {
        (row["group_id"], row["producer_id"]) for row in first if row["record"] == "commits"
    } == {("a", 9), ("b", 8)}
    markers = [
        (row["offset"], row["producer_id"], row["is_committed"])
        for row in second
        if row["record"] == "marker"
    ]
    assert markers == [(3, 9, True), (4, 8, False)]
    ((group, (counted,)),) = folded([first, second])
    assert (group, counted["from_offset"], counted["from_timestamp"]) == (
        "a",
        3,
        utc(START_MS + 70),
    )
    assert plain(log) == folded([first, second]) == folded([rows_of(log, 0, 5)])


def test_only_groups_that_are_wanted_have_their_commits_kept() -> None:
    log = placed(
        [Written(Commit(group, 0, 5)) for group in ("orders", "orders-2", "other")]
        + [Written(Change("other"))]
    )
    rows = rows_of(log, 0, 4, pattern=r"\A(?:orders.*)\z")
    assert [row["group_id"] for row in rows if row["record"] == "commits"] == ["orders", "orders-2"]
    assert [row["group_id"] for row in rows if row["record"] == "record"] == ["other"]
    assert [row["commits"] for row in rows if row["record"] == "read"] == [3]


@pytest.mark.parametrize(("group", "records"), [("orders", 1), ("other", 0)])
def test_a_wrong_commit_of_a_group_that_is_not_wanted_is_no_row(group: str, records: int) -> None:
    wrong = batch_bytes(Batch(0, [Record(0, 0, commit_key(group, "t", 0), b"")]))
    commits = Commits("orders")
    reading = Reading(Leader({0: [(0, wrong)]}), [Span("c", "id", None, 0, 0, 1)], "topic", commits)
    ((_, _, (went,)),) = reading.steps(5.0)
    assert (went.aggregated, went.records) == (1 - records, records)


def test_the_same_group_in_two_partitions_is_two() -> None:
    """Nobody but its coordinator writes a group's records. Others may."""
    log = batches(placed([Written(Commit("a", 0, 5))]))
    between = [Span("c", "id", None, partition, 0, 1) for partition in range(2)]
    reading = Reading(Leader({0: log, 1: log}), between, "topic", Commits())
    rows = [row for _, commits, _ in reading.steps(5.0) for row in commits.to_pylist()]
    assert sorted((row["log_partition"], row["offset_commits"][0]["commits"]) for row in rows) == [
        (0, 1),
        (1, 1),
    ]


def test_commits_before_and_after_lost_offsets_are_not_one_stretch() -> None:
    """Nobody knows the commits between the two: no gap and no fall may span them."""
    log = placed(
        [
            Written(Commit("a", 0, 50)),
            Written(Commit("a", 0, 60), 9),
            Written(Commit("a", 0, 20), -1, 99, 3),
        ]
    )

    class Loses(Leader):
        """Of what was before offset 5 the leader has nothing any more, once 2 are read."""

        def answer(self, partition: int, offset: int) -> dict[str, Any]:
            self.codes = {0: 1} if 2 <= offset < 5 else {}
            return super().answer(partition, offset)

        def ask_extent(self) -> LogExtent:
            return replace(super().ask_extent(), begins={0: 5})

    leader = Loses({0: batches(log, together=1)}, 1)
    reading = Reading(leader, [Span("c", "id", None, 0, 0, 6)], "topic", Commits())
    steps = list(reading.steps(5.0))
    went = [(each.record, each.offset, each.next_offset) for _, _, ended in steps for each in ended]
    assert went == [("read", 0, 2), ("lost", 2, 5), ("read", 5, 6)]
    rows = sorted(
        (row for _, commits, _ in steps for row in commits.to_pylist()),
        key=lambda row: row["offset"],
    )
    told = [(row["offset"], row["next_offset"], row["producer_id"]) for row in rows]
    assert told == [(0, 1, None), (1, 2, 9), (5, 6, None)]
    assert [row["offset_commits"][0]["falls"] for row in rows] == [0, 0, 0]


def test_after_lost_offsets_a_producer_s_marker_is_a_row_again() -> None:
    """Nobody knows here whether its transaction began before."""

    class Loses(Leader):
        def answer(self, partition: int, offset: int) -> dict[str, Any]:
            self.codes = {0: 1} if 1 <= offset < 5 else {}
            return super().answer(partition, offset)

        def ask_extent(self) -> LogExtent:
            return replace(super().ask_extent(), begins={0: 5})

    log = placed([Written(COMMITTED, 9), Written(ABORTED, 9, 0, 4)])
    leader = Loses({0: batches(log, together=1)}, 1)
    reading = Reading(leader, [Span("c", "id", None, 0, 0, 6)], "topic", Commits())
    rows = [row for _, found, _ in reading.steps(5.0) for row in found.to_pylist()]
    assert [(row["offset"], row["is_committed"]) for row in rows] == [(0, True), (5, False)]


def test_the_first_marker_alone_of_a_producer_in_a_span_is_a_row() -> None:
    transactions = [Written(Commit("a", 0, 5), 9), Written(Marker(is_commit=True), 9)] * 3
    log = placed([*transactions, Written(Marker(is_commit=False), 8)])
    for an_answer in (1, 100):
        rows = rows_of(log, 0, 7, an_answer=an_answer)
        markers = [(row["offset"], row["producer_id"]) for row in rows if row["record"] == "marker"]
        assert markers == [(1, 9), (6, 8)]


# --- properties ---

GROUPS = {"a": -1, "b": -1, "in transactions": 1, "in others": 2}
"""Groups, and the producer that commits for each: nobody commits the same partition in and outside
of transactions.
"""


def a_commit(
    group: str, committed: int | None, partition: int, version: int, topic_id: bytes | None
) -> Commit:
    in_transaction = GROUPS[group] >= 0
    return Commit(
        group,
        partition,
        0 if in_transaction and committed is None else committed,
        version,
        topic_id,
    )


what = st.one_of(
    st.builds(
        a_commit,
        st.sampled_from(list(GROUPS)),
        st.none() | st.integers(0, 20) | st.sampled_from([2**40]),
        st.integers(0, 1),
        st.integers(0, 4),
        st.sampled_from(IDS),
    ),
    st.builds(Change, st.sampled_from([*GROUPS, "another"])),
    st.builds(Marker, st.booleans()),
)


def written(what: Commit | Change | Marker, producer: int, after_ms: int, skipped: int) -> Written:
    of = (
        producer
        if isinstance(what, Marker)
        else GROUPS[what.group]
        if isinstance(what, Commit)
        else -1
    )
    return Written(what, of, after_ms, skipped)


logs = st.lists(
    st.builds(
        written,
        what,
        st.sampled_from([1, 2]),
        st.integers(-5, 500),
        st.sampled_from([0, 0, 0, 1, 5]),
    ),
    max_size=30,
).map(placed)


@quickly
@given(
    logs,
    st.sets(st.integers(0, 60), max_size=4),
    st.integers(1, 100),
    st.sampled_from(CODECS),
    st.integers(1, 5),
)
def test_spans_that_are_cut_anywhere_come_to_what_the_log_does(
    log: list[At], cuts: set[int], an_answer: int, codec: str, entries: int
) -> None:
    end = log[-1].offset + 1 if log else 0
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < end), end]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commits_module, "ENTRIES_A_ROW", entries)
        spans = [
            rows_of(log, *edge, codec=codec, an_answer=an_answer)
            for edge in itertools.pairwise(edges)
            if edge[0] < edge[1]
        ]
    rows = list(itertools.chain(*spans))
    assert folded(spans) == plain(log)
    keys = [
        tuple(row[name] for name in ("log_partition", "offset", "record", "group_id", "chunk"))
        for row in rows
    ]
    assert len(set(keys)) == len(keys), "the key of bronze.group_log"
    read = [row for row in rows if row["record"] == "read"]
    assert [row["next_offset"] for row in read] == edges[1:] or not end
    assert sum(row["commits"] for row in read) == sum(isinstance(at.what, Commit) for at in log)
    assert sum(row["records"] for row in read) == sum(isinstance(at.what, Change) for at in log)
    assert all(
        1 <= len(row["offset_commits"]) <= entries for row in rows if row["record"] == "commits"
    )


@quickly
@given(logs, st.integers(1, 100))
def test_one_span_has_aggregates_ready(log: list[At], an_answer: int) -> None:
    """Not to be put together by anybody: a row is a stretch of a group."""
    rows = rows_of(log, 0, log[-1].offset + 1 if log else 1, an_answer=an_answer)
    found = [
        (row["group_id"], [plainly(each) for each in sorted(row["offset_commits"], key=begin)])
        for row in rows
        if row["record"] == "commits" and row["producer_id"] is None
    ]
    assert sorted(found, key=lambda each: (each[0], begin(each[1][0]))) == plain(log)

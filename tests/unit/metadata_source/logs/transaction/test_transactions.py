"""What transactions come to, read in spans that are cut anywhere: as it truly was."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata_source.logs.transaction import transactions
from metadata_source.protocol.transaction_specs import ONGOING
from tests.support.examples import examples
from tests.support.transaction_log import (
    START_MS,
    TIMEOUT_MS,
    Coordinator,
    Row,
    Truth,
    Written,
    counts_of,
    key_of,
    rows_of,
    states_of,
    value_of,
)

quickly = settings(
    max_examples=examples(60), database=None, suppress_health_check=[HealthCheck.too_slow]
)
IDS = ("app-0_1", "app-0_2", "other-1")
WAITS_MS = (0, 0, 1, 40, 900, 31_000, 70_000, 310_000, 3_600_000)
steps = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from(
            ["init", "add", "add", "commit", "commit", "abort", "time_out", "expire", "move"]
            + ["complete"] * 3
        ),
        st.sampled_from(WAITS_MS),
        st.integers(0, 2),
    ),
    max_size=60,
)
coordinators = st.sampled_from([(0, False), (1, False), (2, False), (2, True)])


def played(version: int, raises_twice: bool, script: list) -> Coordinator:
    made = Coordinator(version, raises_twice=raises_twice)
    for of in IDS:
        made.init(of)
    for of, action, after_ms, number in script:
        made.now += after_ms
        match action:
            case "init":
                made.init(of)
            case "add":
                made.add(of, number, client=number)
            case "commit" | "abort":
                made.end(of, is_commit=action == "commit")
            case "time_out":
                made.time_out(of)
            case "complete":
                made.complete(of)
            case "expire":
                made.expire(of)
            case "move":
                made.leader_epoch += 1
    return made


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def spans_of(made: Coordinator, cuts: list[int]) -> list[list[Row]]:
    ends = sorted({0, made.offset, *(cut % (made.offset + 1) for cut in cuts)})
    return [rows_of(made.log, *span) for span in itertools.pairwise(ends)]


def entries_of(spans: list[list[Row]], truth: Truth) -> list[list[Row]]:
    """Those of a transaction, by span."""
    return [
        [
            entry
            for entry in states_of(rows)
            if (entry["transactional_id"], entry["started_at"])
            == (truth.transactional_id, utc(truth.started_ms))
            and entry["state"] != "Empty"
            and entry["from_offset"] >= truth.begun_offset
            and (truth.completed_offset is None or entry["offset"] <= truth.completed_offset)
        ]
        for rows in spans
    ]


@quickly
@given(coordinators, steps, st.lists(st.integers(0, 10_000), max_size=4))
def test_counts_and_entries_are_what_happened(kind, script, cuts) -> None:
    made = played(*kind, script)
    spans = spans_of(made, cuts)
    rows = [row for span in spans for row in span]
    assert counts_of(rows, "counted") == len(made.log)
    assert not [row for row in rows if row["record"] in {"record", "lost"}]
    complete = [each for each in made.truths if each.completed_ms is not None]
    assert counts_of(rows, "committed") == sum(each.is_committed for each in complete)
    aborted = ("aborted_by_client", "aborted_by_coordinator", "aborted_by_unknown")
    assert sum(counts_of(rows, name) for name in aborted) == sum(
        not each.is_committed for each in complete
    )
    assert counts_of(rows, "removed") == made.removed
    given_or_raised = counts_of(rows, "epochs_raised") + counts_of(rows, "producer_ids_given")
    assert given_or_raised == made.inits
    longest = max((row["longest_ms"] or 0 for row in rows if "longest_ms" in row), default=0)
    assert longest == max((each.completed_ms - each.started_ms for each in complete), default=0)
    for truth in made.truths:
        check_entries(truth, entries_of(spans, truth), spans)


def check_entries(truth: Truth, by_span: list[list[Row]], spans: list[list[Row]]) -> None:
    """What a history needs of a transaction is there."""
    entries = [entry for of_span in by_span for entry in of_span]
    last = truth.completed_offset
    if last is None:
        # It is open at the end of all spans in which it has records.
        assert entries
        assert entries[-1]["state"] in {"Ongoing", "PrepareCommit", "PrepareAbort"}
        assert entries[-1]["partition_count"] in {None, len(truth.partitions)}
    if truth.is_long and last is not None:
        assert entries[-1]["completed_offset"] == last
    if len(entries) > 1:
        # What was open at the end of a span ends in another one.
        assert all(entry["state"] in OPEN for entry in entries[:-1])
        assert entries[-1]["completed_offset"] == last
        assert all(entry["was_open"] is not False for entry in entries[1:])
    if entries:
        assert entries[0]["was_open"] is not True
    for entry in entries:
        assert entry["aborted_by"] in {None, truth.by}
    if truth.by == "coordinator" and last is not None:
        assert entries[-1]["completed_offset"] == last


OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}


@quickly
@given(coordinators, steps, st.integers(1, 7), st.integers(1, 9))
def test_rows_follow_from_a_span_wherever_answers_are_cut(kind, script, an_answer, few) -> None:
    made = played(*kind, script)
    whole = rows_of(made.log, 0, made.offset)
    before, transactions.TOGETHER = transactions.TOGETHER, few
    try:
        assert rows_of(made.log, 0, made.offset, an_answer) == whole
    finally:
        transactions.TOGETHER = before


@quickly
@given(coordinators, steps)
def test_ordinary_transactions_of_one_span_have_no_entry(kind, script) -> None:
    made = played(*kind, script)
    found = {
        (entry["transactional_id"], entry["offset"])
        for entry in states_of(rows_of(made.log, 0, made.offset))
    }
    ordinary = {
        (each.transactional_id, each.completed_offset)
        for each in made.truths
        # Of those that begin with the log nobody knows here whether a record is before it.
        if each.is_committed and not each.is_long and each.started_ms > START_MS + 1_000
    }
    assert not found & ordinary


def one(made: Coordinator) -> Row:
    (entry,) = states_of(rows_of(made.log, 0, made.offset))
    return entry


@pytest.mark.parametrize(
    ("version", "client", "raises_twice", "by"),
    [
        (0, 0, False, "coordinator"),
        (1, 1, False, "coordinator"),
        (2, 0, False, "coordinator"),
        (2, 2, True, "coordinator"),
        (2, 2, False, None),
    ],
)
def test_who_aborts(version: int, client: int, raises_twice: bool, by: str | None) -> None:
    made = Coordinator(version, raises_twice=raises_twice)
    made.init("a")
    made.now += 5_000
    made.add("a", 1, client)
    made.now += 70_000
    made.time_out("a")
    made.complete("a")
    made.init("a")
    entry = one(made)
    assert (entry["aborted_by"], entry["state"], entry["initialized_offset"]) == (
        by,
        "CompleteAbort",
        4,
    )
    assert (entry["partition_count"], entry["partitions"]) == (
        1,
        [{"topic": "t", "partitions": [1]}],
    )
    rows = rows_of(made.log, 0, made.offset)
    assert counts_of(rows, "timed_out") == 1


def test_a_client_that_goes_on_with_the_epoch_of_its_abort_has_aborted() -> None:
    made = Coordinator()
    made.init("a")
    for _ in range(2):
        made.now += 5_000
        made.add("a")
        made.end("a", is_commit=False)
        made.complete("a")
    rows = rows_of(made.log, 0, made.offset)
    assert [counts_of(rows, f"aborted_by_{who}") for who in ("client", "unknown")] == [1, 1]
    (entry,) = states_of(rows)
    assert (entry["aborted_by"], entry["offset"]) == (None, 6)


def test_a_client_that_learns_of_its_time_out_goes_on_with_that_epoch_and_has_not_aborted() -> None:
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.time_out("a")
    made.complete("a")
    made.now += 5_000
    made.add("a")
    timed_out, still_open = states_of(rows_of(made.log, 0, made.offset))
    assert (timed_out["state"], timed_out["aborted_by"]) == ("CompleteAbort", None)
    assert still_open["producer_epoch"] == timed_out["producer_epoch"]


def test_an_abort_that_may_have_a_record_before_the_span_is_nobody_s() -> None:
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.end("a", is_commit=False)
    made.complete("a")
    rows = rows_of(made.log, 2, 4)
    (entry,) = states_of(rows)
    assert (entry["was_open"], entry["aborted_by"], counts_of(rows, "begun")) == (None, None, 0)


def test_a_tombstone_of_an_open_transaction_ends_it() -> None:
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.log.append(Written(2, made.now, 0, key_of("a"), None))
    (entry,) = states_of(rows_of(made.log, 0, 3))
    assert (entry["state"], entry["offset"], entry["started_at"], entry["producer_id"]) == (
        "Dead",
        2,
        utc(START_MS + 5_000),
        101,
    )


@pytest.mark.parametrize(
    ("raised", "producer_id", "is_explained"),
    [(0, None, True), (1, None, True), (2, None, False), (-1, None, False), (5, 9, True)],
)
def test_a_begin_explains_an_abort_of_the_same_epoch_or_the_one_before(
    raised: int, producer_id: int | None, is_explained: bool
) -> None:
    """As the fold has it of a begin in a later stretch."""
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.end("a", is_commit=False)
    made.complete("a")
    ended = made.ids["a"]
    begun = replace(ended, producer_id=producer_id or ended.producer_id)
    made.ids["a"] = replace(begun, epoch=ended.epoch + raised - 1)
    made.init("a")
    made.add("a")
    entry, _ = states_of(rows_of(made.log, 0, made.offset))
    assert (entry["state"], entry["aborted_by"]) == ("CompleteAbort", None)
    assert (entry["initialized_at"], entry["initialized_offset"]) == (
        (utc(made.now), 4) if is_explained else (None, None)
    )


def test_coordinators_move_in_a_transaction() -> None:
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.leader_epoch = 4
    made.end("a", is_commit=True)
    entry = one(made)
    assert (entry["from_leader_epoch"], entry["leader_epoch"], entry["state"]) == (
        0,
        4,
        "PrepareCommit",
    )
    (row,) = (each for each in rows_of(made.log, 0, 3) if each["record"] == "transactions")
    assert row["leader_epoch"] == 4


def test_a_row_is_of_one_hour() -> None:
    made = Coordinator()
    for _ in range(3):
        made.init("a")
        made.now += 3_600_000
    rows = [row for row in rows_of(made.log, 0, 3) if row["record"] == "transactions"]
    assert [(row["offset"], row["next_offset"], row["counted"]) for row in rows] == [
        (0, 1, 1),
        (1, 2, 1),
        (2, 3, 1),
    ]


def test_patterns_beyond_the_most_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MOST_PATTERNS", 2)
    made = Coordinator()
    for of in ("a", "b", "c", "d", "c-1", "d-1", "d-2"):
        made.init(of)
    rows = [row for row in rows_of(made.log, 0, 7) if row["record"] == "transactions"]
    assert [(row["pattern"], row["ids"], row["counted"], row["offset"]) for row in rows] == [
        ("d", 3, 3, 3),
        ("c", 2, 2, 2),
        (None, 2, 2, 0),
    ]


def test_many_states_take_several_rows_of_which_one_has_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactions, "STATES_A_ROW", 2)
    made = Coordinator()
    for number in range(5):
        made.init(f"a-{number}")
        made.add(f"a-{number}")
    rows = [row for row in rows_of(made.log, 0, 10) if row["record"] == "transactions"]
    assert [(row["chunk"], row["counted"], len(row["states"])) for row in rows] == [
        (0, 10, 2),
        (1, None, 2),
        (2, None, 1),
    ]
    assert [entry["offset"] for entry in states_of(rows)] == [1, 3, 5, 7, 9]


def test_rows_end_at_a_number_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory is bounded by count, and rows follow from offsets."""
    monkeypatch.setattr(transactions, "STRETCH", 3)
    made = Coordinator()
    for number in range(7):
        made.init(f"a-{number}")
    for start, expected in ((0, [(0, 3), (3, 6), (6, 7)]), (2, [(2, 3), (3, 6), (6, 7)])):
        rows = [row for row in rows_of(made.log, start, 7) if row["record"] == "transactions"]
        assert [(row["offset"], row["next_offset"]) for row in rows] == expected


def test_no_more_than_200_partitions_are_named() -> None:
    made = Coordinator()
    made.init("a")
    topics = [{"topic": topic, "partition_ids": list(range(150))} for topic in "tu"]
    value = value_of(
        1,
        transaction_status=ONGOING,
        transaction_partitions=topics,
        transaction_start_timestamp_ms=START_MS,
    )
    made.log.append(Written(1, START_MS, 0, key_of("a"), value))
    entry = one_of(rows_of(made.log, 0, 2))
    assert entry["partition_count"] == 300
    assert [(each["topic"], len(each["partitions"])) for each in entry["partitions"]] == [
        ("t", 150),
        ("u", 50),
    ]


def one_of(rows: list[Row]) -> Row:
    (entry,) = states_of(rows)
    return entry


def test_a_record_that_cannot_be_read_is_a_row_and_costs_no_other() -> None:
    made = Coordinator()
    made.init("a")
    made.log.append(Written(1, START_MS, 0, key_of("b"), b"\0\x09"))
    made.log.append(Written(2, START_MS, 0, key_of("b", 5), None))
    made.offset = 3
    made.init("a")
    rows = rows_of(made.log, 0, 4)
    assert [row["offset"] for row in rows if row["record"] == "record"] == [1, 2]
    (read,) = (row for row in rows if row["record"] == "read")
    assert (read["counted"], read["records"], counts_of(rows, "counted")) == (2, 2, 2)


def test_a_long_id_is_cut_and_stays_another_one() -> None:
    made = Coordinator()
    for end in "xy":
        made.init("i" * 30_000 + end)
        made.add("i" * 30_000 + end)
    rows = rows_of(made.log, 0, 4)
    ids = [entry["transactional_id"] for entry in states_of(rows)]
    assert len({*ids}) == 2
    assert [len(each) for each in ids] == [233, 233]
    assert all(each.startswith("i" * 200 + "…") for each in ids)
    assert all(len(row["pattern"]) < 256 for row in rows if row["record"] == "transactions")


def test_time_outs_are_of_the_transaction_itself() -> None:
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.now += TIMEOUT_MS + 1
    made.end("a", is_commit=True)
    made.complete("a")
    entry = one(made)
    assert (entry["state"], entry["timeout_ms"], entry["aborted_by"]) == (
        "CompleteCommit",
        TIMEOUT_MS,
        None,
    )

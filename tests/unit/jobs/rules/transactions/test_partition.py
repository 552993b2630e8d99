"""The transactions of a partition of the log: gaps, ends that were not seen, and the bound."""

from datetime import timedelta

import pytest

from jobs.rules.transactions import partition as rules
from jobs.rules.transactions.partition import OpenTransactions, ReadTo
from jobs.rules.transactions.transaction import Entry
from tests.support.incident import NOON
from tests.support.transaction_log import Coordinator, Row, rows_of
from tests.support.transaction_rounds import Rounds, ms


def begun(*ids: str, version: int = 1) -> Coordinator:
    made = Coordinator(version)
    for of in ids:
        made.init(of)
        made.add(of)
    return made


def read(made: Coordinator, since: int = 0, until: int | None = None) -> list[Row]:
    rows = rows_of(made.log, since, made.offset if until is None else until)
    return [row | {"read_at": ms(made.now)} for row in rows]


def gap(kind: str, since: int, until: int) -> Row:
    return {"record": kind, "offset": since, "next_offset": until, "read_at": ms(0)}


def later(made: Coordinator, seconds: int) -> None:
    made.now += seconds * 1_000


@pytest.mark.parametrize("kind", ["lost", "truncated"])
def test_of_what_was_open_before_a_gap_nothing_more_is_known(kind: str) -> None:
    made, rounds = begun("app-1"), Rounds()
    later(made, 400)
    rounds.take(read(made), ms(made.now))
    (row,) = rounds.transactions
    assert (row["stuck"], row["close_reason"]) == ("overdue", None)
    rounds.take([gap(kind, made.offset, made.offset + 5)])
    (row,) = rounds.transactions
    assert (row["stuck"], row["close_reason"], row["ended_before"]) == (None, "records_lost", None)
    assert row["overdue_since"] is not None, "it was, as far as was seen"
    assert row["outcome"] is None


def test_an_ordinary_one_that_was_open_before_a_gap_has_no_row() -> None:
    made, rounds = begun("app-1"), Rounds()
    rounds.take(read(made), ms(made.now))
    rounds.take([gap("lost", made.offset, made.offset + 5)])
    assert rounds.transactions == []


def test_one_that_goes_on_after_a_gap_has_another_row() -> None:
    made, rounds = begun("app-1"), Rounds()
    later(made, 400)
    rounds.take(read(made), ms(made.now))
    since = made.offset
    rounds.take([gap("lost", since, since + 1)])
    made.offset += 1
    made.end("app-1", is_commit=True)
    made.complete("app-1")
    rounds.take(read(made, since + 1))
    first, second = rounds.transactions
    assert (first["close_reason"], second["close_reason"]) == ("records_lost", "ended")
    assert (first["is_begin_read"], second["is_begin_read"]) == (True, False)
    assert second["outcome"] == "committed"
    assert first["started_at"] == second["started_at"]


def test_an_end_that_was_compacted_away_lies_before_the_next_begin() -> None:
    made, rounds = begun("app-1"), Rounds()
    later(made, 400)
    rounds.take(read(made), ms(made.now))
    since = made.offset
    made.end("app-1", is_commit=True)
    made.complete("app-1")
    later(made, 5)
    made.add("app-1")
    began = made.now
    # Only the last record is left.
    rounds.take(read(made, since + 2))
    row = rounds.transactions[0]
    assert (row["close_reason"], row["outcome"]) == ("not_seen", None)
    assert (row["ended_after"], row["ended_before"]) == (row["last_record_at"], ms(began))


@pytest.mark.parametrize("is_in_one_batch", [False, True])
def test_an_end_that_was_compacted_away_lies_before_an_ordinary_one_that_follows(
    is_in_one_batch: bool,
) -> None:
    """The id's later records need no entry of their own, and yet the first of them has one."""
    made, rounds = begun("app-1"), Rounds()
    later(made, 400)
    since = made.offset
    made.end("app-1", is_commit=True)
    made.complete("app-1")
    later(made, 5)
    began = made.now
    for is_commit in (True, False):
        made.add("app-1")
        made.end("app-1", is_commit=is_commit)
        made.complete("app-1")
        later(made, 1)
    made.log = [each for each in made.log if each.offset not in {since, since + 1}]
    if not is_in_one_batch:
        rounds.take(read(made, 0, since), ms(began))
        rounds.take(read(made, since))
        (row,) = rounds.transactions
        assert (row["close_reason"], row["stuck"]) == ("not_seen", None)
        assert (row["ended_after"], row["ended_before"]) == (row["last_record_at"], ms(began))
        assert (row["prepared_after"], row["prepared_before"]) == (row["started_at"], ms(began))
        assert row["outcome"] is None
    else:
        rounds.take(read(made))
        rounds.take([], ms(made.now + 10_000_000))
        assert rounds.transactions == [], "none of them is known to have been long"


def test_an_abort_of_version_2_closes_though_its_partition_falls_silent() -> None:
    made, rounds = begun("app-1", version=2), Rounds()
    later(made, 58)
    made.end("app-1", is_commit=False)
    later(made, 3)
    made.complete("app-1")
    rounds.take(read(made), ms(made.now))
    (row,) = rounds.transactions
    assert (row["close_reason"], row["aborted_by"]) == (None, None), "a fence may still follow"
    assert row["ended_after"] == row["ended_before"] == ms(made.now)
    for seconds, reason in ((2, None), (3, "ended")):
        rounds.take([], ms(made.now + seconds * 1_000))
        (row,) = rounds.transactions
        assert row["close_reason"] == reason
    assert (row["aborted_by"], row["reason_sureness"]) == ("client", "inferred")


def test_one_that_turns_out_to_be_ordinary_loses_its_row() -> None:
    """It was seen to be open for longer than it was: the log was read late."""
    made, rounds = begun("app-1"), Rounds()
    rounds.take(read(made), ms(made.now + 400_000))
    assert len(rounds.transactions) == 1
    since = made.offset
    later(made, 1)
    made.end("app-1", is_commit=True)
    made.complete("app-1")
    rounds.take(read(made, since))
    assert rounds.transactions == []


def test_a_row_appears_though_nothing_is_written_and_only_when_something_is_due() -> None:
    made, rounds = begun("app-1"), Rounds()
    rounds.take(read(made), ms(made.now))
    for seconds, rows in ((59, 0), (61, 2), (62, 0), (69, 0), (71, 2), (500, 0)):
        rounds.take([], ms(made.now + seconds * 1_000))
        assert rounds.written[-1] == rows, f"after {seconds} s"
    (row,) = rounds.transactions
    assert row["stuck"] == "overdue"


def test_the_first_compacted_records_make_rows_of_what_was_long_alone() -> None:
    made = begun("quick-1", "slow-1")
    for of, seconds in (("quick-1", 1), ("slow-1", 400)):
        later(made, seconds)
        made.end(of, is_commit=True)
        made.complete(of)
    last = {each.key: each for each in made.log}
    made.log = sorted(last.values(), key=lambda each: each.offset)
    rounds = Rounds()
    rounds.take(read(made))
    (row,) = rounds.transactions
    assert (row["transactional_id"], row["is_begin_read"]) == ("slow-1", False)
    assert row["prepared_after"] == row["started_at"]
    assert row["prepared_before"] == row["ended_before"] == ms(made.now)


def test_the_oldest_of_too_many_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_OPEN", 2)
    made = Coordinator(1)
    for of in ("app-1", "app-2", "app-3"):
        later(made, 1)
        made.init(of)
        made.add(of)
    rounds = Rounds()
    rounds.take(read(made), ms(made.now + 400_000))
    assert [row["transactional_id"] for row in rounds.transactions] == ["app-1", "app-2"]
    (memory,) = rounds.tables["internal.transaction_memories"]
    assert memory["not_followed"] == 1


def test_an_expired_id_whose_transaction_was_open_is_forgotten() -> None:
    made, rounds = begun("app-1"), Rounds()
    later(made, 400)
    rounds.take(read(made), ms(made.now))
    since = made.offset
    later(made, 5)
    made._append("app-1", None)
    rounds.take(read(made, since))
    (row,) = rounds.transactions
    assert (row["close_reason"], row["state"], row["stuck"]) == ("forgotten", "Dead", None)
    assert (row["outcome"], row["prepared_before"]) == (None, ms(made.now))
    assert (row["ended_after"], row["ended_before"]) == (row["last_record_at"], ms(made.now))
    assert row["overdue_since"] is not None, "it was, as far as was seen"
    whole = Rounds()
    whole.take(read(made), ms(made.now))
    assert whole.transactions == []


def test_hours_get_counts_until_an_hour_after_their_end() -> None:
    made, rounds = begun("app-1"), Rounds()
    made.end("app-1", is_commit=True)
    made.complete("app-1")
    rounds.take(read(made))
    (row,) = rounds.tables["internal.transaction_counts"]
    assert (row["pattern"], row["committed"], row["ids_min"], row["is_live"]) == ("app", 1, 1, True)
    since = made.offset
    later(made, 3 * 3_600)
    made.add("app-1")
    rounds.take(read(made, since))
    assert [row["is_live"] for row in rounds.tables["internal.transaction_counts"]] == [False, True]
    late = [row | {"read_at": ms(made.now)} for row in read(made, 0, since)]
    rounds.take(late)
    assert len(rounds.tables["internal.transaction_counts"]) == 3, "what comes late is a row apart"


def test_memory_is_bounded_by_what_is_open() -> None:
    made = begun("app-1", "app-2")
    made.end("app-1", is_commit=True)
    made.complete("app-1")
    memory, _ = rules.fold(
        OpenTransactions(),
        [
            Entry.of(each)
            for row in read(made)
            if row["record"] == "transactions"
            for each in row["states"]
        ],
        None,
        NOON,
    )
    assert [*memory.open] == ["app-2"]


def test_a_record_whose_clock_is_ahead_says_nothing_of_later_ones() -> None:
    ahead = NOON + timedelta(days=1)
    memory, _ = rules.fold(OpenTransactions(), [ReadTo(ahead)], None, NOON)
    assert memory.seen_at == memory.log_at == NOON

"""Polls of one cluster become history: what is accepted, in what order, since when it is so."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.rules.groups.polls import begins
from jobs.rules.silver.cluster import WITNESSES, fold, records_to_read
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import State
from jobs.rules.teller import Teller
from metadata_source.kinds import KAFKA, KINDS
from schemas import silver
from tests.support.bronze_rows import bronze_rows, quorum
from tests.support.examples import examples
from tests.support.histories import GROUP_STATE, START, Answer
from tests.support.oracles.silver import views
from tests.support.silver_cases import (
    Row,
    answered,
    at,
    epochs,
    failed,
    heard,
    led,
    poll,
    rows,
    shown_by,
    shows,
    taken,
    unreachable,
    waits,
)
from tests.support.silver_lives import CLUSTER_ID, check_rows, claimed, cuts_of, folded, histories
from tests.support.silver_rounds import Lake

LATER = "20261102T000000Z-00000000"
TOPICS, PARTITIONS, GAPS = silver.TOPIC_SNAPSHOTS, silver.PARTITION_SNAPSHOTS, silver.POLL_GAPS

# --- which polls are taken ---


def test_polls_of_an_older_stream_are_late_and_polls_taken_before_are_passed_over() -> None:
    # By their epochs they are no old images.
    early, late = shown_by(None, shows(3), shows(4)), shown_by(None, shows(1), stream=LATER)
    lake = taken(*late)
    whole = lake.rows
    for _ in range(2):
        every = bronze_rows("c", [*early, *late])
        lake.take(every, [a.poll_id for a in (*early, *late)], "id-prod")
        assert lake.state is not None
        assert (lake.state.late_polls, dict(lake.state.seen)) == (2, {LATER: 0, early[0].stream: 1})
        assert lake.state.last_poll_at == early[1].scheduled_at
    assert lake.rows == whole


def test_a_poll_that_says_the_same_again_needs_no_rows_and_makes_none() -> None:
    one, again = shown_by(1, shows(1), shows(1))
    lake = taken(one)
    headers = headers_of(bronze_rows("c", [one, again]))
    assert records_to_read(lake.state, headers) == {}
    folded = fold(lake.state, {}, headers, [])
    assert (folded.rows, [poll.id for poll in folded.polls]) == ({}, [again.poll_id])
    unsure = [header | {"digest": None} for header in headers]
    assert lake.state is not None
    for state in (lake.state, replace(lake.state, digest=None)):
        assert records_to_read(state, unsure) == {again.poll_id: {"topic"}}


def test_without_an_id_of_its_own_an_alias_has_no_history() -> None:
    of_bronze = bronze_rows("c", shown_by(None, shows(1)))
    folded = fold(None, {}, headers_of(of_bronze), of_bronze)
    assert (folded.rows, folded.state.refused_polls, folded.state.last) == ({}, 1, None)
    assert fold(None, {}, [], []).state == State()


def test_answers_that_wait_are_believed_if_a_person_says_so() -> None:
    before, *old = [*shown_by(1, shows(5)), *shown_by(0, *[shows(4)] * 4)[1:]]
    lake, bronze = Lake("c"), bronze_rows("c", [before, *old])
    lake.take(bronze, [before.poll_id, *(a.poll_id for a in old[:2])], "id-prod")
    assert waits(lake) == 2
    lake.take(bronze, [old[2].poll_id], "id-prod", believe=True)
    assert waits(lake) == 0
    found = [(row["first_poll"][-1], row["leader_epoch"]) for row in rows(lake, PARTITIONS)]
    assert found == [("0", 5), ("1", 4)]
    assert [poll.id[-1] for poll in lake.polls] == ["0", "1", "2", "3"]


def test_a_failed_poll_waits_with_the_answers_around_it() -> None:
    good, old, lost, better = shown_by(1, shows(5), shows(4), shows(5), shows(6))
    lake = taken(good, old, failed(lost))
    assert waits(lake) == 2
    whole = taken(good, old, failed(lost), better)
    assert waits(whole) == 0
    (gap,) = rows_of_gaps(whole)
    assert (gap["stale_polls"], gap["failed_polls"], gap["reason"]) == (1, 1, "failed")


def test_news_of_a_broker_that_is_not_listed_wait_until_another_tells_them() -> None:
    whole, shrunk = {"orders": [led(5, 0, 1, 2)]}, {"orders": [led(5, 0, 1)]}
    begun = [poll(0, 0, whole), poll(1, 1, shrunk, listed=(0, 1))]
    for alone in (poll(2, 2, whole), poll(2, 2, whole, unreachable(0))):
        assert waits(taken(*begun, alone)) == 1
        better = taken(*begun, alone, poll(3, 0, shrunk, listed=(0, 1)))
        assert len(rows(better, PARTITIONS)) == 2, "it is discarded"
    for confirmed in (
        poll(2, 2, whole, heard(0)),
        poll(2, 2, whole, listed=(2,)),  # the first of a cluster that starts again
        poll(2, 0, whole),
    ):
        assert len(rows(taken(*begun, confirmed), PARTITIONS)) == 3
    same = poll(2, 2, shrunk, listed=(0, 1))
    assert waits(taken(*begun, same)) == 0, "it has no news"


# --- gaps ---


def rows_of_gaps(lake: Lake) -> list[Row]:
    return list(lake.tables[GAPS.full_name].values())


@pytest.mark.parametrize(
    ("late_by", "intervals", "gaps"),
    [
        (timedelta(0), (30, 30), 0),
        (timedelta(microseconds=1), (30, 30), 1),
        (timedelta(microseconds=1), (30, 31), 0),
        (timedelta(microseconds=1), (31, 30), 0),
    ],
    ids=["two intervals", "longer", "the interval is longer", "it was longer before"],
)
def test_a_gap_is_longer_than_two_intervals(
    late_by: timedelta, intervals: tuple[int, int], gaps: int
) -> None:
    first, _, third = shown_by(None, shows(1), shows(1), shows(1))
    first.interval_ms, third.interval_ms = (1_000 * each for each in intervals)
    assert third.received_at is not None
    third.received_at += late_by
    found = rows_of_gaps(taken(first, third))
    assert [row["interval_ms"] for row in found] == [1_000 * max(intervals)] * gaps


REASONS: dict[str, tuple[Sequence[str], tuple[int, int, int], list[str]]] = {
    "not_polled": ([], (0, 0, 0), []),
    "failed": (["failed"], (1, 0, 0), ["timeout"]),
    "refused": (["refused"], (0, 1, 0), []),
    "stale": (["stale", "stale"], (0, 0, 2), []),
    "refused: though some were stale": (["stale", "refused"], (0, 1, 1), []),
    "failed: though some were refused": (["refused", "failed"], (1, 1, 0), ["timeout"]),
}
"""Value of `reason` -> polls in a gap: how many failed, were refused, were stale; and errors."""


@pytest.mark.parametrize("case", REASONS)
def test_why_a_gap_is_there(case: str) -> None:
    between, counts, kinds = REASONS[case]
    good, *some = shown_by(None, shows(5), *[shows(4)] * len(between))
    for n, what in enumerate(between):
        if what == "failed":
            some[n] = failed(some[n])
        elif what == "refused":
            some[n].cluster_id = "another"
    last = shown_by(None, *[shows(6)] * 8)[-1]
    (gap,) = rows_of_gaps(taken(good, *some, last))
    assert gap["reason"] == case.partition(":")[0]
    assert tuple(gap[f"{each}_polls"] for each in ("failed", "refused", "stale")) == counts
    assert gap["error_kinds"] == kinds
    assert (gap["after_poll"], gap["until_poll"]) == (good.poll_id, last.poll_id)
    assert (gap["gap_start"], gap["gap_end"]) == (good.received_at, last.received_at)


def test_polls_that_are_counted_are_of_one_gap() -> None:
    good, bad, better = shown_by(None, shows(5), shows(4), shows(5))
    late = shown_by(None, *[shows(5)] * 8)[-1]
    (gap,) = rows_of_gaps(taken(good, failed(bad), better, late))
    assert (gap["reason"], gap["failed_polls"], gap["error_kinds"]) == ("not_polled", 0, [])


# --- which records are read ---


def to_read(
    *answers: Answer, kind: str = KAFKA, teller: Teller | None = None, state: State | None = None
) -> list[set[str]]:
    """What is read of each poll after the first one, which is accepted."""
    before = taken(answers[0]).state if state is None else state
    headers = headers_of(bronze_rows("c", list(answers)))[1:]
    found = records_to_read(before, headers, None, kind, teller or Teller())
    return [found.get(answer.poll_id, set()) for answer in answers[1:]]


def beside(answer: Answer, voters: tuple[int, ...]) -> Answer:
    answer.enriched, answer.enrichments = {"quorum": "ok"}, {"quorum": {(): quorum(1, 1, *voters)}}
    return answer


def test_after_the_first_digest_that_differs_all_of_its_kind_are_read() -> None:
    one, same, other, back = shown_by(None, shows(1), shows(1), shows(2), shows(1))
    assert to_read(one, same, other, back) == [set(), {"topic"}, {"topic"}]
    polls = [
        beside(each, (n,)) for each, n in zip((one, same, other, back), (1, 1, 1, 2), strict=True)
    ]
    assert to_read(*polls) == [set(), {"topic"}, {"topic", "quorum"}]


def test_a_key_frame_is_read_if_the_cluster_is_declared_to_be_of_another_kind() -> None:
    one, same, frame, again = shown_by(None, *[shows(1)] * 4)
    same.batch, again.batch = one.batch, frame.batch
    assert to_read(one, same, frame, again, kind="redpanda") == [set(), {"topic"}, {"topic"}]
    assert to_read(one, same, frame, again) == [set(), set(), set()]


def test_while_the_log_tells_topics_the_list_of_brokers_counts() -> None:
    one, same, other = shown_by(None, shows(1), shows(1), shows(2))
    by_log = State(cluster_id="id-prod", heard=headers_of(bronze_rows("c", [one]))[0]["digest"])
    found = to_read(one, same, other, teller=Teller(by_log=True), state=by_log)
    assert found == [set(), {"brokers"}]


def test_answers_of_other_brokers_are_read_if_they_change_who_is_behind() -> None:
    whole = {"orders": [led(5, 0, 1, 2)]}
    one, same = poll(0, 0, whole), poll(1, 0, whole, heard(2))
    behind = poll(2, 0, whole, heard(2, is_behind=True))
    again = poll(3, 0, whole, heard(2, is_behind=True))
    back = poll(4, 0, whole, heard(2))
    assert to_read(one, same, behind, again, back) == [set(), {WITNESSES}, set(), {WITNESSES}]


# --- since when ---


def bounds(*answers: Answer) -> tuple[datetime, datetime]:
    """When the second state of the partition began: after, and before."""
    first, second = rows(taken(*answers), PARTITIONS)
    assert (first["last_seen_sent_at"], first["valid_to"]) == (
        second["prev_sent_at"],
        second["valid_from"],
    )
    return second["prev_sent_at"], second["valid_from"]


WHOLE, NEWS = {"orders": [led(5, 0, 1, 2)]}, {"orders": [led(6, 1, 2)]}
WITNESSED: dict[str, tuple[Sequence[int | None], Sequence[Row], int]] = {
    "another knew the news, too": ((0, 1, 2), [heard(2)], 2),
    "who said that nothing had changed was behind": ((0, 1, 2), [heard(2, is_behind=True)], 1),
    "... or may have been": ((0, 1, 2), [heard(2, is_behind=None)], 1),
    "... and said it twice": ((0, 2, 2), [heard(2, is_behind=True)], 0),
    "... and so did one before": ((0, 1, 2, 1, 2), [heard(2, is_behind=True)], 3),
    "who was behind did not answer last": ((0, 2, 1), [heard(2, is_behind=True)], 2),
    "a silent witness proves nothing": ((0, 1, 2), [unreachable(2)], 2),
    "nobody knows who answered": ((0, 1, None), [heard(2, is_behind=True)], 2),
}
"""Brokers that answer the same, other brokers that are asked with the news that broker 1 tells, and
the poll that proves the state before.
"""


@pytest.mark.parametrize("case", WITNESSED)
def test_a_broker_that_was_behind_proves_not_that_nothing_had_changed(case: str) -> None:
    brokers, witnesses, proof = WITNESSED[case]
    quiet = [poll(n, broker, WHOLE) for n, broker in enumerate(brokers)]
    news = poll(len(quiet), 1, NEWS, *witnesses)
    expected = (at(proof), at(len(quiet)) + timedelta(milliseconds=100))
    assert bounds(*quiet, news) == expected


MOMENT = answered(1) + timedelta(milliseconds=75)
CONFIRMED: dict[str, tuple[list[Row], datetime]] = {
    "nobody else was asked: its own time": ([], answered(1)),
    "another showed the same, later": ([heard(2, received_at=MOMENT)], MOMENT),
    "two did: the first of them": (
        [heard(0, received_at=MOMENT + timedelta(seconds=1)), heard(2, received_at=MOMENT)],
        MOMENT,
    ),
    "who was behind confirms nothing": (
        [heard(2, is_behind=True, received_at=MOMENT)],
        answered(1),
    ),
    "nor who may have been": ([heard(2, is_behind=None, received_at=MOMENT)], answered(1)),
    "nor who did not answer": ([unreachable(2)], answered(1)),
}
"""Witnesses of news that broker 1 tells, and by when these were surely so."""


@pytest.mark.parametrize("case", CONFIRMED)
def test_news_were_so_by_the_time_at_which_another_broker_showed_them(case: str) -> None:
    """A broker that is behind may show an ISR of before that comes back within a round trip."""
    witnesses, moment = CONFIRMED[case]
    news = poll(1, 1, NEWS, *witnesses)
    assert bounds(poll(0, 0, WHOLE), news)[1] == moment


def test_the_news_of_a_broker_prove_that_it_was_not_behind_when_it_told_them() -> None:
    shrunk, moved = {"orders": [led(5, 0, 1)]}, {"orders": [led(6, 1)]}
    news = [poll(0, 0, WHOLE), poll(1, 2, shrunk), poll(2, 0, moved, heard(2, is_behind=True))]
    assert rows(taken(*news), PARTITIONS)[2]["prev_sent_at"] == at(1)


def test_a_topic_that_two_polls_lack_was_last_seen_by_a_poll_that_proves_it() -> None:
    quiet = [poll(n, n, WHOLE) for n in range(3)]
    without = [poll(3, 0, {}, heard(2, is_behind=True)), poll(4, 0, {})]
    (row,) = rows(taken(*quiet, *without), PARTITIONS)
    assert row["last_seen_sent_at"] == at(1), "broker 2 was behind when it answered"
    assert row["superseded_poll"] == without[0].poll_id


# --- answers beside polls ---

STREAMED = {"orders": [led(0, 1, 2, 0)]}


def asked(
    n: int, *, took_ms: int = 800, early: tuple[str, ...] = (), **states: dict[Any, tuple]
) -> Answer:
    """A poll each 10 s, answered after 0.1 s; then each kind in turn is asked, and answered after
    `took_ms`.
    """
    return poll(
        n,
        None,
        STREAMED,
        enriched=dict.fromkeys(states, "ok"),
        enrichments=states,
        asked_ms=took_ms,
        early=frozenset(early),
    )


def seconds(n: float) -> datetime:
    return START + timedelta(seconds=n)


def group(state: str) -> dict[Any, tuple]:
    told = {
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": state,
        "assignor": "range",
        "members": [],
    }
    return {("g",): tuple(told.get(name) for name in GROUP_STATE)}


def test_a_group_had_begun_to_rebalance_when_described_and_not_when_the_poll_was_answered() -> None:
    """It began at 20.5 s, between the poll's answer at 20.1 s and its own description at 20.9 s."""
    states = ("Stable", "Stable", "PreparingRebalance", "Stable")
    lake = taken(*(asked(n, groups=group(state)) for n, state in enumerate(states)))
    of_group = rows(lake, silver.GROUP_SNAPSHOTS)
    times = [
        (row["prev_sent_at"], row["valid_from"], row["last_seen_sent_at"], row["valid_to"])
        for row in of_group
    ]
    assert times == [
        (None, seconds(0.9), seconds(10.1), seconds(20.9)),
        (seconds(10.1), seconds(20.9), seconds(20.1), seconds(30.9)),
        (seconds(20.1), seconds(30.9), None, None),
    ]
    assert begins([row | {"is_new": True} for row in of_group], None) == [
        {"began_after": seconds(10.1), "began_before": seconds(20.9), "ended_before": seconds(30.9)}
    ]


def test_each_kind_is_dated_by_its_own_answer() -> None:
    kinds = {
        "configs": ({("t",): (1, False)}, {("t",): (2, False)}, silver.TOPIC_CONFIGS),
        "reassignments": ({}, {("t", 0): ((4,), (3,))}, silver.REASSIGNMENTS),
        "quorum": ({(): quorum(1, 1, 1)}, {(): quorum(2, 2, 1)}, silver.QUORUM),
        "elr": ({}, {("t", 0): ((2,), ())}, silver.PARTITION_ELR),
        "fenced": ({}, {(3,): ("host", 9092, None)}, silver.FENCED_BROKERS),
        "groups": (group("Stable"), group("Empty"), silver.GROUP_SNAPSHOTS),
    }
    before, after = ({kind: of[number] for kind, of in kinds.items()} for number in (0, 1))
    lake = taken(asked(0, took_ms=100, **before), asked(1, took_ms=200, **after))
    for number, (_, _, table) in enumerate(kinds.values()):
        last = rows(lake, table)[-1]
        assert last["first_poll"].endswith("1"), table.full_name
        assert last["prev_sent_at"] == seconds(0.1 + 0.1 * number), table.full_name
        assert last["valid_from"] == seconds(10.3 + 0.2 * number), table.full_name


def test_a_clock_that_is_set_back_dates_no_answer_before_an_earlier_one() -> None:
    first, second = asked(0, groups=group("Stable")), asked(1, groups=group("Empty"))
    second.sent_at, second.received_at = seconds(-50), seconds(-49.9)
    lake = taken(first, second)
    last = rows(lake, silver.GROUP_SNAPSHOTS)[-1]
    assert (last["prev_sent_at"], last["valid_from"]) == (seconds(0.1), seconds(0.9))
    assert [each.at for each in lake.polls] == [seconds(0.1), seconds(0.9)]


def test_an_answer_that_came_before_its_poll_follows_the_poll_before() -> None:
    """It was asked in time for the entry of the poll before, and came too late for it."""
    first = asked(0, took_ms=100, quorum={(): quorum(1, 1, 1)})
    second = asked(1, took_ms=100, early=("quorum",), quorum={(): quorum(2, 2, 1)})
    last = rows(taken(first, second), silver.QUORUM)[-1]
    assert (last["prev_sent_at"], last["valid_from"]) == (seconds(0.1), seconds(9.2))


def test_between_two_answers_the_last_one_holds() -> None:
    """An answer with the digest of the last one changes nothing, and moves its bound."""
    one, other = {(): quorum(1, 1, 1)}, {(): quorum(2, 2, 1)}
    polls = asked(0, quorum=one), asked(1), asked(2, quorum=one), asked(3, quorum=other)
    first, last = rows(taken(*polls), silver.QUORUM)
    assert (first["valid_from"], first["last_seen_sent_at"]) == (seconds(0.9), seconds(20.1))
    assert last["prev_sent_at"] == seconds(20.1)


# --- kinds and levels ---


def test_levels_are_those_that_an_answer_tells_and_the_lowest_of_the_brokers_highest() -> None:
    polls = [poll(n, n, epochs(t=(n,)), listed=(0, 1), highest=20 - n) for n in (0, 1)]
    first, second = rows(taken(*polls), silver.CLUSTER_SNAPSHOTS)
    names = "metadata_version_level", "elr_version_level", "metadata_version_highest", "kind"
    assert [tuple(row[name] for name in names) for row in (first, second)] == [
        (25, 0, 20, "kafka"),
        (25, 0, 19, "kafka"),
    ]


def test_another_kind_holds_from_the_first_answer_that_tells_all_topics() -> None:
    one, same, frame = shown_by(None, *[shows(1)] * 3)
    same.batch, frame.batch = one.batch, one.batch + 1
    lake, bronze = Lake("c"), bronze_rows("c", [one, same, frame])
    for each in (one, same, frame):
        lake.take(bronze, [each.poll_id], "id-prod")
        lake.kind = "redpanda"
    kinds = [(row["kind"], row["first_poll"]) for row in rows(lake, silver.CLUSTER_SNAPSHOTS)]
    assert kinds == [("kafka", one.poll_id), ("redpanda", frame.poll_id)]
    assert [row["isr"] for row in rows(lake, PARTITIONS)] == [[0, 1, 2], None]


# --- random lives ---


@given(histories(), st.sampled_from([KAFKA, *KINDS]), st.data())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_rounds_cut_anywhere_make_the_rows_of_the_plain_rules(
    answers: list[Answer], kind: str, data: st.DataObject
) -> None:
    """The plain rules know whole answers alone."""
    lake = folded(
        answers,
        data.draw(cuts_of(answers)),
        narrowed=data.draw(st.booleans()),
        repeats=data.draw(st.integers(0, 3)),
        kind=kind,
    )
    check_rows(lake, answers)
    if kind == KAFKA:
        check_state(lake, answers)


def check_state(lake: Lake, answers: list[Answer]) -> None:
    """What the state says of the polls at the end, and of how they were taken."""
    line, _, missing = views(answers, CLUSTER_ID)
    state = lake.state
    assert state is not None
    assert [(p.id, p.at, p.sent_at, p.interval_ms) for p in lake.polls] == [
        (v.poll_id, v.at, v.sent_at, v.interval_ms) for v in line
    ]
    assert state.last == (lake.polls[-1] if line else None)
    assert set(state.missing) == missing
    settled = line[-2] if missing else line[-1] if line else None
    assert (state.settled and state.settled.id) == (settled and settled.poll_id)
    after = [a for a in answers if not line or a.poll_id > line[-1].poll_id]
    own = [a.poll_id for a in after if a.ok and a.cluster_id == CLUSTER_ID]
    assert list(state.waiting) == [a.poll_id for a in after if own and a.poll_id >= own[0]]
    after = [a for a in after if a.poll_id not in state.waiting]
    assert state.failed_polls == sum(not a.ok for a in after)
    assert state.refused_polls == sum(a.ok and a.cluster_id != CLUSTER_ID for a in after)
    assert state.error_kinds == tuple(sorted({str(a.error_kind) for a in after if not a.ok}))
    assert dict(state.seen) == {a.stream: a.n for a in answers}
    assert state.last_poll_at == max(a.scheduled_at for a in answers)
    assert state.late_polls == 0
    assert state.cluster_id == claimed(answers)

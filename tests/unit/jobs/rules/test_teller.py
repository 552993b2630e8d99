"""Who tells topics and partitions, polls or the controllers' log, in cases of a cluster's life."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.rules.ids import LOG, POLLS
from jobs.rules.log.state import State as LogState
from jobs.rules.log.state import observed
from jobs.rules.memory import dumps, loads
from jobs.rules.silver.state import Answered, Header, Observation, Poll, State
from jobs.rules.teller import (
    IN_TURN,
    POLLS_ALONE,
    Teller,
    begun,
    handed_over,
    inherited,
    is_read,
    keep_digest,
    last_digest,
    settled,
    source,
    taken_over,
    takes_over,
    teller,
)
from schemas import silver

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
STREAM = "20261101T000000Z-00000000"
HAND_OVER = timedelta(minutes=1)
TO_THE_END = Teller(by_log=True)


def at(n: int) -> datetime:
    return BEGIN + timedelta(seconds=10 * n)


def poll_id(n: int) -> str:
    return f"{STREAM}/{n:012d}"


def poll(n: int) -> Poll:
    return Poll(poll_id(n), at(n), at(n), 10_000)


def header(n: int, cluster_id: str = "id", outcome: str = "ok") -> Header:
    """Every second poll is a key frame."""
    return {
        "poll_id": poll_id(n),
        "outcome": outcome,
        "cluster_id": cluster_id,
        "scheduled_at": at(n),
        "received_at": at(n) if outcome == "ok" else None,
        "is_key_frame": n % 2 == 0,
    }


def from_poll(n: int) -> Teller:
    return Teller(by_log=True, polls_from=poll_id(n))


def record(n: int) -> Poll:
    """The record of the log that came with poll `n`."""
    return observed(poll_id(n), 100 + n, at(n))


KNOWS_ALL = LogState(is_whole=True, tells=True, heard_at=at(0), last=record(0))
LOST_RECORDS = LogState(is_whole=False, tells=True, heard_at=at(0), last=record(0))
FOLLOWS = LogState(is_whole=True, tells=False, heard_at=at(0), last=record(0))


@dataclass(frozen=True)
class Case:
    """A round that takes polls 0 to 39, ten seconds apart. `polled`: the last poll accepted before
    it.
    """

    expected: Teller
    log: LogState | None = None
    polled: int | None = None
    read_at: datetime | None = None
    has_snapshot: bool = False
    hand_over: timedelta | None = HAND_OVER
    since: datetime | None = None


CASES = {
    "polls alone": Case(POLLS_ALONE, polled=3),
    "polls alone, of a new cluster": Case(POLLS_ALONE),
    "a log that is read since polls told": Case(POLLS_ALONE, polled=3, read_at=at(39)),
    "polls tell, and the log is followed": Case(POLLS_ALONE, FOLLOWS, polled=3, read_at=at(39)),
    "the log alone, of a new cluster": Case(TO_THE_END, read_at=at(39)),
    "the log alone, which is read as it grows": Case(TO_THE_END, KNOWS_ALL, read_at=at(39)),
    "the log falls silent": Case(from_poll(8), KNOWS_ALL),
    "the log falls silent within a round": Case(from_poll(28), KNOWS_ALL, read_at=at(20)),
    "the clock of the reader was set back": Case(
        from_poll(28), replace(KNOWS_ALL, heard_at=at(20)), read_at=at(10)
    ),
    "the log lost records, and is silent": Case(from_poll(8), LOST_RECORDS, read_at=at(20)),
    "a snapshot brings it back": Case(
        from_poll(28), LOST_RECORDS, read_at=at(20), has_snapshot=True
    ),
    "nobody could read it before the run began": Case(from_poll(18), KNOWS_ALL, since=at(10)),
    "withControllers is no more": Case(from_poll(0), KNOWS_ALL, hand_over=None),
    "a migration from ZooKeeper: no controller of KRaft yet": Case(POLLS_ALONE, polled=3),
    "a migration from ZooKeeper: the first controllers' log is read": Case(
        POLLS_ALONE, polled=3, read_at=at(20), has_snapshot=True
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_tells_in_a_round(case: Case) -> None:
    state = State(last=None if case.polled is None else poll(case.polled))
    found = teller(
        state,
        case.log,
        [header(n) for n in range(40)],
        "id",
        read_at=case.read_at,
        has_snapshot=case.has_snapshot,
        hand_over=case.hand_over,
        since=case.since,
    )
    assert found == case.expected
    assert loads(Teller, dumps(found)) == found


def test_polls_tell_again_by_a_good_answer_of_the_same_cluster() -> None:
    bad = [header(8, outcome="failed"), header(10, cluster_id="other"), header(11)]
    told = {"read_at": None, "has_snapshot": False, "hand_over": HAND_OVER}
    assert teller(State(), KNOWS_ALL, [*bad, header(12)], "id", **told) == from_poll(12)
    assert teller(State(), KNOWS_ALL, bad, "id", **told) == TO_THE_END


@pytest.mark.parametrize(
    ("who", "read_at", "first", "by_log"),
    [
        (POLLS_ALONE, None, 4, [False] * 4),
        (POLLS_ALONE, at(1), 2, [False] * 4),
        (TO_THE_END, at(1), 4, [True] * 4),
        (from_poll(2), at(1), 2, [True, True, False, False]),
        (from_poll(0), None, 0, [False] * 4),
    ],
    ids=[
        "polls alone",
        "the log was read after two polls and may take over",
        "the log alone",
        "hand-over at the third poll",
        "hand-over at once",
    ],
)
def test_polls_before_and_after_another_may_tell(
    who: Teller, read_at: datetime | None, first: int, by_log: Sequence[bool]
) -> None:
    headers = [header(n) for n in range(4)]
    assert who.halves(headers, read_at) == (headers[:first], headers[first:])
    assert [who.is_log(each["poll_id"]) for each in headers] == by_log


def test_polls_that_were_answered_after_the_log_was_read_follow_it() -> None:
    headers = [header(0), header(1) | {"received_at": at(3)}, header(2, outcome="failed")]
    assert POLLS_ALONE.halves(headers, at(2)) == (headers[:1], headers[1:])
    lost = [headers[0], headers[2]]
    assert POLLS_ALONE.halves(lost, at(2)) == (lost, []), "a failed poll has the time it was due"


@pytest.mark.parametrize(
    ("who", "is_log_alone"), [(POLLS_ALONE, False), (TO_THE_END, True), (from_poll(2), False)]
)
def test_whether_no_poll_of_a_round_tells(who: Teller, is_log_alone: bool) -> None:
    assert who.is_log_alone == is_log_alone


def test_a_round_that_ends_before_the_hand_over_has_none() -> None:
    assert from_poll(8).among({poll_id(7)}) == TO_THE_END
    assert from_poll(8).among({poll_id(8)}) == from_poll(8)
    assert POLLS_ALONE.among({poll_id(8)}) == POLLS_ALONE


@pytest.mark.parametrize(
    ("heard_at", "polled", "answered", "is_taken_over"),
    [
        (at(3), poll(3), {}, True),
        (at(3), poll(4), {}, False),
        (at(3), poll(2), {"configs": poll(4)}, False),
        (at(3), None, {}, True),
        (None, poll(2), {}, False),
    ],
    ids=[
        "read after the last poll",
        "read before the last poll",
        "read before the last answer beside polls",
        "no poll was accepted",
        "nothing was read of which all is known",
    ],
)
def test_the_log_takes_over(
    heard_at: datetime | None, polled: Poll | None, answered: dict[str, Poll], is_taken_over: bool
) -> None:
    assert takes_over(LogState(heard_at=heard_at), polled, answered) == is_taken_over


def test_a_log_that_tells_takes_nothing_over() -> None:
    assert not takes_over(KNOWS_ALL, None, {})
    assert begun(None, None).tells
    assert not begun(poll(3), None).tells


def test_polls_forget_what_the_log_tells_and_remember_the_rest() -> None:
    kinds = ("configs", "reassignments", "elr", "quorum", "fenced", "groups")
    answered = {kind: Answered(**vars(poll(3))) for kind in kinds}
    told = {"missing": {"t": "gone"}, "topic_digests": {"t": "1:00"}, "heir_of": record(0)}
    after = taken_over(State(last=poll(3), digest=b"d", enriched=answered, **told))
    assert after == State(last=poll(3), enriched=after.enriched)
    assert after.enriched.keys() == {"configs", "quorum", "fenced", "groups"}


def test_polls_tell_again_after_the_last_record() -> None:
    state = State(last=poll(5), heard=b"d", enriched={"quorum": Answered(**vars(poll(5)))})
    after, log = handed_over(state, KNOWS_ALL)
    assert not log.tells
    assert (after.heard, after.heir_of) == (None, record(0))
    assert {kind: of.id for kind, of in after.enriched.items()} == {
        "quorum": poll_id(5),
        **dict.fromkeys(("configs", "reassignments", "elr"), record(0).id),
    }
    assert inherited(after, Observation(poll(6), poll(5))) == Observation(poll(6), record(0))
    assert inherited(state, Observation(poll(6), poll(5))) == Observation(poll(6), poll(5))


def test_a_log_without_a_record_hands_nothing_over() -> None:
    state = State(last=poll(5), heard=b"d")
    assert handed_over(state, LogState(tells=True)) == (state, LogState())


def test_a_digest_says_of_topics_what_was_looked_at() -> None:
    state = State()
    for by_log in (True, False, True):
        keep_digest(state, b"d", by_log=by_log)
        assert last_digest(state, by_log=by_log) == b"d"
        assert last_digest(state, by_log=not by_log) is None


@pytest.mark.parametrize(
    ("state", "log", "before", "expected"),
    [
        (State(), None, (None, None), (None, None)),
        (State(last=poll(5)), None, (poll_id(4), at(4)), (poll_id(5), at(5))),
        (State(last=poll(5)), FOLLOWS, (None, None), (poll_id(5), at(5))),
        (State(last=poll(5)), KNOWS_ALL, (None, None), (poll_id(5), at(0))),
        (State(), KNOWS_ALL, (None, None), (record(0).id, at(0))),
        (State(last=poll(5)), FOLLOWS, (record(7).id, at(7)), (record(7).id, at(7))),
    ],
    ids=[
        "nothing yet",
        "polls alone",
        "polls tell, and the log is followed",
        "the log tells, and polls tell of brokers",
        "the log alone",
        "hand-over: the log had told further than the polls accepted since",
    ],
)
def test_history_is_settled_up_to_the_last_observation_of_who_tells(
    state: State,
    log: LogState | None,
    before: tuple[str | None, datetime | None],
    expected: tuple[str | None, datetime | None],
) -> None:
    assert settled(state, log, before) == expected


def test_each_table_has_one_source_at_a_time() -> None:
    tables = (*silver.SNAPSHOTS, *silver.OF_LOG, silver.HISTORY_SOURCES)
    assert {table for table in tables if source(table, by_log=False) == LOG} == {*silver.OF_LOG}
    assert {table for table in tables if source(table, by_log=True) == POLLS} == {
        silver.BROKER_SNAPSHOTS,
        silver.QUORUM,
        silver.FENCED_BROKERS,
        silver.GROUP_SNAPSHOTS,
        silver.OPEN_TRANSACTIONS,
        silver.LOG_DIRS,
    }
    assert {*tables} >= IN_TURN
    assert [kind for kind in silver.ENRICHMENTS if not is_read(kind, by_log=True)] == [
        "reassignments",
        "elr",
    ]
    assert all(is_read(kind, by_log=False) for kind in silver.ENRICHMENTS)

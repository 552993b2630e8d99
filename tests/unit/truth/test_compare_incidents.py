"""The comparison of incidents finds whatever is wrong: the fold makes incidents of a small log, by
its records and by polls, which agree, and then are spoilt in one place.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.rules.arrow import rows_of
from jobs.rules.incidents import finding as of_gold
from schemas.incidents import INCIDENT_LINKS, INCIDENTS
from tests.support.incident_rounds import NOON, Rounds
from tests.support.small_log import broker, change, record, second
from truth.chaos import Entry
from truth.compare import tolerance
from truth.compare_incidents import Observed, _judge_events, compare_findings
from truth.compare_spells import Setting, SpellScore
from truth.dump import LEADER_CHANGE
from truth.incident_rows import Event, Finding, Incident, Told
from truth.log import truth_of
from truth.model.faults import Fault, faults
from truth.model.states import Truth
from truth.observed import Poll, Watch

ORDERS, CLICKS = "orders-id", "clicks-id"
STEP, LATENCY = timedelta(seconds=2), timedelta(milliseconds=10)


def topic(name: str, topic_id: str, *replicas: int) -> Iterable[Any]:
    yield record(1, "TOPIC_RECORD", name=name, topicId=topic_id)
    yield record(
        *(1, "PARTITION_RECORD"),
        partitionId=0,
        topicId=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leaderEpoch=0,
    )


# Broker 2 dies at 21.5 and is back at 33; broker 3 dies at 25.5, so that clicks has no leader; the
# election at 34.5 is unclean. Broker 1 is stopped, and controlled, at 243, and is back at 251. From
# 300.5 on three controllers are elected, one after the other. Broker 4 is cut off at 20.
LOG = [
    *(record(0, "REGISTER_BROKER_RECORD", brokerId=b, rack=None, fenced=b == 4) for b in range(5)),
    broker(0.2, 4, -1),
    record(
        *(0.5, "CONFIG_RECORD"),
        resourceType=2,
        resourceName="orders",
        name="min.insync.replicas",
        value="2",
    ),
    *topic("orders", ORDERS, 1, 2, 3),
    *topic("clicks", CLICKS, 2, 3),
    change(21.5, ORDERS, isr=[1, 3]),
    change(21.5, CLICKS, leader=3, isr=[3]),
    broker(21.5, 2, 1),
    change(25.5, ORDERS, isr=[1]),
    change(25.5, CLICKS, leader=-1),
    broker(25.5, 3, 1),
    broker(33, 2, -1),
    change(34.5, CLICKS, leader=2, isr=[2], leaderRecoveryState=1),
    change(35, ORDERS, isr=[1, 2]),
    broker(41, 3, -1),
    change(43, ORDERS, isr=[1, 2, 3]),
    change(43, CLICKS, isr=[2, 3]),
    record(240, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, inControlledShutdown=1),
    change(240, ORDERS, leader=2, isr=[2, 3]),
    broker(243, 1, 1),
    broker(251, 1, -1),
    change(253, ORDERS, isr=[1, 2, 3]),
    *(record(at, LEADER_CHANGE, epoch=epoch, leaderId=100 + epoch)
      for epoch, at in enumerate((0.1, 300.5, 304.5, 308.5), 1)),
    record(500, "NO_OP_RECORD"),
]  # fmt: skip
TRUTH = truth_of(LOG)
POLLS = [
    Poll(f"s/{n:012d}", second(10 + 2 * n), second(10 + 2 * n) + LATENCY, 3, STEP, True, None)
    for n in range(200)
]
CUT_OFF = [
    Entry("isolate", "isolate 4", (4,), second(20), second(20.1), None),
    Entry("rejoin", "rejoin 4", (4,), second(47), second(47.5), None),
]
OF_LOG = Observed(second(490))
OF_POLLS = Observed(
    second(408),
    Watch.over(POLLS, tolerance(STEP)),
    [Setting("orders", 2, "s/000000000000", None)],
)


def shown(at: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Between which polls something is shown."""
    if at is None:
        return None, None
    first = next(poll for poll in POLLS if poll.sent_at > at)
    return first.sent_at - STEP, first.sent_at


def found(fault: Fault, *, by_polls: bool) -> of_gold.Finding:
    """A fault as rows of gold tell it."""
    since, until = fault.span.since, fault.span.until
    began = shown(since) if by_polls else (since, since)
    ended = shown(until) if by_polls else (until, until)
    assert began[1] is not None
    of = min(fault.brokers, default=None)
    of_broker = fault.kind in {"broker_missing", "isr_left", "leader_changed", "stale_broker"}
    return of_gold.Finding(
        fault.kind,
        began[1],
        began[0],
        *ended,
        source="polls" if by_polls else "log",
        broker_id=of if of_broker or fault.kind == "controller_elected" else None,
        brokers=tuple(sorted(fault.brokers)),
        topic=fault.topic,
        partitions=1 if fault.partition or fault.kind == "isr_left" else 0,
        is_controlled=fault.is_controlled
        if fault.kind == "broker_missing" and not by_polls
        else None,
    )


def told(truth: Truth, *, by_polls: bool) -> Told:
    """The incidents that the fold makes, round by round."""
    # Who flaps is counted by the fold; what holds from the beginning is none.
    left_out = {"quorum_flapping", "config_changed", *(["controller_elected"] if by_polls else [])}
    known = [found(each, by_polls=by_polls) for each in faults(truth) if each.kind not in left_out]
    if by_polls:
        known.append(
            of_gold.Finding(
                *("stale_broker", second(24), second(22), second(46), second(50)),
                broker_id=4,
                brokers=(4,),
            )
        )
    rounds = Rounds()
    for until in (15, 22, 24, 30, 40, 60, 180, 242, 260, 305, 310, 400, 460):
        rounds.round(known, (second(until) - NOON).total_seconds())
    return recorded(rounds)


def recorded(rounds: Rounds) -> Told:
    """The rows of rounds, as the truth reads them."""
    tables = [*map(rows_of, (rounds.tables[INCIDENTS], rounds.tables[INCIDENT_LINKS]))]
    return Told(
        *(
            [_record(kind, row) for row in rows]
            for kind, rows in zip((Incident, Finding, Event), (*tables, rounds.events), strict=True)
        )
    )


def _record(kind: Any, row: dict[str, Any]) -> Any:
    of = {name: row[name] for name in kind.__slots__}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in of.items()})


BY_LOG, BY_POLLS = told(TRUTH, by_polls=False), told(TRUTH, by_polls=True)


def score(of: Told) -> SpellScore:
    return compare_findings(
        of, OF_POLLS if of.findings[0].source == "polls" else OF_LOG, TRUTH, CUT_OFF
    )


def kinds(of: Told) -> set[str]:
    return {fault.split(":")[0] for fault in score(of).faults}


def test_the_fold_agrees_with_the_truth() -> None:
    for of in (BY_LOG, BY_POLLS):
        assert score(of).faults == []
        assert score(of).claims > 10
    opened = {row.kind for row in BY_LOG.findings}
    assert opened >= {
        *("broker_missing", "partition_offline", "under_min_isr", "unclean_election"),
        *("quorum_flapping", "isr_left", "leader_changed", "controller_elected"),
    }
    assert {row.kind for row in BY_POLLS.findings} >= {"stale_broker", "under_min_isr"}
    assert {row.sureness for row in BY_LOG.findings} >= {"exact"}
    assert {row.began_controlled for row in BY_LOG.incidents} == {True, False}


def test_what_nobody_could_see_is_not_missed() -> None:
    """Polls before it alone, and min ISR that no poll knew."""
    nobody = Told([], [], [])
    until = [poll for poll in POLLS if poll.sent_at < second(20)]
    early = Observed(second(20), Watch.over(until, tolerance(STEP)))
    assert compare_findings(nobody, early, TRUTH, []).faults == []
    assert OF_POLLS.watch is not None
    missed = compare_findings(nobody, Observed(second(408), OF_POLLS.watch), TRUTH, []).missed
    assert missed
    assert not any("under_min_isr" in each for each in missed)


@pytest.mark.parametrize("of", [BY_LOG, BY_POLLS], ids=["log", "polls"])
@pytest.mark.parametrize("kind", ["broker_missing", "partition_offline", "under_min_isr"])
def test_a_finding_that_is_not_there_is_missed(of: Told, kind: str) -> None:
    rows = [row for row in of.findings if row.kind != kind]
    assert "missed" in kinds(replace(of, findings=rows))


@pytest.mark.parametrize("kind", ["unclean_election", "quorum_flapping"])
def test_of_the_log_elections_are_missed_too(kind: str) -> None:
    rows = [row for row in BY_LOG.findings if row.kind != kind]
    assert "missed" in kinds(replace(BY_LOG, findings=rows))


Change = Callable[[Finding], dict[str, Any]]
HOUR = timedelta(hours=1)


def later(row: Finding, by: timedelta) -> dict[str, Any]:
    names = ("began_after", "began_before", "ended_after", "ended_before")
    return {name: getattr(row, name) and getattr(row, name) + by for name in names}


SPOILT: dict[str, tuple[dict[str, Any], Change, set[str]]] = {
    "another broker": (
        {"kind": "broker_missing"},
        lambda _: {"broker_id": 9, "brokers": (9,)},
        {"wrong", "missed"},
    ),
    "another time": ({"kind": "broker_missing"}, lambda row: later(row, HOUR), {"wrong", "missed"}),
    "a later begin": (
        {"kind": "broker_missing"},
        lambda row: {
            "began_after": row.began_before + STEP,
            "began_before": row.began_before + STEP,
        },
        {"outside"},
    ),
    "never offline": ({"kind": "partition_offline"}, lambda row: later(row, HOUR), {"wrong"}),
    "more partitions": ({"kind": "under_min_isr"}, lambda _: {"partitions": 2}, {"misjudged"}),
    "never unclean": ({"kind": "unclean_election"}, lambda row: later(row, HOUR), {"wrong"}),
    "another delay": (
        {"kind": "isr_left"},
        lambda _: {"delay_ms_min": 90_000, "delay_ms_max": 95_000},
        {"outside"},
    ),
    "another rule": ({"kind": "isr_left"}, lambda _: {"rule": "same_rack"}, {"misjudged"}),
    "from nothing": ({"kind": "isr_left"}, lambda _: {"from_id": "none"}, {"misjudged"}),
}


@pytest.mark.parametrize("of", [BY_LOG, BY_POLLS], ids=["log", "polls"])
@pytest.mark.parametrize("name", SPOILT)
def test_a_wrong_finding_is_found(of: Told, name: str) -> None:
    such, spoil, expected = SPOILT[name]
    assert expected <= kinds(_spoilt(of, such, spoil))


def test_what_only_the_log_tells_is_held_against_it() -> None:
    moved = _spoilt(
        BY_LOG,
        {"sureness": "exact", "kind": "isr_left"},
        lambda row: later(row, timedelta(milliseconds=1)),
    )
    assert "wrong" in kinds(moved)
    other = _spoilt(
        BY_LOG,
        {"kind": "broker_missing"},
        lambda row: {"is_controlled": not row.is_controlled},
    )
    assert kinds(other) == {"misjudged"}
    others = [replace(row, began_controlled=None) for row in BY_LOG.incidents]
    assert kinds(replace(BY_LOG, incidents=others)) == {"misjudged"}


def test_a_stale_broker_that_was_not_cut_off_is_found() -> None:
    spoilt = _spoilt(BY_POLLS, {"kind": "stale_broker"}, lambda _: {"broker_id": 1})
    assert kinds(spoilt) == {"wrong"}


def test_a_broker_in_two_incidents_is_found() -> None:
    row = BY_LOG.findings[0]
    assert row.kind == "broker_missing"
    twice = replace(row, id="again", incident_id=BY_LOG.incidents[-1].id)
    assert kinds(replace(BY_LOG, findings=[*BY_LOG.findings, twice])) == {"misjudged"}
    assert kinds(replace(BY_LOG, findings=[*BY_LOG.findings, row])) == {"misjudged"}


def test_an_unclean_election_apart_from_the_time_without_a_leader_is_found() -> None:
    apart = _spoilt(
        BY_LOG,
        {"kind": "unclean_election"},
        lambda _: {"incident_id": BY_LOG.incidents[-1].id, "from_id": None},
    )
    assert kinds(apart) == {"misjudged"}


def _spoilt(of: Told, such: dict[str, Any], spoil: Change) -> Told:
    place = next(
        n
        for n, row in enumerate(of.findings)
        if all(getattr(row, name) == value for name, value in such.items())
    )
    rows = [*of.findings]
    rows[place] = replace(rows[place], **spoil(rows[place]))
    return replace(of, findings=rows)


EVENTS: dict[str, Callable[[list[Event]], list[Event]]] = {
    "twice": lambda events: [*events, events[0]],
    "never opened": lambda events: [row for row in events if row.event != "opened"],
    "opened twice": lambda events: [*events, replace(events[0], id="x")],
    "opened last": lambda events: [
        replace(row, known_at=row.known_at + HOUR) if row.event == "opened" else row
        for row in events
    ],
    "never ended": lambda events: [row for row in events if row.event != "ended"],
    "none": lambda _: [],
    "of no incident": lambda events: [*events, replace(events[0], id="x", incident_id="x")],
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_that_do_not_fit_are_found(name: str) -> None:
    assert BY_LOG.events[0].event == "opened"
    assert kinds(replace(BY_LOG, events=EVENTS[name]([*BY_LOG.events])))


def test_what_lasted_when_incidents_were_made_first_was_not_opened() -> None:
    first, *others = BY_LOG.events
    lasted = replace(first, event="baseline", incident_id=None)
    assert score(replace(BY_LOG, events=[lasted, *others])).faults == []


def test_what_was_over_when_incidents_were_made_first_has_no_event() -> None:
    known = [found(each, by_polls=False) for each in faults(TRUTH) if each.kind == "broker_missing"]
    rounds = Rounds()
    rounds.round(known, (second(400) - NOON).total_seconds())
    assert not rounds.events
    of = recorded(rounds)
    assert of.incidents
    judged = SpellScore()
    _judge_events(of, judged)
    assert judged.faults == []
    later = [replace(row, ended_before=row.updated_at + HOUR) for row in of.incidents]
    _judge_events(replace(of, incidents=later), judged)
    assert len(judged.misjudged) == len(later)

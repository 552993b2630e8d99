"""The comparison of what lasts finds whatever is wrong: the folds make history of polls of a small
truth, which agrees, and then is spoilt in one place.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.configuration.config import Thresholds
from jobs.rules.gold import isr_shrink, leaders
from jobs.rules.gold.news import GoldInput
from schemas import gold, silver
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer, good_answer
from tests.support.silver_rounds import Lake
from tests.support.small_log import broker, change, record, second
from truth.chaos import Entry
from truth.compare import tolerance
from truth.compare_events import EventScore, IsrChange, LeaderChange
from truth.compare_isrs import compare_isr_changes
from truth.compare_leaders import compare_counts, compare_leader_changes
from truth.compare_spells import (
    Episode,
    Incident,
    Led,
    Setting,
    SpellScore,
    compare_balance,
    compare_episodes,
    compare_incidents,
)
from truth.compare_stale import Heard, Stale, compare_stale
from truth.compare_topics import TopicEnd, compare_topics
from truth.cuts import Views, cuts
from truth.dump import Record
from truth.log import truth_of
from truth.model.states import Truth, at_time
from truth.observed import Poll, Seen, Watch
from truth.plain import leader_changes

ORDERS, CLICKS, AGAIN = "orders-id", "clicks-id", "clicks-again"
STEP = timedelta(seconds=2)
LATENCY = timedelta(milliseconds=10)


def topic(at: float, name: str, topic_id: str, *replicas: list[int]) -> list[Record]:
    of_partitions = [
        record(at, "PARTITION_RECORD", partitionId=n, topicId=topic_id, replicas=each, isr=each,
               leader=each[0], leaderEpoch=0)
        for n, each in enumerate(replicas)
    ]  # fmt: skip
    return [record(at, "TOPIC_RECORD", name=name, topicId=topic_id), *of_partitions]


# Polled at 10, 12, 14, ... Broker 1 is cut off at 12.5 and fenced at 17, by when it has lost what
# it led; it comes back at 25 and is preferred at 29. Broker 3 lags from 32.5 to 37, and again from
# 47 to 49: one incident. Broker 2 dies at 52.5 and leaves clicks-0 without a leader until 57. At 61
# clicks is deleted, at 65 it is made again. Broker 3 lags once more from 131 on, which is another
# incident.
LOG = [
    *(record(0, "REGISTER_BROKER_RECORD", brokerId=b, rack=None, fenced=False) for b in (1, 2, 3)),
    record(
        0.5,
        "CONFIG_RECORD",
        resourceType=2,
        resourceName="orders",
        name="min.insync.replicas",
        value="2",
    ),
    *topic(1, "orders", ORDERS, [1, 2, 3], [2, 3, 1]),
    *topic(1, "clicks", CLICKS, [2, 3]),
    change(17, ORDERS, leader=2, isr=[2, 3]),
    change(17, ORDERS, 1, isr=[2, 3]),
    broker(17, 1, 1),
    broker(25, 1, -1),
    change(25.5, ORDERS, isr=[1, 2, 3]),
    change(25.5, ORDERS, 1, isr=[1, 2, 3]),
    change(29, ORDERS, leader=1),
    change(32.5, ORDERS, isr=[1, 2]),
    change(32.7, CLICKS, isr=[2]),
    change(36.5, CLICKS, isr=[2, 3]),
    change(37, ORDERS, isr=[1, 2, 3]),
    change(47, ORDERS, isr=[1, 2]),
    change(49, ORDERS, isr=[1, 2, 3]),
    change(51, CLICKS, isr=[2]),
    change(52.5, ORDERS, 1, leader=3, isr=[1, 3]),
    change(52.5, ORDERS, isr=[1, 3]),
    change(52.5, CLICKS, leader=-1),
    broker(52.5, 2, 1),
    broker(56.5, 2, -1),
    change(57, CLICKS, leader=2),
    change(57.5, CLICKS, isr=[2, 3]),
    change(57.5, ORDERS, isr=[1, 2, 3]),
    change(57.5, ORDERS, 1, isr=[1, 2, 3]),
    record(61, "REMOVE_TOPIC_RECORD", topicId=CLICKS),
    *topic(65, "clicks", AGAIN, [3, 2]),
    change(131, ORDERS, isr=[1, 2]),
    record(200, "NO_OP_RECORD"),
]
CUT_OFF = [
    Entry("isolate", "isolate 1", (1,), second(12.5), second(12.6), None),
    Entry("rejoin", "rejoin 1", (1,), second(24.4), second(24.5), None),
]
NUMBERS = range(80)


def sent(n: int) -> datetime:
    return second(10) + n * STEP


def shown(
    truth: Truth, at: datetime
) -> tuple[dict[int, str | None], dict[str, tuple[str, list[dict[str, Any]]]]]:
    """The brokers, and the topics with ids and partitions, that an answer shows."""
    live = {
        b: None
        for b, states in truth.brokers.items()
        if (state := at_time(states, at)) and state.is_alive
    }
    topics: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for key, states in sorted(truth.partitions.items()):
        state, ended_at = at_time(states, at), truth.ends_at(key)
        if state is None or (ended_at is not None and ended_at <= at):
            continue
        of_topic = topics.setdefault(state.topic, (state.topic_id, []))[1]
        of_topic.append(
            {
                "error_code": 0, "leader": state.leader, "leader_epoch": state.leader_epoch,
                "replicas": list(state.replicas), "isr": list(state.isr),
                "offline_replicas": [b for b in state.replicas if b not in live],
            }
        )  # fmt: skip
    return live, topics


def answer(truth: Truth, n: int) -> Answer:
    """Of a broker that is never behind."""
    brokers, topics = shown(truth, sent(n))
    told = good_answer(
        "20261121T080000Z-00000000", n, sent(n), brokers, {}, batch=n // 5, broker_id=3
    )
    told.received_at, told.interval_ms = sent(n) + LATENCY, STEP // timedelta(milliseconds=1)
    told.topics = {
        name: {
            "topic_id": topic_id,
            "error_code": 0,
            "is_internal": False,
            "partitions": partitions,
        }
        for name, (topic_id, partitions) in topics.items()
    }
    told.enriched = {"configs": "ok"}
    told.enrichments = {
        "configs": {(name,): (2 if name == "orders" else 1, False) for name in ("orders", "clicks")}
    }
    # Broker 1 is asked at 14 (it knows all still), at 18, when it was behind for a second, at 22,
    # and when it is back.
    if n in (2, 4, 6, 11):
        behind = n in (4, 6)
        told.witnesses = [
            {
                "broker_id": 1, "broker": "host1:9092", "sent_at": sent(n) + LATENCY,
                "received_at": sent(n) + 2 * LATENCY, "error_kind": None, "is_behind": behind,
                "behind_ms": 1000 if behind else None, "partitions_behind": 2 if behind else None,
                "epochs_behind": 1 if behind else None,
            }
        ]  # fmt: skip
    return told


@dataclass
class History:
    """Rows that the folds make of polls."""

    settings: list[Setting]
    episodes: list[Episode]
    incidents: list[Incident]
    balance: list[Led]
    stale: list[Stale]
    seen: list[Seen]
    leaders: list[LeaderChange]
    isrs: list[IsrChange]
    ends: list[TopicEnd]


def made(truth: Truth) -> History:
    lake, answers = Lake("prod"), [answer(truth, n) for n in NUMBERS]
    lake.take(bronze_rows("prod", answers), [each.poll_id for each in answers], "id-prod")
    rows = {table: list(of_table.values()) for table, of_table in lake.tables.items()}
    states = {
        table.full_name: rows[table.full_name]
        for table in silver.SNAPSHOTS
        if table.full_name in rows
    }
    news = GoldInput.of(states, None, lake.polls[-1].id, lake.polls[-1].at)
    for fold in (isr_shrink.fold, leaders.fold):
        rows |= {
            table: list(each) for table, each in fold(None, {}, news, Thresholds()).rows.items()
        }

    def of(table: str, kind: Any) -> list[Any]:
        return [
            kind(
                **{
                    name: tuple(row[name]) if isinstance(row[name], list) else row[name]
                    for name in kind.__slots__
                }
            )
            for row in sorted(rows[table], key=lambda row: row.get("poll", row.get("first_poll")))
        ]

    return History(
        of(silver.TOPIC_CONFIGS.full_name, Setting),
        of(gold.ISR_EPISODES.full_name, Episode),
        of(gold.BROKER_INCIDENTS.full_name, Incident),
        of(gold.LEADER_BALANCE.full_name, Led),
        of(gold.STALE_BROKERS.full_name, Stale),
        of(silver.PARTITION_SNAPSHOTS.full_name, Seen),
        of(gold.LEADER_CHANGES.full_name, LeaderChange),
        [row for row in of(gold.ISR_CHANGES.full_name, IsrChange) if row.change != "initially_out"],
        [row for row in of(silver.TOPIC_SNAPSHOTS.full_name, TopicEnd) if row.end_reason],
    )


TRUTH = truth_of(LOG)
WATCH = Watch.over(
    [
        Poll(
            f"20261121T080000Z-00000000/{n:012d}",
            sent(n),
            sent(n) + LATENCY,
            3,
            STEP,
            accepted=True,
            left_out=None,
        )
        for n in NUMBERS
    ],
    tolerance(STEP),
)
ASKED = [Heard(1, sent(n) + LATENCY, sent(n) + 2 * LATENCY) for n in (2, 4, 6, 11)]


@pytest.fixture(scope="module")
def history() -> History:
    return made(TRUTH)


def scores(history: History, asked: Iterable[Heard] = ASKED) -> dict[str, SpellScore]:
    return {
        "episodes": compare_episodes(history.episodes, history.settings, WATCH, TRUTH),
        "incidents": compare_incidents(history.incidents, history.settings, WATCH, TRUTH),
        "balance": compare_balance(history.balance, WATCH, TRUTH),
        "stale": compare_stale(history.stale, asked, CUT_OFF, WATCH, TRUTH),
    }


def events(history: History) -> dict[str, EventScore | SpellScore]:
    by_silver = leader_changes(history.seen, WATCH, shrinks_raise=False)
    of_leaders = compare_leader_changes(history.leaders, history.seen, WATCH, TRUTH)
    compare_counts(history.leaders, by_silver, of_leaders)
    look_ahead = timedelta(seconds=15)
    return {
        "leaders": of_leaders,
        "isrs": compare_isr_changes(history.isrs, WATCH, TRUTH, look_ahead=look_ahead),
        "topics": compare_topics(history.ends, WATCH, TRUTH),
    }


def kinds(score: SpellScore) -> set[str]:
    return {fault.split(":")[0] for fault in score.faults}


def spoilt(rows: list[Any], index: int, change: Callable[[Any], dict[str, Any]]) -> list[Any]:
    return [replace(row, **change(row)) if n == index else row for n, row in enumerate(rows)]


def find(rows: list[Any], **such: Any) -> int:
    """The first row that is such."""
    return next(
        n
        for n, row in enumerate(rows)
        if all(getattr(row, name) == value for name, value in such.items())
    )


def test_the_folds_agree_with_the_truth(history: History) -> None:
    for score in scores(history).values():
        assert score.faults == []
        assert score.rows
        assert score.claims
    assert {row.level for row in history.episodes} == {"under_replicated", "at_min_isr", "offline"}
    assert [(row.broker_id, row.partitions, row.worst_level) for row in history.incidents] == [
        (1, 2, "at_min_isr"), (3, 2, "offline"), (2, 2, "at_min_isr"), (3, 1, "at_min_isr"),
    ]  # fmt: skip
    assert [(row.broker_id, row.epochs_behind, row.end_reason) for row in history.stale] == [
        (1, 1, "caught_up")
    ]


def test_levels_of_min_isr_are_wanted_where_it_was_known(history: History) -> None:
    """An incident of which the enrichment told no min ISR is under-replicated at worst, as far as
    anybody could see.
    """
    row = next(row for row in history.incidents if row.worst_level == "at_min_isr")
    seen = [
        replace(row, worst_level="under_replicated") if each is row else each
        for each in history.incidents
    ]
    assert kinds(compare_incidents(seen, history.settings, WATCH, TRUTH)) == {"misjudged"}
    assert compare_incidents(seen, [], WATCH, TRUTH).faults == []


EPISODES = [
    ({"level": "under_replicated"}, lambda _: {"level": "offline"}, {"wrong", "missed"}),
    ({"level": "under_replicated"}, lambda _: {"partition": 7}, {"wrong", "missed"}),
    ({"level": "under_replicated"}, lambda row: {"began_after": row.began_before}, {"outside"}),
    ({"level": "under_replicated"}, lambda row: {"ended_before": row.ended_after}, {"outside"}),
    ({"level": "under_replicated"}, lambda _: {"ended_poll": None}, {"wrong"}),
    ({"level": "under_replicated"}, lambda row: {"ended_poll": row.poll}, {"missed"}),
    ({"level": "under_replicated"}, lambda _: {"brokers_out": (3,)}, {"misjudged"}),
    ({"level": "under_replicated"}, lambda _: {"brokers_out": (1, 2)}, {"misjudged"}),
    ({"level": "under_replicated"}, lambda _: {"smallest_isr": 1}, {"misjudged"}),
    ({"level": "under_replicated"}, lambda _: {"smallest_isr": 3}, {"misjudged"}),
    ({"level": "at_min_isr"}, lambda _: {"min_isr": 3}, {"misjudged"}),
    ({"level": "under_replicated"}, lambda _: {"end_reason": "gone"}, {"misjudged"}),
    ({"level": "at_min_isr"}, lambda _: {"end_reason": "unknown"}, {"misjudged"}),
]


@pytest.mark.parametrize(("such", "change", "kind"), EPISODES)
def test_a_wrong_episode_is_found(
    history: History, such: dict[str, Any], change: Callable[[Any], dict[str, Any]], kind: set[str]
) -> None:
    rows = spoilt(history.episodes, find(history.episodes, **such), change)
    assert kind <= kinds(scores(replace(history, episodes=rows))["episodes"])


def test_an_episode_that_is_not_there_is_missed(history: History) -> None:
    for n in range(len(history.episodes)):
        rows = history.episodes[:n] + history.episodes[n + 1 :]
        assert "missed" in kinds(scores(replace(history, episodes=rows))["episodes"])


def test_a_min_isr_that_the_topic_does_not_ask_for_is_found(history: History) -> None:
    rows = spoilt(
        history.settings,
        find(history.settings, topic="orders"),
        lambda _: {"min_insync_replicas": 1},
    )
    assert kinds(scores(replace(history, settings=rows))["episodes"]) == {"wrong"}


INCIDENTS = [
    (0, lambda _: {"broker_id": 2}, {"missed", "outside"}),
    (0, lambda row: {"began_after": row.began_before}, {"outside"}),
    (0, lambda row: {"ended_after": row.ended_before + STEP}, {"outside"}),
    (2, lambda _: {"ended_poll": None}, {"wrong"}),
    (0, lambda _: {"partitions": 1}, {"misjudged"}),
    (0, lambda _: {"partitions": 3}, {"misjudged"}),
    (0, lambda _: {"partitions_out": 1}, {"misjudged"}),
    (1, lambda _: {"worst_level": "at_min_isr"}, {"misjudged"}),
    (0, lambda _: {"worst_level": "offline"}, {"misjudged"}),
    (3, lambda row: {"began_before": row.began_before - timedelta(seconds=20)}, {"misjudged"}),
]


@pytest.mark.parametrize(("index", "change", "kind"), INCIDENTS)
def test_a_wrong_incident_is_found(
    history: History, index: int, change: Callable[[Any], dict[str, Any]], kind: set[str]
) -> None:
    rows = spoilt(history.incidents, index, change)
    assert kind <= kinds(scores(replace(history, incidents=rows))["incidents"])


def test_an_incident_that_is_not_there_is_missed(history: History) -> None:
    for n in range(len(history.incidents)):
        rows = history.incidents[:n] + history.incidents[n + 1 :]
        assert "missed" in kinds(scores(replace(history, incidents=rows))["incidents"])


@pytest.mark.parametrize("name", ["leads", "preferred_for", "led_elsewhere"])
def test_a_wrong_balance_is_found(history: History, name: str) -> None:
    for n in range(len(history.balance)):
        rows = spoilt(history.balance, n, lambda row: {name: getattr(row, name) + 1})
        assert kinds(scores(replace(history, balance=rows))["balance"]) == {"wrong"}


def test_a_balance_that_is_not_there_is_found(history: History) -> None:
    for n in range(len(history.balance)):
        rows = history.balance[:n] + history.balance[n + 1 :]
        assert kinds(scores(replace(history, balance=rows))["balance"])


STALE = [
    (lambda _: {"broker_id": 2}, {"wrong", "missed"}),
    (
        lambda _: {"began_before": second(16)},
        {"wrong"},
    ),  # it was cut off, and there was nothing to know
    (lambda _: {"began_after": second(20)}, {"outside"}),
    (lambda _: {"ended_before": second(20)}, {"outside"}),
    (lambda _: {"ended_after": second(60), "ended_before": second(62)}, {"outside"}),
    (lambda _: {"partitions_behind": 4}, {"misjudged"}),
    (lambda _: {"epochs_behind": 9}, {"misjudged"}),
]


@pytest.mark.parametrize(("change", "kind"), STALE)
def test_a_wrong_stale_broker_is_found(
    history: History, change: Callable[[Any], dict[str, Any]], kind: set[str]
) -> None:
    rows = spoilt(history.stale, 0, change)
    assert kind == kinds(scores(replace(history, stale=rows))["stale"])


def test_what_a_broker_lacks_is_told_by_what_is_still_the_same() -> None:
    views = Views(TRUTH)
    (cut,) = cuts(CUT_OFF, views)
    (known,) = views.during(second(18), second(18))
    assert cut.surely_lacks(known, views.during(second(18), second(20)))
    assert not cut.surely_lacks(known, views.during(second(18), second(26)))


def test_a_stale_broker_is_missed_where_one_was_asked_that_had_to_show_it(history: History) -> None:
    nobody = replace(history, stale=[])
    assert kinds(scores(nobody)["stale"]) == {"missed"}
    assert scores(nobody, [ASKED[0], ASKED[3]])["stale"].faults == []


def test_events_of_the_folds_agree(history: History) -> None:
    found = events(history)
    assert {name: score.faults for name, score in found.items()} == {
        "leaders": [],
        "isrs": [],
        "topics": [],
    }
    assert {row.reason for row in history.leaders} >= {"failover", "preferred", "offline"}
    assert {row.cause for row in history.isrs if row.change == "left"} >= {"broker_down", "lagging"}
    assert [row.end_reason for row in history.ends] == ["gone"]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("leaders", {"reason": "unknown"}),
        ("leaders", {"unclean": None}),
        ("leaders", {"epoch_semantics": "upper_bound"}),
        ("leaders", {"changes_max": 9}),
        ("isrs", {"cause": None}),
        ("isrs", {"broker_id": 9}),
        ("ends", {"end_reason": "recreated"}),
    ],
)
def test_each_event_that_is_spoilt_is_found(
    history: History, field: str, change: dict[str, Any]
) -> None:
    first, *others = getattr(history, field)
    bad = replace(history, **{field: [replace(first, **change), *others]})
    assert any(score.faults for score in events(bad).values())

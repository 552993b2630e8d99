"""Seconds that nobody observed are in no least, and in `not_observed_s`: each query that counts
seconds, in DuckDB. That Spark answers the same is in tests/spark/test_questions.py.

Clusters were polled from 0 s on; polls failed from 100 s to 200 s, and the last one was answered at
305 s.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import names, text_of
from schemas import consumption, gold, groups, internal, silver, views
from schemas.table import Table
from tests.support import duckdb_lake
from tests.support.duckdb_lake import asking
from tests.support.examples import examples
from tests.support.incident import CLUSTER, NOON

Row = dict[str, Any]
Ask = Callable[..., list[Row]]
Bounds = tuple[int | None, int, int | None, int | None]
"""Seconds: it began after, had begun by, ended after, had ended by."""

LAST, ASKED = 305, 814
THINGS: Mapping[str, Bounds] = {
    "closed": (5, 10, 30, 35),
    "lasts": (40, 50, None, None),
    "ended in the gap": (55, 60, 100, 200),
    "over the gap": (80, 90, 210, 220),
}
BY_POLLS = {
    # at least, at most, of which nobody observed
    "closed": (20, 30, 0),
    "lasts": (155, 774, 609),
    "ended in the gap": (40, 145, 100),
    "over the gap": (20, 140, 100),
}
BY_LOG = {
    "closed": (20, 30, 0),
    "lasts": (255, 774, 509),
    "ended in the gap": (40, 145, 0),
    "over the gap": (120, 140, 0),
}
"""A log that is read later has what happened meanwhile."""
NUMBER = {thing: number for number, thing in enumerate(THINGS, 1)}


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def began(thing: str) -> Row:
    after, before, *_ = THINGS[thing]
    return CLUSTER | {
        "id": thing,
        "began_after": at(after),
        "began_before": at(before),
        "updated_at": NOON,
    }


def lasted(thing: str) -> Row:
    _, _, after, before = THINGS[thing]
    return began(thing) | {
        "ended_after": at(after),
        "ended_before": at(before),
        "is_live": before is None,
    }


def state_of(thing: str, **more: Any) -> Row:
    """A row of silver."""
    after, first, last, over = THINGS[thing]
    times = {
        "prev_sent_at": at(after),
        "valid_from": at(first),
        "last_seen_sent_at": at(last),
        "valid_to": at(over),
    }
    ends = (
        {}
        if over is None
        else {"last_poll": poll(last), "last_seen_at": at(last), "superseded_poll": poll(over)}
    )
    return CLUSTER | {"first_poll": poll(first)} | times | ends | more


def poll(seconds: float | None) -> str:
    return f"20261101T110000Z-00000000/{seconds:012}"


def state(history: str, done: int, **more: Any) -> Row:
    told = {
        "history": history,
        "round": 1,
        "done_poll": poll(done),
        "done_at": at(done),
        "memory": "{}",
    }
    return CLUSTER | told | more


def observed(gaps: list[tuple[int, int]], last: int) -> dict[Table, list[Row]]:
    """What says when a cluster was observed, from 0 s on."""
    histories = ("isr_shrink", "leader_churn", "rebalance_history", "group_lag", "cluster_log")
    seen = {"last_seen_at": at(last)}
    began = {"first_poll": poll(0), "valid_from": at(0), "kind": "kafka", "not_meaningful": []}
    return {
        internal.STATE: [
            state("silver", last, changed_poll=poll(0), **seen),
            *(state(history, last, **seen) for history in histories),
        ],
        silver.CLUSTER_SNAPSHOTS: [CLUSTER | began],
        silver.HISTORY_SOURCES: [
            CLUSTER | {"source": "polls", "first_poll": poll(0), "valid_from": at(0)}
        ],
        silver.POLL_GAPS: [
            CLUSTER | {"gap_start": at(begin), "gap_end": at(end)} for begin, end in gaps
        ],
    }


def ms(begin: int, end: int) -> int:
    return 1000 * (end - begin)


def recovered(thing: str) -> Row:
    """The change with which a time without a leader ended."""
    after, before, ended_after, ended_before = THINGS[thing]
    assert None not in (after, ended_after, ended_before)
    bounds = {"began_after": at(ended_after), "began_before": at(ended_before)}
    leaderless = {
        "leaderless_ms_min": ms(before, ended_after),
        "leaderless_ms_max": ms(after, ended_before),
    }  # type: ignore[arg-type]
    changed = {
        "prev_leader": -1,
        "leader": 1,
        "changes_min": 1,
        "changes_max": 1,
        "reason": "recovery",
    }
    return CLUSTER | {"id": thing, "topic": thing, "partition": 0} | bounds | leaderless | changed


def rebalance(thing: str, source: str) -> Row:
    told = {
        "id": f"{thing}, by {source}",
        "group_id": f"{thing}, by {source}",
        "group_type": "consumer",
        "members": 1,
    }
    is_over = {} if THINGS[thing][3] is None else {"end_reason": "completed"}
    return lasted(thing) | told | is_over | {"source": source, "reasons": ["member_left"]}


def life(thing: str, source: str) -> Row:
    times = {"valid_from": at(0), "known_since": at(0), "group_type": "consumer"}
    return CLUSTER | {"group_id": f"{thing}, by {source}", "source": source} | times


def cost(group: str, began_before: int, **more: Any) -> Row:
    times = {"began_before": at(began_before), "ended_before": at(began_before)}
    return (
        CLUSTER
        | {"rebalance_id": group, "group_id": group, "topic": "orders", "partition": 0}
        | times
        | more
    )


def lag(seconds: int, behind: int, **more: Any) -> Row:
    counts = {
        "partitions": 1,
        "partitions_behind": behind,
        "partitions_beyond": 0,
        "partitions_unknown": 0,
        "lag_min": behind,
        "lag_max": behind,
    }
    return (
        CLUSTER
        | {"group_id": "lasts", "first_poll": poll(seconds), "valid_from": at(seconds)}
        | counts
        | more
    )


def happened() -> dict[Table, list[Row]]:
    replicas = {"replicas": [1, 2], "isr": [1], "partition": 0}
    fenced = {"is_fenced": True, "in_controlled_shutdown": False}
    told = [(thing, source) for thing in THINGS for source in ("polls", "log")]
    return {
        gold.ISR_EPISODES: [
            lasted(thing)
            | {
                "topic": thing,
                "partition": 0,
                "level": "under_replicated",
                "brokers_out": [2],
                "smallest_isr": 1,
            }
            for thing in THINGS
        ],
        silver.PARTITION_SNAPSHOTS: [state_of(thing, topic=thing, **replicas) for thing in THINGS],
        gold.BROKER_INCIDENTS: [
            lasted(thing)
            | {
                "broker_id": number,
                "partitions": 1,
                "worst_level": "under_replicated",
                "causes": [],
            }
            for thing, number in NUMBER.items()
        ],
        gold.ISR_CHANGES: [
            lasted(thing)
            | {"broker_id": number, "change": "left", "topic": thing, "replicas": [number]}
            for thing, number in NUMBER.items()
        ],
        gold.STALE_BROKERS: [
            lasted(thing) | {"broker_id": number} for thing, number in NUMBER.items()
        ],
        silver.BROKER_REGISTRATIONS: [
            state_of(thing, broker_id=number, **fenced) for thing, number in NUMBER.items()
        ],
        gold.LEADER_CHANGES: [recovered(thing) for thing in THINGS if thing != "lasts"],
        gold.LEADER_BALANCE: [
            CLUSTER
            | {
                "broker_id": number,
                "poll": poll(first),
                "valid_from": at(first),
                "valid_to": at(over),
            }
            | {"led_elsewhere": 1, "preferred_for": 1, "imbalance": 1.0}
            for thing, number in NUMBER.items()
            for _, first, _, over in [THINGS[thing]]
        ],
        groups.REBALANCES: [rebalance(thing, source) for thing, source in told],
        groups.GROUP_LIVES: [life(thing, source) for thing, source in told],
        silver.GROUP_SNAPSHOTS: [
            state_of(
                "lasts",
                group_id="of a polled state",
                state="PreparingRebalance",
                group_type="classic",
            )
        ],
        consumption.GROUP_LAG: [lag(0, 0, valid_to=at(50), last_seen_at=at(40)), lag(50, 7)],
        consumption.REBALANCE_COST: [
            cost(
                "awaits a commit",
                50,
                awaits_after={"committed": 1, "at": at(45), "there_before": None},
            ),
            cost(
                "lag is back",
                90,
                lag_before=1,
                lag_back_after=at(210),
                lag_back_before=at(220),
                close_reason="recovered",
            ),
            cost(
                "never told",
                60,
                awaits_after={"committed": 1, "at": at(55), "there_before": None},
                close_reason="removed",
            ),
        ],
    }


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking(observed([(100, 200)], LAST) | happened()) as asked:
        yield lambda name, **more: asked(text_of(name), window(ASKED) | more)


def window(until: int) -> Row:
    nothing = dict.fromkeys(("cluster", "topic", "broker", "group", "at_least"))
    return nothing | {"since": str(at(0)), "until": str(at(until))}


def seconds(row: Row) -> tuple[Any, ...]:
    """At least, at most, not observed."""
    for least, most, scale in (
        ("seconds_min", "seconds_max", 1),
        ("leaderless_s_min", "leaderless_s_max", 1),
        ("duration_ms_min", "duration_ms_max", 1000),
        ("shortest_ms_min", "longest_ms_max", 1000),
    ):
        if least in row:
            ends = (
                None if row[name] is None else float(row[name]) / scale for name in (least, most)
            )
            return *ends, row["not_observed_s"]
    return (row["not_observed_s"],)


def by(ask: Ask, name: str, of: str, **more: object) -> dict[Any, tuple[Any, ...]]:
    return {row[of]: seconds(row) for row in ask(name, **more)}


OF_BROKERS = {NUMBER[thing]: expected for thing, expected in BY_POLLS.items()}


def test_time_at_level(ask: Ask) -> None:
    assert by(ask, "time_at_level", "topic") == BY_POLLS


def test_time_at_level_in_a_window(ask: Ask) -> None:
    """Within the gap; of what lies before it; and before anybody polled."""
    assert by(ask, "time_at_level", "topic", until=str(at(150))) == {
        "closed": (20, 30, 0),
        "lasts": (50, 110, 50),
        "ended in the gap": (40, 95, 50),
        "over the gap": (10, 70, 50),
    }
    assert by(ask, "time_at_level", "topic", since=str(at(400)), topic="lasts") == {
        "lasts": (0, 414, 414)
    }


def test_what_began_before_the_first_poll_was_not_observed_before_it() -> None:
    rows = observed([], LAST)
    rows[gold.ISR_EPISODES] = [
        lasted("closed")
        | {
            "began_after": None,
            "began_before": at(0),
            "topic": "t",
            "partition": 0,
            "level": "offline",
        }
    ]
    told = window(ASKED) | {"since": str(at(-60))}
    assert [seconds(row) for row in narrow(rows, text_of("time_at_level"), told)] == [(30, 95, 60)]
    # Retention has dropped the beginning: nobody knows when that was.
    rows[internal.STATE].append(
        state("retention of silver", 5) | {"cluster_id": None, "cluster": ""}
    )
    assert [seconds(row) for row in narrow(rows, text_of("time_at_level"), told)] == [(30, 95, 0)]


def test_one_failure_from_offline(ask: Ask) -> None:
    assert by(ask, "one_failure_from_offline", "topic") == BY_POLLS
    assert by(ask, "one_failure_from_offline", "topic", until=str(at(150)))["lasts"] == (
        50,
        110,
        50,
    )


@pytest.mark.parametrize("name", ["broker_incidents", "repeat_offenders", "stale_brokers"])
def test_brokers(ask: Ask, name: str) -> None:
    assert by(ask, name, "broker_id") == OF_BROKERS
    assert by(ask, name, "broker_id", until=str(at(150)))[NUMBER["lasts"]] == (50, 110, 50)


def test_who_left_first(ask: Ask) -> None:
    # A broker that is still out has no longest time.
    lasts, least_and_not_observed = NUMBER["lasts"], (155, None, 609)
    assert {
        broker: (least, unseen)
        for broker, (least, _, unseen) in by(ask, "who_left_first", "broker_id").items()
    } == {broker: (least, unseen) for broker, (least, _, unseen) in OF_BROKERS.items()}
    assert by(ask, "who_left_first", "broker_id")[lasts] == least_and_not_observed


def test_broker_states(ask: Ask) -> None:
    assert by(ask, "broker_states", "broker_id") == {
        NUMBER[thing]: expected for thing, expected in BY_LOG.items()
    }


def test_leader_churn(ask: Ask) -> None:
    assert by(ask, "leader_churn", "topic") == {
        thing: own for thing, own in BY_POLLS.items() if thing != "lasts"
    }


def test_away_from_preferred(ask: Ask) -> None:
    assert by(ask, "away_from_preferred", "broker_id") == {
        NUMBER["closed"]: (0,),
        NUMBER["lasts"]: (609,),
        NUMBER["ended in the gap"]: (100,),
        NUMBER["over the gap"]: (100,),
    }


OF_GROUPS = {
    **{f"{thing}, by polls": expected for thing, expected in BY_POLLS.items()},
    **{f"{thing}, by log": expected for thing, expected in BY_LOG.items()},
}


def test_rebalances(ask: Ask) -> None:
    assert by(ask, "rebalances", "group_id") == OF_GROUPS


def test_group_stability(ask: Ask) -> None:
    assert by(ask, "group_stability", "group_id") == OF_GROUPS
    shares = {
        row["group_id"]: (row["per_hour"], row["percent_min"], row["percent_max"])
        for row in ask("group_stability")
    }
    # Of 305 s, and by polls of the 205 s that somebody observed of them.
    assert shares["over the gap, by log"] == pytest.approx(
        (3600 / 305, 100 * 120 / 305, 100 * 140 / 305)
    )
    assert shares["over the gap, by polls"] == pytest.approx(
        (3600 / 205, 100 * 20 / 205, 100 * 40 / 205)
    )
    assert shares["lasts, by log"] == pytest.approx((3600 / 305, 100 * 255 / 305, 100 * 265 / 305))
    late = {row["group_id"]: row for row in ask("group_stability", since=str(at(400)))}[
        "lasts, by log"
    ]
    assert (late["per_hour"], late["percent_min"], late["percent_max"]) == (None, None, None), (
        "nobody observed any of it"
    )


def test_stuck_groups(ask: Ask) -> None:
    assert by(ask, "stuck_groups", "group_id") == {
        "lasts, by log": (255, 774, 509),
        "lasts, by polls": (155, 774, 609),
        "of a polled state": (155, 774, 609),
    }
    by_time = [row["group_id"] for row in ask("stuck_groups", at_least=155)]
    assert by_time == ["lasts, by log", "lasts, by polls", "of a polled state"], "the longest first"
    assert [row["group_id"] for row in ask("stuck_groups", at_least=156)] == ["lasts, by log"]


def test_lag(ask: Ask) -> None:
    assert by(ask, "lag", "group_id") == {"lasts": (155, 774, 609)}
    assert len(ask("lag", at_least=155)) == 1
    assert ask("lag", at_least=156) == []


def test_slowest_to_recover(ask: Ask) -> None:
    assert by(ask, "slowest_to_recover", "group_id") == {
        "awaits a commit": (255, None, 509),
        "lag is back": (20, 130, 100),
        "never told": (0, None, 0),
    }


COUNT_NO_SECONDS = {
    "health": "the age of a poll",
    "lag_around": "when a change of lag was seen, counted from a rebalance",
    "rebalance_cost": "a pause lies between two commits of the coordinators' log",
}


def test_every_query_that_counts_seconds_is_here() -> None:
    seconds_or_more = re.compile(r"unix_micros|(seconds\w*|_m?s(_min|_max)?) *(,|$)", re.MULTILINE)
    counted = {name for name in names() if seconds_or_more.search(text_of(name))}
    assert {
        name for name in names() if "not_observed_s" in text_of(name)
    } == counted - COUNT_NO_SECONDS.keys()


# --- when it was observed ---


def narrow(rows: Mapping[Table, list[Row]], sql: str, parameters: Row) -> list[Row]:
    """The answer of a lake that has little more than silver.observed, which takes a tenth of the
    time.
    """
    with duckdb_lake.duckdb_lake(rows, (internal.STATE_NOW, views.OBSERVED)) as lake:
        return duckdb_lake.ask(lake, with_values(sql, parameters))


def gaps_of(
    rows: Mapping[Table, list[Row]], history: str
) -> list[tuple[float | None, float | None]]:
    def shown(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - NOON).total_seconds()

    (row,) = narrow(
        rows, "SELECT * FROM silver.observed WHERE history = :history", {"history": history}
    )
    found = [(shown(gap["gap_start"]), shown(gap["gap_end"])) for gap in row["gaps"]]
    return sorted(found, key=lambda gap: -1e9 if gap[0] is None else gap[0])


def told_by(*sources: tuple[str, int, int | None, int | None]) -> list[Row]:
    """source, from when, last seen, until when."""
    return [
        CLUSTER
        | {
            "source": source,
            "first_poll": poll(begin),
            "valid_from": at(begin),
            "interval_ms": 10_000,
        }
        | {"last_seen_at": at(last), "valid_to": at(end)}
        for source, begin, last, end in sources
    ]


@pytest.mark.parametrize(
    ("sources", "of_topics"),
    [
        ([("polls", 0, None, None)], [(None, 0), (100, 200), (305, None)]),
        # The log tells all the time that polls failed, or up to some time, or from some time on.
        ([("polls", 0, 50, 60), ("log", 60, None, None)], [(None, 0), (305, None)]),
        (
            [("polls", 0, 50, 60), ("log", 60, 150, 160), ("polls", 160, None, None)],
            [(None, 0), (150, 200), (305, None)],
        ),
        ([("polls", 0, 150, 160), ("log", 160, None, None)], [(None, 0), (100, 160), (305, None)]),
        # Twice: the gap is cut by both.
        (
            [
                ("log", 0, 120, 130),
                ("polls", 130, 170, 180),
                ("log", 180, 250, 260),
                ("polls", 260, None, None),
            ],
            [(None, 0), (120, 180), (305, None)],
        ),
        # Polls took over long after the log fell silent: what they asked meanwhile was not topics.
        ([("log", 0, 220, 260), ("polls", 260, None, None)], [(None, 0), (220, 260), (305, None)]),
        ([("log", 0, 150, 260), ("polls", 260, None, None)], [(None, 0), (150, 260), (305, None)]),
    ],
)
def test_the_controllers_log_tells_of_topics_what_polls_missed(
    sources: list[tuple[str, int, int | None, int | None]],
    of_topics: list[tuple[float | None, float | None]],
) -> None:
    rows = observed([(100, 200)], LAST) | {silver.HISTORY_SOURCES: told_by(*sources)}
    assert gaps_of(rows, "isr_shrink") == of_topics
    assert gaps_of(rows, "polls") == [(None, 0), (100, 200), (305, None)], (
        "brokers are listed by polls alone"
    )
    assert gaps_of(rows, "cluster_log") == gaps_of(rows, "group_log") == [(305, None)]


@pytest.mark.parametrize(
    ("done", "changed", "end"),
    [(280, 270, 305), (280, 280, 305), (280, 290, 280), (150, 290, 150)],
)
def test_a_history_that_trails_has_observed_no_more_than_it_took(
    done: int, changed: int, end: int
) -> None:
    rows = observed([(100, 200)], LAST)
    seen = {"last_seen_at": at(LAST), "changed_poll": poll(changed)}
    rows[internal.STATE] = [state("silver", LAST, **seen), state("isr_shrink", done)]
    assert gaps_of(rows, "isr_shrink") == [(None, 0), (100, min(200, end)), (end, None)]


def test_rows_of_several_clusters_are_counted_by_the_gaps_of_their_own() -> None:
    one, other = observed([(100, 200)], LAST) | happened(), observed([], ASKED)
    alias = {"cluster": "other", "cluster_id": "id-other"}
    rows = {table: list(own) for table, own in one.items()}
    for table, own in (other | {gold.ISR_EPISODES: one[gold.ISR_EPISODES]}).items():
        rows[table] = [*rows[table], *(row | alias for row in own)]
    found = narrow(rows, text_of("time_at_level"), window(ASKED))
    assert {
        (row["cluster"], row["topic"]): seconds(row) for row in found if row["topic"] == "lasts"
    } == {
        ("prod", "lasts"): (155, 774, 609),
        ("other", "lasts"): (764, 774, 0),
    }


moments = st.integers(0, 60)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(moments, max_size=6, unique=True).map(sorted),
    moments,
    st.lists(st.tuples(*[moments] * 4).map(sorted), min_size=1, max_size=3),
    st.booleans(),
    st.tuples(moments, moments).map(sorted),
)
def test_each_second_is_counted_once(
    ends: list[int], last: int, bounds: list[list[int]], is_open: bool, asked_of: list[int]
) -> None:
    """As a plain count of seconds has it; the least and what nobody observed are no more than the
    most.
    """
    gaps = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=False) if end <= last]
    unobserved = {second for begin, end in gaps for second in range(begin, end)} | set(
        range(last, 100)
    )
    since, until = asked_of
    rows, least, most, unseen, count = observed(gaps, last), 0, 0, 0, 0
    rows[gold.ISR_EPISODES] = []
    for number, (after, before, ended_after, ended_before) in enumerate(bounds):
        lasts = is_open and number == 0
        times = {"began_after": at(after), "began_before": at(before)}
        if not lasts:
            times |= {"ended_after": at(ended_after), "ended_before": at(ended_before)}
        rows[gold.ISR_EPISODES].append(
            CLUSTER
            | times
            | {"id": str(number), "topic": "t", "partition": number, "level": "offline"}
        )
        if before > until or (not lasts and ended_before < since):
            continue
        surely = {*range(max(before, since), min(until if lasts else ended_after, until))}
        maybe = {*range(max(after, since), min(until if lasts else ended_before, until))}
        count += 1
        least, most, unseen = (
            least + len(surely - unobserved),
            most + len(maybe),
            unseen + len(maybe & unobserved),
        )
    found = narrow(rows, text_of("time_at_level"), window(until) | {"since": str(at(since))})
    assert [seconds(row) for row in found] == ([(least, most, unseen)] if count else [])
    assert least + unseen <= most

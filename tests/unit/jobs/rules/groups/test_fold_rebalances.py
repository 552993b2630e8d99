"""The groups of a part: each has its own news, in order, and what its partitions lost."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.configuration.config import Thresholds
from jobs.rules.groups.fold_rebalances import GroupTake, fold, forgets_before
from jobs.rules.groups.group import Group
from schemas import groups
from schemas.bronze import GROUP_LOG
from schemas.internal import GROUP_STATES
from schemas.silver import GROUP_SNAPSHOTS
from schemas.table import Table
from tests.support import group_states
from tests.support.group_records import Log, at, classic, classic_member
from tests.support.group_rounds import Rounds

Row = dict[str, Any]
NEVER = datetime.min.replace(tzinfo=UTC)
UPDATED = at(1_000)
CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}
STABLE = group_states.classic("Stable", group_states.member("a", {"t": [0]}))

OTHER = group_states.classic("Stable", group_states.member("a", {"t": [1]}))
STATES = (3, STABLE), (5, OTHER), (8, group_states.GONE)


def table(rows: Sequence[Row]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def placed(rows: list[Row], era: int = 0) -> list[Row]:
    """Rows of the log with their place, as the job adds it."""
    return [
        {"group_id": None, "classic": None, "timestamp": None}
        | row
        | {"era": era, "place": row["offset"], "is_record": row["record"] == "record"}
        for row in rows
    ]


def folded(
    records: list[Row],
    live: dict[str, list[Row]] | None = None,
    *,
    seen: Sequence[Row] = (),
    forgets: Callable[[Iterable[datetime]], datetime] = lambda _: NEVER,
    ends: dict[int, tuple[int, int]] | None = None,
    cluster: str = "prod",
    **of_take: Any,
) -> dict[str, list[Row]]:
    given = {GROUP_LOG.full_name: records, GROUP_SNAPSHOTS.full_name: seen}
    return dict(
        fold(
            f"{cluster}/3",
            {name: table(rows) for name, rows in given.items() if rows},
            {name: table(rows) for name, rows in (live or {}).items() if rows},
            clusters={cluster: GroupTake("id-prod", **of_take)},
            ends={cluster: ends or {}},
            limits=Thresholds(),
            at=UPDATED,
            forgets=forgets,
        )
    )


def of_one(group_id: str, rows: list[Row], **more: Any) -> Rounds:
    """The group alone."""
    rounds = Rounds(group=Group("id-prod", "prod", group_id))
    rounds.take(rows, **more)
    return rounds


def made_of(group_id: str, log_partition: int = 7, offset: int = 100) -> Log:
    log = Log(group_id, log_partition, next_offset=offset)
    a = classic_member("a", has={"t": [0]})
    return log.batch(1, classic(1, [a])).batch(9, classic(2))


def of(made: dict[str, list[Row]], group_id: str, *tables: Table) -> dict[str, list[Row]]:
    return {
        each.full_name: sorted(
            (
                {name: row[name] for name in row.keys() - {"updated_at"}}
                for row in made[each.full_name]
                if row["group_id"] == group_id
            ),
            key=lambda row: [str(row[name]) for name in each.key],
        )
        for each in tables or groups.TABLES
    }


def rows_of(rounds: Rounds) -> dict[str, list[Row]]:
    return {table.full_name: rounds.of(table) for table in groups.TABLES}


def alone(rounds: Rounds) -> dict[str, list[Row]]:
    return of(rows_of(rounds), rounds.group.group_id)


def memories(made: dict[str, list[Row]]) -> dict[str, str | None]:
    rows = made[GROUP_STATES.full_name]
    assert all({name: row[name] for name in CLUSTER} == CLUSTER for row in rows)
    return {row["group_id"]: row["memory"] for row in rows}


@given(st.randoms(use_true_random=False))
def test_each_group_has_its_own_news_in_order(pick: random.Random) -> None:
    one, other = made_of("one"), made_of("other", offset=300)
    rows = placed([*one.rows, *other.rows])
    pick.shuffle(rows)
    made = folded(rows)
    for log in (one, other):
        expected = of_one(log.group_id, log.rows)
        assert of(made, log.group_id) == alone(expected)
        assert json.loads(memories(made)[log.group_id] or "") == json.loads(expected.memory or "")
    rebalances = made[groups.REBALANCES.full_name]
    assert {row["updated_at"] for row in rebalances} == {UPDATED}
    assert {row["cluster"] for row in rebalances} == {"prod"}


def test_an_alias_may_have_a_stroke() -> None:
    made = folded(placed(made_of("g").rows), cluster="eu/prod")
    assert {row["cluster"] for row in made[groups.REBALANCES.full_name]} == {"eu/prod"}


def test_what_was_read_before_a_truncation_comes_before_what_was_read_after() -> None:
    log = made_of("g")
    before = placed(log.rows)
    span = placed(Log().span("truncated", log.next_offset, 90, seconds=20).rows, era=20)
    again = made_of("g", offset=90)
    for row in (*span, *again.rows):
        row["place"] = 90
    rows = [*placed(again.rows, era=20), *span, *before]
    expected = of_one("g", [*log.rows, *span, *again.rows])
    assert of(folded(rows), "g", groups.REBALANCES) == of(rows_of(expected), "g", groups.REBALANCES)


@pytest.mark.parametrize("has_news", [True, False])
def test_records_are_lost_of_the_groups_of_their_partition(has_news: bool) -> None:
    """Whether or not there is other news of the group."""
    here, there = made_of("here"), made_of("there", log_partition=8)
    first = folded(placed([*here.rows, *there.rows]))
    live = {
        **first,
        GROUP_STATES.full_name: [
            {**CLUSTER, "group_id": group_id, "memory": memory}
            for group_id, memory in memories(first).items()
        ],
    }
    lost = Log().span("lost", here.next_offset, 150, seconds=20).rows
    news = made_of("there", log_partition=8, offset=200).rows if has_news else []
    made = folded(placed([*lost, *news]), live)
    events = [
        (row["group_id"], row["event"], row["offset"])
        for row in made[groups.GROUP_EVENTS.full_name]
        if row["event"] == "records_lost"
    ]
    assert events == [("here", "records_lost", here.next_offset)]
    assert memories(made).keys() == ({"here", "there"} if has_news else {"here"})


def test_a_gap_comes_between_the_records_that_it_lies_between() -> None:
    log = made_of("g")
    lost = Log().span("lost", 103, 150, seconds=20).rows
    after = Log("g", next_offset=150).batch(30, classic(9)).rows
    expected = of_one("g", [*log.rows, *lost, *after])
    assert [row["end_reason"] for row in expected.of(groups.REBALANCES)][-1] == "emptied"
    assert of(folded(placed([*after, *lost, *log.rows])), "g") == alone(expected)


@pytest.mark.parametrize(("read_to", "is_live"), [(103, True), (104, False)])
def test_rows_are_settled_once_the_log_was_read_beyond_their_batch(
    read_to: int, is_live: bool
) -> None:
    made = folded(placed(made_of("g").rows), ends={7: (0, read_to)})
    last = max(made[groups.REBALANCES.full_name], key=lambda row: row["began_before"])
    assert last["is_live"] == is_live


@pytest.mark.parametrize(
    ("since", "until", "rebalances", "gone"),
    [
        # Polls showed the group made at 3, another assignment at 5, and gone at 8.
        (None, 9, 3, True),
        (None, 8, 3, True),
        (None, 7, 2, False),
        (None, 4, 1, False),
        (3, 7, 1, False),
    ],
)
def test_states_are_as_of_the_last_poll_that_is_taken(
    since: int | None, until: int, rebalances: int, gone: bool
) -> None:
    seen = [row | {"group_id": "g"} for row in reversed(group_states.states(*STATES))]
    seen = [row for row in seen if row["first_poll"] <= group_states.poll(until)]
    for row in seen:
        del row["is_new"]
    take = {"since": since and group_states.poll(since), "until": group_states.poll(until)}
    made = folded([], seen=seen, **take)
    if since is None and gone:
        whole = of_one("g", [], states=group_states.states(*STATES))
        assert of(made, "g") == alone(whole)
    assert len(made[groups.REBALANCES.full_name]) == rebalances
    assert [row["valid_to"] is not None for row in made[groups.GROUP_LIVES.full_name]] == [gone]


def test_the_partition_that_keeps_a_group_is_of_its_id_where_their_number_is_known() -> None:
    seen = [row | {"group_id": "orders"} for row in group_states.states((3, STABLE))]
    until = {"until": group_states.poll(9)}
    for log_partitions, log_partition in ((50, 31), (None, None)):  # As Java says.
        made = folded([], seen=seen, log_partitions=log_partitions, **until)
        (row,) = made[groups.REBALANCES.full_name]
        assert (row["source"], row["log_partition"]) == ("polls", log_partition)


def test_a_group_that_is_gone_is_forgotten_and_its_rows_are_settled() -> None:
    log = made_of("gone").batch(30, (2, None, None))
    first = folded(placed([*log.rows, *made_of("there").rows]))
    live = {
        name: [row | ({"part": 3} if "part" in row else {}) for row in rows if row.get("is_live")]
        for name, rows in first.items()
    }
    live[GROUP_STATES.full_name] = first[GROUP_STATES.full_name]
    assert live[groups.GROUP_LIVES.full_name]
    assert not any(folded([], live, forgets=lambda _: at(30)).values())
    back = made_of("gone", offset=400).rows
    assert memories(folded(placed(back), live, forgets=lambda _: at(31)))["gone"] is not None
    made = folded([], live, forgets=lambda _: at(31))
    assert memories(made) == {"gone": None}
    told = {name: rows for name, rows in made.items() if rows and name != GROUP_STATES.full_name}
    assert told
    for name, rows in told.items():
        assert len(rows) == sum(row["group_id"] == "gone" for row in live[name])
        assert {(row["group_id"], row["is_live"], row["updated_at"]) for row in rows} == {
            ("gone", False, UPDATED)
        }


def test_what_is_forgotten_goes_by_the_times_of_what_is_new() -> None:
    times: list[datetime] = []

    def forgets(news: Iterable[datetime]) -> datetime:
        times.extend(news)
        return NEVER

    seen = [row | {"group_id": "h"} for row in group_states.states((3, STABLE))]
    rows = placed(made_of("g").rows)
    folded(rows, seen=seen, forgets=forgets, until=group_states.poll(9))
    assert sorted(times) == [at(1), at(9), group_states.at(31)]


@pytest.mark.parametrize(
    ("news", "kept_since", "before"),
    [
        ([at(0), at(90)], None, at(30)),
        ([at(90)], at(40), at(40)),
        ([at(90)], at(20), at(30)),
        ([], at(40), at(40)),
        ([], None, NEVER),
    ],
)
def test_a_group_is_forgotten_as_long_after_it_as_bronze_is_kept(
    news: list[datetime], kept_since: datetime | None, before: datetime
) -> None:
    assert forgets_before(news, timedelta(seconds=60), kept_since) == before

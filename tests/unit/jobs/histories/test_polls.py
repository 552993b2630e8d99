"""Which histories of polls can be computed again, and which silver becomes gold where gold is made
alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.configuration.config import Config, Thresholds
from jobs.histories.poll_news import LogMemory
from jobs.histories.poll_plan import PollNews, PollPlan, gold_behind, lacks_gold
from jobs.histories.polls import Polls
from jobs.rounds.history import Context, Output, Run
from jobs.rounds.left_out import LeftOut
from jobs.rounds.live import LiveRows
from jobs.rules.memory import dumps, loads
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE, retention_of
from schemas.lake import LakeError
from schemas.silver import CLUSTER_SNAPSHOTS
from tests.support.memory_lake import MemoryLake, without_spark

AT = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
GOLD = ("isr_shrink", "leader_churn")
Row = dict[str, Any]


@pytest.fixture
def lake() -> Iterator[MemoryLake]:
    with without_spark():
        yield MemoryLake()


def state(history: str, **columns: object) -> Row:
    row = {"history": history, "cluster": "a", "round": 3, "memory": "{}"}
    return dict.fromkeys(STATE.column_names) | row | columns


def context_of(lake: MemoryLake, *states: Row) -> Any:
    by_name = {(row["history"], row["cluster"]): row for row in states}
    config = Config(lake, "", {})
    return Context(None, config, LiveRows(None, lake), by_name, Run(), LeftOut())


# --- again ---


@pytest.fixture
def made(lake: MemoryLake) -> MemoryLake:
    """A lake that knows a cluster since a poll, and another one for longer."""
    rows = [
        {"cluster": "a", "first_poll": "s/2", "valid_from": AT},
        {"cluster": "a", "first_poll": "s/5", "valid_from": AT + HOUR},
        {"cluster": "b", "first_poll": "s/1", "valid_from": AT - 9 * HOUR},
    ]
    lake.append(CLUSTER_SNAPSHOTS, rows)
    return lake


def polled(lake: MemoryLake, *polls: tuple[str, str, str]) -> None:
    names = ("cluster", "poll_id", "record")
    lake.append(METADATA_POLLS, [dict(zip(names, each, strict=True)) for each in polls])


def test_silver_is_computed_again_where_bronze_has_its_first_poll(made: MemoryLake) -> None:
    polled(made, ("a", "s/2", "poll"))
    Polls().check_again(context_of(made), "a")


def test_silver_that_would_begin_later_is_kept(made: MemoryLake) -> None:
    polled(made, ("a", "s/5", "poll"), ("b", "s/2", "poll"), ("a", "s/2", "topic"))
    with pytest.raises(LakeError, match=r"^silver knows a since 2026-11-01 00:00:00.* UTC, and br"):
        Polls().check_again(context_of(made), "a")


def test_a_cluster_without_rows_can_be_computed_again(lake: MemoryLake) -> None:
    Polls().check_again(context_of(lake), "a")


def test_a_history_that_a_log_is_part_of_is_kept(made: MemoryLake) -> None:
    polled(made, ("a", "s/2", "poll"))
    context = context_of(made, state("cluster_log"))
    with pytest.raises(LakeError, match="the controllers' log of a is part of its history, and "):
        Polls().check_again(context, "a")
    Polls(GOLD).check_again(context, "a")


@pytest.mark.parametrize(("hours", "again"), [(-1, True), (0, True), (1, False), (2, False)])
def test_gold_is_computed_again_of_silver_that_is_whole(
    made: MemoryLake, hours: int, again: bool
) -> None:
    kept = state(retention_of("silver"), cluster="", done_at=AT + hours * HOUR)
    context = context_of(made, kept)
    if again:
        Polls(GOLD).check_again(context, "a")
        return
    with pytest.raises(LakeError, match=r"was over before 2026-11-01 UTC: computed again, isr_shr"):
        Polls(GOLD).check_again(context, "a")


# --- gold alone ---


def silver_of(changed: str, done: str = "s/9", **columns: object) -> Row:
    of_silver = {"cluster_id": "id-a", "done_poll": done, "done_at": AT, "changed_poll": changed}
    return state("silver", **of_silver, **columns)


@pytest.mark.parametrize(
    ("states", "is_taken"),
    [
        ([silver_of("s/4")], True),
        ([silver_of("s/4"), *(state(each, done_poll="s/4") for each in GOLD)], False),
        ([silver_of("s/4"), *(state(each, done_poll="s/3") for each in GOLD)], True),
        # The slower one decides.
        ([silver_of("s/4"), state(GOLD[0], done_poll="s/9"), state(GOLD[1], done_poll="s/3")],
         True),
        # Something is to be decided, once a good poll is beyond it.
        ([silver_of("s/4"), *(state(each, done_poll="s/4", deadline=AT - HOUR) for each in GOLD)],
         True),
        ([silver_of("s/4"), *(state(each, done_poll="s/4", deadline=AT) for each in GOLD)], False),
        ([state("silver", cluster_id="id-a")], False),
        ([], False),
    ],
)  # fmt: skip
def test_silver_that_gold_has_not_had_is_taken(
    lake: MemoryLake, states: list[Row], is_taken: bool
) -> None:
    lake.append(STATE, states)
    news = Polls(GOLD).due(context_of(lake), AT)
    assert (news is not None) == is_taken
    if news is not None:
        assert (list(news.plan.clusters), news.is_due) == (["a"], True)
        assert news.plan.silver["a"].row("a")["done_poll"] == "s/9"


def test_silver_of_a_cluster_that_is_left_out_is_not_taken(lake: MemoryLake) -> None:
    lake.append(STATE, [silver_of("s/4")])
    context = context_of(lake)
    context.left_out.put("a")
    assert Polls(GOLD).due(context, AT) is None


def test_how_far_gold_is_behind(lake: MemoryLake) -> None:
    behind = [state(GOLD[0], done_poll="s/3"), state(GOLD[1], done_poll="s/2")]
    context = context_of(lake, silver_of("s/4"), *behind)
    assert gold_behind(context, ("silver", *GOLD), "a") == "s/2"
    assert gold_behind(context, GOLD[:1], "a") == "s/3"
    assert gold_behind(context, ("silver",), "a") is None, "no gold is made"
    assert gold_behind(context_of(lake, silver_of("s/4")), GOLD, "a") == ""
    assert lacks_gold(context_of(lake, silver_of("s/4"), behind[0]), GOLD, "a")
    assert not lacks_gold(context, GOLD, "a")
    assert not lacks_gold(context_of(lake, state("silver")), GOLD, "a"), "nothing is settled"


# --- how far the log was taken ---

PLAN = PollPlan(AT, ("silver",), Thresholds(), (), None, {}, log=(4, 7))


@pytest.mark.parametrize(
    ("plan", "is_open", "noted"),
    [
        (PLAN, False, 7),
        (PLAN, True, None),  # a transaction: its records come again
        (replace(PLAN, is_rest=False), False, None),
        (replace(PLAN, log=None), False, None),
    ],
)
def test_the_log_is_noted_once_all_of_it_was_taken(
    lake: MemoryLake, plan: PollPlan, is_open: bool, noted: int | None
) -> None:
    made = [state("cluster_log", memory='{"is_open":true}' if is_open else "{}")]
    rows = [*Polls().note(context_of(lake), PollNews(plan=plan), Output(states=made))]
    assert [loads(LogMemory, row["memory"]).version for row in rows] == ([noted] if noted else [])
    assert {(row["history"], row["cluster"]) for row in rows} <= {("cluster_log", "")}
    assert dumps(LogMemory(7)) == '{"version":7}'

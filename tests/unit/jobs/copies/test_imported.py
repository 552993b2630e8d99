"""The states of a lake once it has clusters of another one."""

from typing import Any

from jobs.copies.imported import _joined
from jobs.rounds.plan import State, States, Step, state_of
from schemas.imports import IMPORT, newest
from schemas.internal import UPKEEP, retention_of

STEP = Step(
    7,
    "planned",
    frozenset({"silver", "isr_shrink", IMPORT}),
    "writer",
    {IMPORT: {"export": "x", "place": "/backup", "clusters": ["b"]}},
)


def states(*rows: State) -> States:
    return {(row["history"], row["cluster"]): row for row in rows}


def row(history: str, cluster: str, number: int = 500, **columns: Any) -> State:
    return state_of(history, cluster, {}, round=number, **columns)


def test_states_of_the_clusters_have_the_number_of_the_import() -> None:
    own = states(row("silver", "a", 3), row(UPKEEP, "", 0))
    other = states(
        *(row(history, "b", done_poll="s/1") for history in ("silver", "cluster_log", "isr_shrink"))
    )
    found = _joined(own, other, {}, STEP)
    assert {key: each["round"] for key, each in found.items()} == {
        ("silver", "a"): 3,
        (UPKEEP, ""): 0,
        ("silver", "b"): 7,
        ("cluster_log", "b"): 7,
        ("isr_shrink", "b"): 7,
        (IMPORT, "b"): 7,
    }
    assert found["silver", "b"]["done_poll"] == "s/1"
    ended = found[IMPORT, "b"]
    assert newest([("b", 7, ended["memory"])])["b"].is_whole


def test_what_the_other_lake_says_of_itself_stays_there() -> None:
    of_lake = ("lake", UPKEEP, retention_of("gold"), "cluster_log", "rebalance_history")
    other = states(
        *(row(history, "") for history in of_lake),
        row("left out of silver", "b"),
        row("validate", "b"),
        row(IMPORT, "b"),
    )
    assert {*_joined({}, other, {}, STEP)} == {(IMPORT, "b")}

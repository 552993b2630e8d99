"""Groups that rebalance again and again, and clients that join again and again: by cases, and
chains of begins against the model.
"""

import json
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.configuration.config import Thresholds
from jobs.rules.groups.rows import MEMBER_ROWS
from jobs.rules.groups.storms import Chain, Chains, chained, stormed
from jobs.rules.memory import from_json, to_json
from truth.model import groups

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = timedelta(seconds=10)
LIMITS = Thresholds(storm=3, storm_window=WINDOW, crash_loop=2, crash_loop_window=WINDOW)


def rebalance(
    second: int, *joined: str | None, ended: bool = True, stayed: tuple[str, ...] = ()
) -> dict[str, Any]:
    began = BEGIN + timedelta(seconds=second)
    changes = [*((each, "joined") for each in joined), *((each, "stayed") for each in stayed)]
    members = [
        {"client_id": each, "client_host": "/h", "change": change} for each, change in changes
    ]
    row = {"id": f"r{second}", "began_before": began, "first_offset": second}
    return row | {"ended_before": began if ended else None, MEMBER_ROWS: members}


APP = ("crash_loop", "app", "/h")
STORM = ("storm", None, None)
CASES = {
    # Rebalances; chains that are over, and those that may grow: who, the first, how many.
    "storm": ([rebalance(0), rebalance(4), rebalance(9)], [], [(STORM, "r0", 3)]),
    "storm: not within the window": ([rebalance(0), rebalance(4), rebalance(10)], [], []),
    "storm: too few": ([rebalance(0), rebalance(9)], [], []),
    "storm: all that hangs together": (
        [rebalance(second) for second in (0, 4, 9, 13, 18)],
        [],
        [(STORM, "r0", 5)],
    ),
    "storm: one that is a little apart counts once": (
        [rebalance(second) for second in (0, 4, 9, 16, 18, 25)],
        [],
        [(STORM, "r0", 6)],
    ),
    "storm: it is over": (
        [rebalance(second) for second in (0, 4, 9, 30, 50)],
        [(STORM, "r0", 3)],
        [],
    ),
    "storm: whatever their order": (
        [rebalance(9), rebalance(0), rebalance(4)],
        [],
        [(STORM, "r0", 3)],
    ),
    "storm: of rebalances that are open, too": (
        [rebalance(0), rebalance(4), rebalance(9, ended=False)],
        [],
        [(STORM, "r0", 3)],
    ),
    "crash_loop": ([rebalance(0, "app"), rebalance(9, "app")], [], [(APP, "r0", 2)]),
    "crash_loop: not within the window": ([rebalance(0, "app"), rebalance(10, "app")], [], []),
    "crash_loop: of two clients": ([rebalance(0, "app"), rebalance(9, "other")], [], []),
    "crash_loop: who stays does not join": (
        [rebalance(0, "app"), rebalance(9, stayed=("app",))],
        [],
        [],
    ),
    "crash_loop: a client that is not known": ([rebalance(0, None), rebalance(9, None)], [], []),
    "crash_loop: once for all its members": (
        [rebalance(0, "app", "app"), rebalance(30, "app")],
        [],
        [],
    ),
    # Who joins one that is open may be no member in the end.
    "crash_loop: of rebalances that ended": (
        [rebalance(0, "app"), rebalance(9, "app", ended=False)],
        [],
        [],
    ),
    "crash_loop: it is over when others rebalance so much later": (
        [rebalance(0, "app"), rebalance(5, "app"), rebalance(15)],
        [(APP, "r0", 2)],
        [],
    ),
    "crash_loop: others rebalance before": (
        [rebalance(0, "app"), rebalance(5, "app"), rebalance(14)],
        [],
        [(APP, "r0", 2)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_chains(case: str) -> None:
    rows, over, longer = CASES[case]
    _, *found = stormed([], rows, LIMITS)
    assert [[(who, chain.first, chain.count) for who, chain in each] for each in found] == [
        over,
        longer,
    ]


def test_a_chain_grows_from_round_to_round() -> None:
    rows = [rebalance(second, "app") for second in (0, 4, 9, 13)]
    kept: list[Any] = []
    for row in rows:
        kept, over, longer = stormed(json.loads(json.dumps(kept)), [row, {"event": "x"}], LIMITS)
        assert over == []
    assert {who: (chain.first, chain.count) for who, chain in longer} == {
        STORM: ("r0", 4),
        APP: ("r0", 4),
    }


def test_a_client_is_forgotten_a_window_after_it_joined() -> None:
    kept, _, _ = stormed([], [rebalance(0, "app"), rebalance(9)], LIMITS)
    assert [who for who, _ in kept] == [STORM, APP]
    kept, _, _ = stormed(kept, [rebalance(10)], LIMITS)
    assert [tuple(who) for who, _ in kept] == [STORM]


@given(
    st.lists(st.integers(0, 12), max_size=40),
    st.integers(2, 5),
    st.integers(1, 30),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_chains_are_all_that_hangs_together_and_nothing_else(
    gaps: list[int], least: int, window: int, cuts: list[int]
) -> None:
    times = [(at, f"r{number:02d}") for number, at in enumerate(accumulate(gaps))]
    chains, found, begin = Chains(), [], 0
    for end in [*sorted(cuts), len(times)]:
        chains = from_json(Chains, json.loads(json.dumps(to_json(chains))))
        for time in times[begin:end]:
            chains, over = chained(chains, time, least, window)
            found += [over] if over else []
        begin = max(begin, end)
    found += [chains.chain] if chains.chain else []
    begins = [BEGIN + timedelta(seconds=at) for at, _ in times]
    assert found == [
        Chain(times[first][1], times[first][0], times[last][0], last - first + 1)
        for first, last in groups.chains(begins, least, timedelta(seconds=window))
    ]

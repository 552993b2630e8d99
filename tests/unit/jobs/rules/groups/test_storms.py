"""Chains of begins against a dumb second writing, and where a group is kept against what Java
says.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.configuration.config import Thresholds
from jobs.rules.groups.partition import log_partition
from jobs.rules.groups.rows import MEMBER_ROWS
from jobs.rules.groups.storms import Chain, Chains, chained, stormed
from jobs.rules.memory import from_json, to_json


def plain(times: list[tuple[int, str]], least: int, window: int) -> list[Chain]:
    """Every window that begins with some time, and all that share a member."""
    merged: list[set[tuple[int, str]]] = []
    for begin, _ in times:
        inside = {time for time in times if begin <= time[0] < begin + window}
        if len(inside) >= least:
            together = inside.union(*(other for other in merged if other & inside))
            merged = [*(other for other in merged if not other & inside), together]
    chains = (sorted(each, key=times.index) for each in merged)
    return [Chain(each[0][1], each[0][0], each[-1][0], len(each)) for each in chains]


@given(
    st.lists(st.integers(0, 12), max_size=40),
    st.integers(2, 5),
    st.integers(1, 30),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_chains_are_all_that_hangs_together_and_nothing_else(
    gaps: list[int], least: int, window: int, cuts: list[int]
) -> None:
    at, times = 0, []
    for number, gap in enumerate(gaps):
        at += gap
        times.append((at, f"r{number:02d}"))
    chains, found, begin = Chains(), [], 0
    for end in [*sorted(cuts), len(times)]:
        chains = from_json(Chains, json.loads(json.dumps(to_json(chains))))
        for time in times[begin:end]:
            chains, over = chained(chains, time, least, window)
            found += [over] if over else []
        begin = max(begin, end)
    found += [chains.chain] if chains.chain else []
    assert found == sorted(plain(times, least, window), key=lambda chain: chain.began)


@pytest.mark.parametrize(("apart", "counts"), [(9, [2]), (10, [])])
def test_begins_that_are_a_whole_window_apart_do_not_hang_together(
    apart: int, counts: list[int]
) -> None:
    first, _ = chained(Chains(), (0, "r0"), 2, 10)
    both, _ = chained(first, (apart, "r1"), 2, 10)
    assert ([both.chain.count] if both.chain else []) == counts


def rebalance(number: int, *joined: str, ended: bool = True) -> dict[str, Any]:
    begin = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    members = [{"client_id": each, "client_host": "/h", "change": "joined"} for each in joined]
    end = begin if ended else None
    row = {"id": f"r{number}", "began_before": begin, "first_offset": number, "ended_before": end}
    return row | {MEMBER_ROWS: members}


def test_who_joined_a_rebalance_that_is_open_is_in_no_crash_loop_yet() -> None:
    """It may be no member in the end."""
    limits = Thresholds(storm=2, crash_loop=2)
    for ended, kinds in ((False, ["storm"]), (True, ["storm", "crash_loop"])):
        _, over, longer = stormed(
            [], [rebalance(0, "app"), rebalance(1, "app", ended=ended)], limits
        )
        assert (over, [who[0] for who, _ in longer]) == ([], kinds)


def test_a_group_is_in_the_partition_that_java_says() -> None:
    """By String.hashCode: "polygenelubricants" is the number that has no positive, an elephant is
    two UTF-16 units.
    """
    assert log_partition("", 50) == 0
    assert log_partition("a", 50) == 97 % 50
    assert log_partition("polygenelubricants", 50) == 0
    assert log_partition("🐘", 50) == (0xD83D * 31 + 0xDC18) % 50
    of_java = {"orders": 31, "заказы-🐘": 21, "my-group-7": 10, "console-consumer-12345": 6}
    assert {group_id: log_partition(group_id, 50) for group_id in of_java} == of_java

"""Chains of begins against a dumb second writing, and where a group is kept against what Java says."""

import json

from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.groups.partition import log_partition
from jobs.rules.groups.storms import Chain, Chains, chained
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


def test_a_group_is_in_the_partition_that_java_says() -> None:
    """By String.hashCode: "polygenelubricants" is the number that has no positive, an elephant is two UTF-16 units."""
    assert log_partition("", 50) == 0
    assert log_partition("a", 50) == 97 % 50
    assert log_partition("polygenelubricants", 50) == 0
    assert log_partition("🐘", 50) == (0xD83D * 31 + 0xDC18) % 50
    of_java = {"orders": 31, "заказы-🐘": 21, "my-group-7": 10, "console-consumer-12345": 6}
    assert {group_id: log_partition(group_id, 50) for group_id in of_java} == of_java

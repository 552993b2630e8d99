"""Changes of leaders: why, how many, whether clean; and what each broker leads."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.gold.leaders import fold
from jobs.rules.gold.news import GoldInput
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.gold_cases import Seen, assert_same, history_of, led, polled
from tests.support.oracles import leaders as plain
from tests.support.rounds import fold_in_rounds
from tests.support.silver_rows import PARTITIONS, History, Row, random_history

CHANGES, BALANCE = "gold.leader_changes", "gold.leader_balance"
KEYS = {CHANGES: ("id",), BALANCE: ("cluster_id", "broker_id", "poll")}


def folded(history: History, *ends: int) -> tuple[dict[str, list[Row]], Any]:
    return fold_in_rounds(
        fold,
        history,
        ends or (len(history.polls) - 1,),
        keys=KEYS,
        is_live=lambda table, row: table == BALANCE and row["valid_to"] is None,
    )


def changes(*polls: Mapping[str, Row], **more: Any) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in folded(polled(*polls, **more))[0][CHANGES]:
        found.setdefault(row["topic"], []).append(row)
    return found


def last_change(*states: Row, **more: Any) -> Row:
    return changes(*({"t": each} for each in states), **more)["t"][-1]


DOWN = led(-1, 5, isr="1")
NOBODY = DOWN | {"isr": []}
OLD = {"levels": (11, 0)}  # metadata.version before 3.6-IV0
Case = tuple[Row, Row, dict[str, Any]]

# --- why ---

REASONS: dict[str, Case] = {
    "preferred": (led(2, 5), led(1, 6), {}),
    "preferred: by the order before a reassignment": (
        led(2, 5, replicas="21"),
        led(1, 7, replicas="12"),
        {},
    ),
    "failover": (led(1, 5), led(2, 6, isr="23"), {}),
    "failover: and a shrink that raises the epoch": (
        led(2, 5, replicas="1234", isr="234"),
        led(3, 7, replicas="1234", isr="3"),
        OLD,
    ),
    "reassignment": (led(1, 5), led(4, 6, replicas="423", isr="234"), {}),
    "reassignment: of several steps, to another than the preferred replica": (
        led(1, 5),
        led(2, 8, replicas="423", isr="234"),
        {},
    ),
    "recovery": (DOWN, led(1, 6, isr="1"), {}),
    "offline": (led(1, 5, isr="1"), led(-1, 6, isr="1"), {}),
    "isr_shrink: below 3.6-IV0": (led(1, 5), led(1, 6, isr="13"), OLD),
    "isr_shrink: two left, in one step": (led(1, 5), led(1, 6, isr="1"), OLD),
    "isr_shrink: two left, the level is not known": (
        led(1, 5),
        led(1, 7, isr="1"),
        {"levels": (None, 0)},
    ),
    "unknown: one left in two steps": (led(1, 5), led(1, 7, isr="13"), OLD),
    "unknown: one step below 3.6-IV0, nobody left": (led(1, 5), led(1, 6), OLD),
    "unknown: one left, from 3.6-IV0 on": (led(1, 5), led(1, 6, isr="13"), {}),
    "unknown: one left in a reassignment": (led(1, 5), led(1, 6, replicas="13", isr="13"), OLD),
    "unknown: away and back": (led(1, 5), led(1, 7), {}),
    "unknown: a reassignment that no poll saw": (led(1, 5), led(1, 6), {}),
    "unknown: a reassignment of several steps, or a failure before an election": (
        led(1, 5),
        led(4, 8, replicas="423", isr="234"),
        {},
    ),
    "unknown: the preferred replica leads as its leader left the ISR": (
        led(2, 5),
        led(1, 6, isr="13"),
        {},
    ),
    "unknown: the leader that an election brought failed": (led(2, 5), led(3, 7, isr="23"), {}),
    "unknown: ... which took it out of the ISR": (
        led(3, 16, replicas="143", isr="134"),
        led(4, 18, replicas="143", isr="34"),
        OLD,
    ),
    "unknown: ... and another left the ISR": (
        led(2, 5, replicas="1234", isr="1234"),
        led(3, 8, replicas="1234", isr="23"),
        OLD,
    ),
    "unknown: not preferred, epochs do not tell": (led(2, None), led(3, None), {}),
    "unknown: the leader is hidden": (led(1, 5), led(-1, 6, error_code=72), {}),
    "unknown: the leader was hidden": (led(-1, 5, error_code=72), led(1, 6), {}),
    "unknown: where the ISR means nothing": (
        led(2, 5) | {"isr": None},
        led(1, 6) | {"isr": None},
        {},
    ),
}
"""Value of `reason` -> the state before, the state after, and more of the cluster."""


@pytest.mark.parametrize("case", REASONS)
def test_why_a_leader_changed(case: str) -> None:
    before, after, more = REASONS[case]
    assert last_change(before, after, **more)["reason"] == case.partition(":")[0]


BESIDE: dict[str, tuple[Row, Row, dict[str, Any], list[str]]] = {
    "back where it is preferred": (led(1, 5), led(1, 7), {}, ["unknown", "unknown"]),
    "failed elsewhere": (led(1, 5), led(3, 6), {}, ["unknown", "failover"]),
    "one step under one leader is no failure": (led(1, 5), led(1, 6), {}, ["preferred", "unknown"]),
    "two shrinks are none": (led(1, 5), led(1, 7, isr="1"), OLD, ["preferred", "isr_shrink"]),
    "nor is a reassignment": (
        led(1, 5),
        led(2, 6, replicas="23", isr="23"),
        {},
        ["preferred", "reassignment"],
    ),
}
"""Of another partition that broker 1 led: as above, and the reasons of both changes."""


@pytest.mark.parametrize("case", BESIDE)
def test_reasons_look_at_all_that_a_broker_lost_in_a_poll(case: str) -> None:
    before, after, more, reasons = BESIDE[case]
    found = changes(
        {"p": led(1, 5, replicas="213"), "t": before},
        {"p": led(2, 6, replicas="213"), "t": after},
        **more,
    )
    assert [found[topic][0]["reason"] for topic in ("p", "t")] == reasons


def test_another_poll_is_another_matter() -> None:
    before, after = led(1, 5, replicas="213"), led(2, 6, replicas="213")
    found = changes(
        {"p": before, "t": led(1, 5)}, {"p": after, "t": led(1, 5)}, {"p": after, "t": led(3, 6)}
    )
    assert [found[topic][0]["reason"] for topic in ("p", "t")] == ["preferred", "failover"]


def test_a_broker_that_failed_may_have_lost_a_reassigned_partition_by_it() -> None:
    found = changes(
        {"p": led(1, 5), "t": led(1, 5)}, {"p": led(3, 6), "t": led(2, 6, replicas="23", isr="23")}
    )
    assert [found[topic][0]["reason"] for topic in ("p", "t")] == ["failover", "unknown"]


# --- clean ---

ASKED = {"levels": (25, 1), "elr": "3/1"}
CLEAN: dict[str, tuple[Row, Row, dict[str, Any], bool | None]] = {
    "no: in the ISR before": (led(2, 5), led(1, 6), {}, None),
    "no: nobody leads": (led(1, 5, isr="1"), led(-1, 6, isr="1"), {}, None),
    "no: nobody leads, and an eligible leader is down": (
        led(1, 5, isr="1") | {"offline_replicas": [3]},
        led(-1, 6, isr=""),
        ASKED,
        False,
    ),
    "no: the only one in sync leads again": (DOWN, led(1, 6, isr="1"), {}, None),
    "no: the same leader": (led(1, 5), led(1, 6, isr="13"), OLD, None),
    "no: the same leader, whatever the ISR": (led(1, 5, isr="2"), led(1, 6, isr="1"), OLD, None),
    "no: epochs do not tell": (led(2, None), led(3, None), {}, None),
    "no: eligible": (NOBODY, led(3, 6, isr="3"), ASKED, False),
    "no: in both lists": (NOBODY, led(3, 6, isr="3"), ASKED | {"elr": "3/3"}, False),
    "no: eligible, though as far as the level tells there is no ELR": (
        NOBODY,
        led(3, 6, isr="3"),
        {"levels": (25, 0), "elr": "3/1"},
        False,
    ),
    "proven": (DOWN, led(3, 6, isr="3"), {}, None),
    "proven: of Kafka 2.6 and before, which knows neither level": (
        DOWN,
        led(3, 6, isr="3"),
        {"levels": (None, 0)},
        None,
    ),
    "suspected: two steps": (DOWN, led(3, 7, isr="3"), {}, None),
    "suspected: of a partition that had a leader": (
        led(1, 5, isr="12"),
        led(3, 6, isr="3"),
        {},
        None,
    ),
    "suspected: epochs do not tell": (
        DOWN | {"leader_epoch": None},
        led(3, None, isr="3"),
        {},
        None,
    ),
    "suspected: the leader was hidden": (
        led(-1, 5, isr="2", error_code=72),
        led(1, 6, isr="12"),
        ASKED,
        False,
    ),
    "suspected: the last known leader": (NOBODY, led(1, 6, isr="1"), ASKED, True),
    "suspected: the last known leader, which was down": (
        NOBODY | {"offline_replicas": [1, 3]},
        led(1, 6, isr="1"),
        ASKED,
        True,
    ),
    "None: two steps to one that was in sync": (led(2, 5), led(3, 7, isr="23"), {}, None),
    "None: away and back": (led(2, 5, isr="2"), led(2, 7, isr="2"), {}, None),
    "None: two steps to one that was eligible": (NOBODY, led(3, 7, isr="3"), ASKED, False),
    "None: the leader is hidden": (led(1, 5), led(-1, 6, error_code=72), {}, None),
    "None: the ELR's level is not known": (DOWN, led(3, 6, isr="3"), {"levels": (25, None)}, None),
    "None: with ELR, not asked": (NOBODY, led(1, 6, isr="1"), {"levels": (25, 1)}, None),
    "None: an empty ISR, so ELR was switched on meanwhile": (NOBODY, led(3, 6, isr="3"), {}, None),
    "None: an eligible leader that was down": (
        NOBODY | {"offline_replicas": [1, 3]},
        led(3, 6, isr="3"),
        ASKED,
        None,
    ),
    "None: in neither list, by an answer that may have come after the election": (
        NOBODY,
        led(2, 6, isr="2"),
        ASKED,
        None,
    ),
    "None: where the ISR means nothing any more": (
        led(2, 5),
        led(1, 6) | {"isr": None},
        {"kind": "redpanda"},
        None,
    ),
}
"""Value of `unclean` -> as above, and `is_last_known_leader`."""


@pytest.mark.parametrize("case", CLEAN)
def test_whether_an_election_was_clean(case: str) -> None:
    before, after, more, is_last_known = CLEAN[case]
    row = last_change(before, after, **more)
    assert (str(row["unclean"] or None), row["is_last_known_leader"]) == (
        case.partition(":")[0],
        is_last_known,
    )


@for_each("leader", [1, 3])
@for_each(
    "before", [led(1, 5, isr=""), led(-1, 4, isr=""), DOWN, NOBODY | {"replicas": [1, 2, 3, 4]}]
)
def test_eligible_leaders_of_an_earlier_state_tell_nothing(before: Row, leader: int) -> None:
    """They may have changed with these, and were not asked for since."""
    states = [before, NOBODY, led(leader, 6, isr=str(leader))]
    row = last_change(*states, **ASKED)
    assert (row["unclean"], row["is_last_known_leader"]) == (None, None)


def test_a_broker_that_is_back_changes_nothing_of_who_is_eligible() -> None:
    states = [NOBODY | {"offline_replicas": [2]}, NOBODY, led(1, 6, isr="1")]
    row = last_change(*states, **ASKED)
    assert (row["unclean"], row["is_last_known_leader"]) == ("suspected", True)


def test_who_is_in_neither_list_of_a_state_that_was_there_before_was_elected_unclean() -> None:
    """The poll between shows that the lists were those of a state that lasted."""
    row = last_change(NOBODY, NOBODY, led(2, 6, isr="2"), **ASKED)
    assert (row["unclean"], row["is_last_known_leader"]) == ("suspected", False)


# --- how many, and for how long ---

COUNTS: dict[
    str, tuple[Row, Row, dict[str, Any], tuple[int, int | None, int | None], int | None]
] = {
    "exact: one that polls saw": (led(2, 5), led(1, 6), {}, (1, 1, 0), 0),
    "exact: offline": (led(1, 5, isr="1"), led(-1, 6, isr="1"), {}, (1, 1, 0), 0),
    "exact: two that no poll saw": (led(1, 5), led(1, 7), {}, (2, 2, 2), 10_100),
    "exact: three, of which polls saw one": (led(2, 5), led(3, 8), {}, (3, 3, 2), 10_100),
    "exact: a reassignment that no poll saw": (led(1, 5), led(1, 6), {}, (0, 0, 0), 0),
    "exact: the leader is hidden": (led(1, 5), led(-1, 6, error_code=72), {}, (1, 1, 1), 0),
    "upper_bound: a shrink": (led(1, 5), led(1, 6, isr="13"), OLD, (0, 0, 0), 0),
    "upper_bound: two shrinks or two changes": (
        led(1, 5),
        led(1, 7, isr="1"),
        OLD,
        (0, 2, None),
        10_100,
    ),
    "upper_bound: a hidden leader": (
        led(-1, 5, error_code=72),
        led(-1, 6, error_code=72),
        OLD,
        (0, 1, None),
        0,
    ),
    "upper_bound: of a reassignment of one step": (
        led(1, 5),
        led(4, 6, replicas="423", isr="234"),
        {},
        (1, 1, None),
        0,
    ),
    "upper_bound: of several steps": (
        led(1, 5),
        led(4, 8, replicas="423", isr="234"),
        {},
        (1, 3, None),
        10_100,
    ),
    "upper_bound: before 3.6-IV0": (led(1, 5), led(2, 8, isr="23"), OLD, (1, 3, None), 10_100),
    "unreliable: moved in its epoch": (led(1, 5), led(2, 5), {}, (1, None, None), 10_100),
    "unreliable: epochs are not known": (led(2, None), led(3, None), {}, (1, None, None), 10_100),
}
"""Value of `epoch_semantics` -> as above; the least, the most and the hidden changes; for how many
ms it may have been without a leader.
"""


@pytest.mark.parametrize("case", COUNTS)
def test_how_many_changes_epochs_count(case: str) -> None:
    before, after, more, counts, leaderless = COUNTS[case]
    row = last_change(before, after, **more)
    assert row["epoch_semantics"] == case.partition(":")[0]
    assert tuple(row[f"changes_{name}"] for name in ("min", "max", "hidden")) == counts
    assert (row["leaderless_ms_min"], row["leaderless_ms_max"]) == (0, leaderless)


def test_epochs_are_upper_bounds_while_a_cluster_migrates_from_zookeeper() -> None:
    history = polled({"p": led(1, 5), "t": led(1, 5)}, {"p": led(2, 8), "t": led(1, 6, isr="13")})
    last = history.polls[-1]
    news = replace(GoldInput.of(history.rows, None, last.poll_id, last.at), is_migrating=True)
    rows = {row["topic"]: row for row in fold(None, {}, news).rows[CHANGES]}
    names = ("epoch_semantics", "reason", "changes_min", "changes_max")
    assert tuple(rows["p"][name] for name in names) == ("upper_bound", "unknown", 1, 3)
    assert tuple(rows["t"][name] for name in names) == ("upper_bound", "isr_shrink", 0, 0)


def test_time_without_a_leader_is_bounded_by_the_states_around() -> None:
    states = led(1, 4, isr="1"), DOWN, DOWN, led(1, 6, isr="1")
    rows = changes(*({"t": each} for each in states))["t"]
    assert [row["reason"] for row in rows] == ["offline", "recovery"]
    # Without a leader in the second and the third poll: from after the first was sent to the
    # fourth's answer.
    assert (rows[1]["leaderless_ms_min"], rows[1]["leaderless_ms_max"]) == (9_900, 30_100)
    first = last_change(DOWN, led(1, 6, isr="1"))
    assert (first["leaderless_ms_min"], first["leaderless_ms_max"]) == (0, None), (
        "nobody knows since when"
    )
    hidden = last_change(led(-1, 5, error_code=72), led(1, 6))
    assert (hidden["leaderless_ms_min"], hidden["leaderless_ms_max"]) == (0, 0), "it had a leader"


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        ((led(1, 5), led(-1, 5, error_code=72), led(1, 5)), "kafka"),
        ((led(1, 5), led(1, 5, isr="12")), "kafka"),
        ((led(1, 5), led(1, 4)), "kafka"),
        ((led(1, 5), led(None, 6)), "warpstream"),
    ],
    ids=["behind a missing listener", "the ISR", "an epoch that fell", "leaders mean nothing"],
)
def test_no_change(states: tuple[Row, ...], kind: str) -> None:
    assert not changes(*({"t": each} for each in states), kind=kind)


# --- what each broker leads ---

LEADS = ("broker_id", "leads", "preferred_for", "led_elsewhere", "imbalance")


def balance(history: History, *names: str) -> list[tuple[Any, ...]]:
    rows = folded(history)[0][BALANCE]
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("states", "rows"),
    [
        ([led(1)], [(1, 1, 1, 0, 0.0)]),
        ([led(2)], [(1, 0, 1, 1, 1.0), (2, 1, 0, 0, None)]),
        ([led(2), led(1), led(1)], [(1, 2, 3, 1, 1 / 3), (2, 1, 0, 0, None)]),
        ([led(-1)], [(1, 0, 1, 1, 1.0)]),
        ([led(-1, error_code=72)], [(1, 0, 1, 0, 0.0)]),
        ([led(2) | {"isr": None}], [(2, 1, 0, 0, None)]),
        ([led(None) | {"isr": None}], []),
        ([led(2) | {"replicas": None}], [(2, 1, 0, 0, None)]),
    ],
    ids=[
        "the preferred one leads",
        "another leads",
        "several",
        "nobody leads",
        "the leader is hidden",
        "the ISR means nothing",
        "leaders mean nothing",
        "replicas are not known",
    ],
)
def test_what_brokers_lead_and_are_preferred_for(
    states: list[Row], rows: list[tuple[Any, ...]]
) -> None:
    history = polled({f"t{n}": state for n, state in enumerate(states)})
    assert balance(history, *LEADS) == rows


def test_balance_has_a_row_only_when_numbers_change() -> None:
    history = polled(
        {"t": led(1, 5), "u": led(2, 5)},
        {"t": led(2, 6), "u": led(1, 6)},
        {"t": led(2, 6), "u": led(1, 6, isr="12")},
        {"t": led(1, 7), "u": led(1, 6, isr="12")},
        {"u": led(1, 6, isr="12")},
    )
    second, third, fourth = (f"s/{n:012d}" for n in (0, 3, 4))
    # Both lead one as before by the second poll: broker 1, preferred for both, has lost one of them
    # and won the other.
    assert balance(history, *LEADS, "poll", "superseded_poll", "source") == [
        (1, 1, 1, 0, 0.0, fourth, None, "polls"),
        (1, 1, 2, 1, 0.5, second, third, "polls"),
        (1, 2, 2, 0, 0.0, third, fourth, "polls"),
        (2, 0, 0, 0, None, third, None, "polls"),
        (2, 1, 0, 0, None, second, third, "polls"),
    ]
    at = {poll.poll_id: poll.at for poll in history.polls}
    for row in folded(history)[0][BALANCE]:
        assert row["valid_from"] == at[row["poll"]]
        assert row["valid_to"] == at.get(row["superseded_poll"])


def test_a_row_for_several_partitions_counts_so_often() -> None:
    history = polled({"t": led(1)}, {"t": led(2, 1)})
    first, second = history.rows[PARTITIONS]
    first["times"] = second["times"] = 5
    assert balance(history, *LEADS)[1:3] == [(1, 5, 5, 0, 0.0), (2, 5, 0, 0, None)]


@pytest.mark.parametrize(
    ("wait", "by_log", "rows"), [(0, True, 1), (0.001, True, 2), (0, False, 2)]
)
def test_numbers_that_last_no_time_by_the_log_are_no_row(
    wait: float, by_log: bool, rows: int
) -> None:
    """A broker that fails loses its partitions by a record each, at one time."""
    seen = [
        Seen({("t", 0): led(1), ("u", 0): led(1)}, by_log=by_log),
        Seen({("t", 0): led(2, 1), ("u", 0): led(1)}, by_log=by_log),
        Seen({("t", 0): led(2, 1), ("u", 0): led(2, 1)}, wait, by_log=by_log),
    ]
    found = [row for row in folded(history_of(*seen))[0][BALANCE] if row["broker_id"] == 2]
    assert [row["leads"] for row in found] == [1, 2][-rows:]


# --- random lives ---

POLLS = 14
LIVES = st.randoms(use_true_random=False)


@settings(max_examples=examples(120))
@given(life=LIVES, polls=st.integers(1, POLLS))
def test_rows_are_as_the_plain_rules_say(life: random.Random, polls: int) -> None:
    history = random_history(life, polls)
    rows, _ = folded(history)
    cluster = "cluster_id", "cluster"
    assert_same(rows[CHANGES], plain.leader_changes(history.rows), "id", *cluster)
    assert_same(rows[BALANCE], plain.leader_balance(history.rows), *cluster)


@settings(max_examples=examples(60))
@given(life=LIVES, cuts=st.sets(st.integers(0, POLLS - 2)))
def test_rounds_cut_anywhere_make_the_same_rows(life: random.Random, cuts: set[int]) -> None:
    history = random_history(life, POLLS)
    cut_rows, cut_memory = folded(history, *sorted(cuts), POLLS - 1, POLLS - 1)
    rows, memory = folded(history)
    assert cut_memory == memory
    for table in KEYS:
        assert sorted(map(repr, cut_rows[table])) == sorted(map(repr, rows[table]))

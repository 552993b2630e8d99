"""The leaders between two states of a partition, by its leader epochs."""

import pytest

from jobs.rules.gold import elections
from jobs.rules.gold.news import Levels
from tests.support.gold_cases import led, second_state
from tests.support.silver_rows import Row

EXACT, BEFORE_3_6 = Levels(25, 0, 12), Levels(11, 0, 11)
UNKNOWN = Levels()

SEMANTICS: dict[str, tuple[Row, Row, Levels]] = {
    "exact: from 3.6-IV0 on": (led(1, 5), led(2, 6), EXACT),
    "exact: the same leader": (led(1, 5), led(1, 7), EXACT),
    "exact: nothing rose and nothing moved": (led(1, 5), led(1, 5), EXACT),
    "upper_bound: before 3.6-IV0": (led(1, 5), led(2, 6), BEFORE_3_6),
    "upper_bound: the level is not known": (led(1, 5), led(2, 6), UNKNOWN),
    "upper_bound: a replica is no more": (led(1, 5), led(2, 6, replicas="12", isr="12"), EXACT),
    "upper_bound: replicas in another order": (led(1, 5), led(2, 6, replicas="213"), EXACT),
    "unreliable: epochs are not known": (led(1, None), led(2, 6), EXACT),
    "unreliable: ... any more": (led(1, 5), led(2, None), EXACT),
    "unreliable: an epoch fell": (led(1, 5), led(2, 4), EXACT),
    "unreliable: the leader moved in its epoch": (led(1, 5), led(2, 5), EXACT),
}
"""Value of `epoch_semantics` -> the state before, the state after, and levels."""


@pytest.mark.parametrize("case", SEMANTICS)
def test_how_leader_epochs_count_elections(case: str) -> None:
    before, after, levels = SEMANTICS[case]
    found = elections.epoch_semantics(second_state(before, after), levels)
    assert found == case.partition(":")[0]


def test_one_record_of_the_log_hides_nothing() -> None:
    row = second_state(led(1, None), led(2, None)) | {"evidence": object()}
    assert elections.epoch_semantics(row, UNKNOWN) == "exact"


SHRINKS: dict[str, tuple[Row, Row, Levels]] = {
    "shrink: one left in one step": (led(1, 5), led(1, 6, isr="12"), BEFORE_3_6),
    "shrink: two left in one step": (led(1, 5), led(1, 6, isr="1"), BEFORE_3_6),
    "shrink: two left in two steps": (led(1, 5), led(1, 7, isr="1"), BEFORE_3_6),
    "shrink: the level is not known": (led(1, 5), led(1, 6, isr="12"), UNKNOWN),
    "none: one left in two steps": (led(1, 5), led(1, 7, isr="12"), BEFORE_3_6),
    "none: nothing rose": (led(1, 5), led(1, 5, isr="12"), BEFORE_3_6),
    "none: epochs are not known": (led(1, None), led(1, None, isr="12"), BEFORE_3_6),
    "none: from 3.6-IV0 on": (led(1, 5), led(1, 6, isr="12"), EXACT),
    "none: another leader": (led(1, 5), led(2, 6, isr="12"), BEFORE_3_6),
    "none: nobody leads": (led(-1, 5), led(-1, 6, isr="12"), BEFORE_3_6),
    "none: the leader is hidden": (
        led(-1, 5, error_code=72),
        led(-1, 6, isr="12", error_code=72),
        BEFORE_3_6,
    ),
    "none: other replicas": (led(1, 5), led(1, 6, replicas="12", isr="12"), BEFORE_3_6),
    "none: the ISR means nothing": (led(1, 5), led(1, 6) | {"isr": None}, BEFORE_3_6),
}


@pytest.mark.parametrize("case", SHRINKS)
def test_whether_shrinks_account_for_the_epochs(case: str) -> None:
    before, after, levels = SHRINKS[case]
    found = elections.is_isr_shrink(second_state(before, after), levels)
    assert found == case.startswith("shrink")


FAILURES: dict[str, tuple[Row, Row, Levels]] = {
    "failed: another than the preferred replica leads": (led(1, 5), led(2, 6, isr="23"), EXACT),
    "failed: though it is in sync again": (led(1, 5), led(2, 6), EXACT),
    "failed: preferred, it is back two epochs later": (led(1, 5), led(1, 7), EXACT),
    "failed: one epoch, two left, shrinks raise epochs": (
        led(2, 5, replicas="1234", isr="1234"),
        led(3, 6, replicas="1234", isr="34"),
        BEFORE_3_6,
    ),
    "failed: two epochs, one of them a shrink": (
        led(2, 5, replicas="1234", isr="234"),
        led(3, 7, replicas="1234", isr="3"),
        BEFORE_3_6,
    ),
    "failed: epochs do not tell, and it left the ISR": (
        led(2, None),
        led(3, None, isr="13"),
        EXACT,
    ),
    "failed: moved in its epoch, and it left the ISR": (led(2, 5), led(3, 5, isr="13"), EXACT),
    "perhaps: the preferred replica may have led in between": (
        led(2, 5),
        led(3, 7, isr="23"),
        EXACT,
    ),
    "perhaps: three epochs, one of them a shrink": (
        led(2, 5, replicas="1234", isr="234"),
        led(3, 8, replicas="1234", isr="3"),
        BEFORE_3_6,
    ),
    "perhaps: two epochs, and the preferred replica alone left": (
        led(3, 16, replicas="143", isr="134"),
        led(4, 18, replicas="143", isr="34"),
        BEFORE_3_6,
    ),
    "perhaps: two epochs, shrinks raise none": (
        led(2, 5, replicas="1234", isr="234"),
        led(3, 7, replicas="1234", isr="3"),
        EXACT,
    ),
    "perhaps: moved in its epoch, and it is in sync": (led(2, 5), led(3, 5), EXACT),
    "perhaps: epochs do not tell, and it is in sync": (led(2, None), led(3, None), EXACT),
    "perhaps: back two epochs later, one of them may be a shrink": (
        led(1, 5),
        led(1, 7, isr="12"),
        BEFORE_3_6,
    ),
    "perhaps: the preferred replica leads, and it left the ISR": (
        led(2, 5),
        led(1, 6, isr="13"),
        EXACT,
    ),
    "no: preferred replicas are elected with the leader before alive": (
        led(2, 5),
        led(1, 6),
        EXACT,
    ),
    "no: ... and by the order of replicas before": (led(2, 5), led(1, 6, replicas="213"), EXACT),
    "no: it is no replica any more": (led(1, 5), led(2, 6, replicas="23", isr="23"), EXACT),
    "no: nobody led": (led(-1, 5), led(2, 6), EXACT),
    "no: the leader is hidden": (led(1, 5), led(-1, 6, error_code=72), EXACT),
    "no: the leader was hidden": (led(-1, 5, error_code=72), led(2, 6), EXACT),
    "no: one step under the same leader": (led(1, 5), led(1, 6), EXACT),
    "no: not preferred, it is back two epochs later": (led(2, 5), led(2, 7), EXACT),
    "no: the order of replicas changed, and it is back": (
        led(1, 5),
        led(1, 7, replicas="213"),
        EXACT,
    ),
    "no: two shrinks under the same leader": (led(1, 5), led(1, 7, isr="1"), BEFORE_3_6),
    "no: the ISR means nothing": (led(1, 5) | {"isr": None}, led(2, 6) | {"isr": None}, EXACT),
    "no: the ISR meant nothing": (led(1, 5) | {"isr": None}, led(2, 6), EXACT),
}
"""Whether the leader before failed -> the state before, the state after, and levels."""


@pytest.mark.parametrize("case", FAILURES)
def test_whether_a_leader_failed(case: str) -> None:
    before, after, levels = FAILURES[case]
    row = second_state(before, after)
    leader = {row["prev_leader"]}
    said = case.partition(":")[0]
    assert elections.failed_leaders([row], levels) == (leader if said == "failed" else set())
    assert elections.may_have_failed([row], levels) == (set() if said == "no" else leader)


def test_of_several_partitions_each_tells_of_its_own_leader() -> None:
    rows = [second_state(led(1, 5), led(2, 6)), second_state(led(2, 5), led(1, 6))]
    assert elections.failed_leaders(rows, EXACT) == elections.may_have_failed(rows, EXACT) == {1}


@pytest.mark.parametrize(
    ("before", "after", "has_moved", "was_leaderless"),
    [
        (led(1), led(2), True, False),
        (led(1), led(-1), True, False),
        (led(-1), led(1), True, True),
        (led(1), led(1), False, False),
        (led(-1), led(-1, isr="1"), False, True),
        (led(-1, error_code=72), led(1), False, False),
        (led(1), led(-1, error_code=72), False, False),
        (led(None), led(1), False, False),
        (led(1), led(None), False, False),
    ],
)
def test_whether_the_leader_moved_and_whether_nobody_led(
    before: Row, after: Row, has_moved: bool, was_leaderless: bool
) -> None:
    row = second_state(before, after)
    assert elections.has_moved(row) == has_moved
    assert elections.was_leaderless(row) == was_leaderless


@pytest.mark.parametrize(
    ("leader", "before", "elr", "last_known_elr", "is_last_known"),
    [
        (1, led(-1), [], [1], True),
        (1, led(-1), [1], [1], False),
        (1, led(-1), [], [2], False),
        (1, led(2), [], [1], False),
        (-1, led(-1, isr="1"), [], [-1], False),
        (1, led(-1, error_code=72), [], [1], False),
    ],
)
def test_the_last_known_leader_that_was_not_eligible_comes_from_none(
    leader: int, before: Row, elr: list[int], last_known_elr: list[int], is_last_known: bool
) -> None:
    row = second_state(before, led(leader, 1))
    assert elections.is_last_known(row, elr, last_known_elr) == is_last_known


@pytest.mark.parametrize(("replicas", "first"), [([3, 1], 3), ([], None), (None, None)])
def test_the_first_replica_is_preferred(replicas: list[int] | None, first: int | None) -> None:
    assert elections.preferred(replicas) == first

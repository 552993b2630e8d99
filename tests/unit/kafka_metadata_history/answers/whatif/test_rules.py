"""The rules of what a loss does, a table of cases each, and what holds of all clusters."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.whatif.rules import (
    ELR,
    ISR,
    NO_LEADER,
    NOBODY,
    STAYS,
    UNCLEAN,
    UNKNOWN,
    Effect,
    what_if,
)
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Loss, Partition
from tests.support.for_each import for_each

SOFTWARE_3_6, SOFTWARE_3_9 = Levels(14, highest=14), Levels(21, highest=21)
"""Levels of metadata.version, before and after KAFKA-15583."""


def partition(replicas: str, isr: str | None, leader: int | None = 1, **more: object) -> Partition:
    """Replicas and ISR as digits: one broker each."""
    return Partition(
        "orders",
        0,
        leader,
        ids(replicas),
        None if isr is None else ids(isr),
        **({"min_isr": 1, "unclean": False} | more),
    )


def ids(text: str) -> list[int]:
    return [int(each) for each in text]


def cluster(
    *of: Partition,
    down: str = "",
    stopping: str = "",
    levels: Levels = SOFTWARE_3_9,
    **more: object,
) -> Cluster:
    """Brokers 1 to 5."""
    brokers = {
        each: Broker(
            is_live=each not in ids(down),
            is_stopping=each in ids(stopping),
        )
        for each in range(1, 6)
    }
    return Cluster("prod", brokers, of, levels=levels, **more)


def effect(of: Cluster, lost: str) -> Effect | None:
    found = what_if(of, Loss(frozenset(ids(lost)))).effects
    return found[0] if found else None


# --- elections ---

ELECTIONS = {
    "the leader is not lost": (cluster(partition("123", "123")), "2", (1, STAYS)),
    "the first in sync in the order of replicas": (
        cluster(partition("132", "123")),
        "1",
        (3, ISR),
    ),
    "... that is not lost too": (cluster(partition("132", "123")), "13", (2, ISR)),
    "... and in the ISR": (cluster(partition("132", "12")), "1", (2, ISR)),
    "... and not fenced": (cluster(partition("132", "123"), down="3"), "1", (2, ISR)),
    "... and not stopping": (cluster(partition("132", "123"), stopping="3"), "1", (2, ISR)),
    "a leader that is not the preferred replica": (
        cluster(partition("123", "123", leader=3)),
        "3",
        (1, ISR),
    ),
    "sole ISR member: others are catching up": (
        cluster(partition("123", "1")),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "the only replica": (cluster(partition("1", "1")), "1", (NO_LEADER, NOBODY)),
    "all replicas": (cluster(partition("12", "12")), "12", (NO_LEADER, NOBODY)),
    "the others in the ISR are down": (
        cluster(partition("12", "12"), down="2"),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "no leader before": (cluster(partition("12", "1", leader=-1)), "1", (NO_LEADER, NOBODY)),
    "an unclean election is allowed": (
        cluster(partition("123", "1", unclean=True)),
        "1",
        (2, UNCLEAN),
    ),
    "... but nobody lives": (
        cluster(partition("123", "1", unclean=True), down="23"),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "... and not needed": (cluster(partition("123", "13", unclean=True)), "1", (3, ISR)),
    "nobody knows whether it is allowed": (
        cluster(partition("123", "1", unclean=None)),
        "1",
        (None, UNKNOWN),
    ),
    "... and nobody is left who could be": (
        cluster(partition("123", "1", unclean=None), down="23"),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "an eligible leader": (
        cluster(partition("123", "1", elr=[3]), has_elr=True),
        "1",
        (3, ELR),
    ),
    "... is for an ISR that is empty": (
        cluster(partition("123", "13", elr=[2]), has_elr=True),
        "1",
        (3, ISR),
    ),
    "... is clean, so it comes first": (
        cluster(partition("123", "1", elr=[3], unclean=True), has_elr=True),
        "1",
        (3, ELR),
    ),
    "... is down": (
        cluster(partition("123", "1", elr=[3]), down="3", has_elr=True),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "... means nothing where they are not in force": (
        cluster(partition("123", "1", elr=[3]), has_elr=False),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "nobody has asked for eligible leaders": (
        cluster(partition("123", "1", elr=None), has_elr=True),
        "1",
        (None, UNKNOWN),
    ),
    "nobody knows whether they are in force": (
        cluster(partition("123", "1"), has_elr=None),
        "1",
        (None, UNKNOWN),
    ),
    "... and it does not matter": (cluster(partition("123", "12"), has_elr=None), "1", (2, ISR)),
    "the leader is on a listener that is not shown": (
        cluster(partition("12", "12", leader=None)),
        "1",
        (None, ISR),
    ),
    "... and alone": (
        cluster(partition("12", "1", leader=None)),
        "1",
        (NO_LEADER, NOBODY),
    ),
    "the ISR is not known": (cluster(partition("12", None)), "1", (None, UNKNOWN)),
    "in a reassignment all replicas count": (
        cluster(partition("341", "13", adding=[3, 4], removing=[1])),
        "1",
        (3, ISR),
    ),
}
"""A cluster, who is lost, who leads then and where it comes from."""


@for_each("case", ELECTIONS)
def test_who_leads(case: str) -> None:
    of, lost, expected = ELECTIONS[case]
    found = effect(of, lost)
    assert found is not None
    assert found.election == expected


# --- how a partition stands ---

FINE, OFFLINE, UNDER, NOT_KNOWN = (False, False), (True, False), (False, True), (None, None)
STANDINGS = {
    "not in the ISR: nothing changes": (partition("123", "12", min_isr=2), "3", FINE, FINE),
    "not in the ISR, and under min ISR already": (
        partition("123", "1", min_isr=2),
        "3",
        UNDER,
        UNDER,
    ),
    "enough are left": (partition("123", "123", min_isr=2), "1", FINE, FINE),
    "too few are left": (partition("123", "12", min_isr=2), "1", FINE, UNDER),
    "two at once": (partition("123", "123", min_isr=2), "12", FINE, UNDER),
    "worse than under min ISR": (partition("123", "1", min_isr=2), "1", UNDER, OFFLINE),
    "offline before": (partition("12", "1", leader=-1), "1", OFFLINE, OFFLINE),
    "min ISR is not known": (
        partition("123", "12", min_isr=None),
        "1",
        (False, None),
        (False, None),
    ),
    "min ISR is not known, and nobody is left": (
        partition("12", "1", min_isr=None),
        "1",
        (False, None),
        OFFLINE,
    ),
    "an unclean leader is alone in the ISR": (
        partition("123", "1", min_isr=2, unclean=True),
        "1",
        UNDER,
        UNDER,
    ),
    "an unclean election may be allowed": (
        partition("123", "1", unclean=None),
        "1",
        FINE,
        NOT_KNOWN,
    ),
    "the ISR is not known": (partition("12", None), "1", (False, None), NOT_KNOWN),
}
"""A partition, who is lost, and how it stands before and after: offline, under min ISR."""


@for_each("case", STANDINGS)
def test_how_a_partition_stands(case: str) -> None:
    of, lost, before, after = STANDINGS[case]
    found = effect(cluster(of), lost)
    assert found is not None
    assert (found.before, found.after) == (before, after)


OTHERS = {
    "another one in the ISR is down: it does not count": (
        cluster(partition("123", "123", min_isr=2), down="2"),
        "1",
        (True, UNDER),
    ),
    "... which is not due to a loss out of the ISR": (
        cluster(partition("123", "12", min_isr=2), down="2"),
        "3",
        (False, FINE),
    ),
    "another one in the ISR stops": (
        cluster(partition("123", "123", min_isr=2), stopping="2"),
        "1",
        (True, UNDER),
    ),
    "an unclean leader is enough for a min ISR of 1": (
        cluster(partition("12", "1", unclean=True)),
        "1",
        (True, FINE),
    ),
}
"""A cluster, who is lost, whether it is in the ISR, and how the partition stands after it."""


@for_each("case", OTHERS)
def test_another_broker_is_down_or_catching_up(case: str) -> None:
    of, lost, expected = OTHERS[case]
    found = effect(of, lost)
    assert found is not None
    assert (found.is_in_isr, found.after) == expected


@pytest.mark.parametrize(
    ("levels", "min_isr", "before", "after"),
    [
        # From 3.7 on no more are asked for than there are replicas.
        (SOFTWARE_3_9, 2, FINE, UNDER),
        # Before, acks=all was refused at any time.
        (SOFTWARE_3_6, 3, UNDER, UNDER),
        (Levels(14), None, (False, None), (False, None)),
    ],
)
def test_a_min_isr_above_the_number_of_replicas_counts_by_the_software(
    levels: Levels, min_isr: int | None, before: object, after: object
) -> None:
    found = effect(cluster(partition("12", "12", min_isr=3), levels=levels), "1")
    assert found is not None
    assert (found.min_isr, found.before, found.after) == (min_isr, before, after)
    assert found.is_at_rf


ALWAYS = {
    "one replica": (partition("1", "1", min_isr=1), (True, True)),
    "as many replicas as min ISR": (partition("12", "12", min_isr=2), (False, True)),
    "more replicas": (partition("123", "123", min_isr=2), (False, False)),
    "min ISR is not known": (partition("12", "12", min_isr=None), (False, False)),
}
"""A partition, and whether RF is 1, and RF <= min ISR."""


@for_each("case", ALWAYS)
def test_what_is_so_at_any_loss(case: str) -> None:
    of, expected = ALWAYS[case]
    found = effect(cluster(of), "1")
    assert found is not None
    assert (found.is_rf1, found.is_at_rf) == expected


def test_a_partition_without_a_replica_there_is_left_out() -> None:
    assert effect(cluster(partition("123", "123")), "4") is None


REASSIGNMENTS = {
    "none": (partition("123", "123"), "1", False),
    "a replica that is added": (partition("3412", "12", adding=[3, 4], removing=[1, 2]), "3", True),
    "a replica that is removed": (
        partition("3412", "12", adding=[3, 4], removing=[1, 2]),
        "1",
        False,
    ),
    "a replica that stays": (partition("312", "12", adding=[3], removing=[2]), "1", True),
    "nobody has asked": (partition("12", "12", adding=None, removing=None), "1", None),
}
"""A partition, who is lost, and whether its reassignment cannot end."""


@for_each("case", REASSIGNMENTS)
def test_a_reassignment_that_cannot_end(case: str) -> None:
    of, lost, expected = REASSIGNMENTS[case]
    found = effect(cluster(of), lost)
    assert found is not None
    assert found.stalls is expected


def test_replicas_that_are_out_are_those_of_others_that_no_reassignment_adds() -> None:
    found = effect(cluster(partition("12345", "12", adding=[5]), down="4"), "1")
    assert found is not None
    assert found.out == [3, 4]


AFTER_A_KILL = {
    "no eligible leaders: it leads again": (
        cluster(partition("12", "1")),
        "1",
        False,
    ),
    "its shutdown was not clean": (cluster(partition("12", "1"), has_elr=True), "1", True),
    "another eligible leader is down": (
        cluster(partition("12", "1", elr=[2]), down="2", has_elr=True),
        "1",
        False,
    ),
    "... is lost too": (cluster(partition("12", "1", elr=[2]), has_elr=True), "12", True),
    "somebody leads": (cluster(partition("12", "12"), has_elr=True), "1", False),
    "offline before": (cluster(partition("12", "1", leader=-1), has_elr=True), "1", False),
    "nobody knows whether it is in force": (
        cluster(partition("12", "12"), has_elr=None),
        "12",
        None,
    ),
}
"""A cluster, who is killed, and whether it is elected unclean when it comes back."""


@for_each("case", AFTER_A_KILL)
def test_what_a_kill_loses_and_a_stop_does_not(case: str) -> None:
    of, lost, expected = AFTER_A_KILL[case]
    found = effect(of, lost)
    assert found is not None
    assert found.loses_after_kill is expected


# --- what holds of all clusters ---

BROKERS = st.integers(1, 5)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    replicas = draw(st.lists(BROKERS, min_size=1, max_size=4, unique=True))
    some = st.lists(st.sampled_from(replicas), unique=True)
    isr = draw(some)
    leader = draw(st.sampled_from([*isr, NO_LEADER]))
    rest = [each for each in draw(some) if each not in isr]
    return Partition(
        "orders",
        0,
        draw(st.sampled_from([leader, leader, leader, None])) if isr else NO_LEADER,
        replicas,
        isr,
        draw(st.sampled_from([rest, rest, None])),
        min_isr=draw(st.sampled_from([1, 2, 3, None])),
        unclean=draw(st.sampled_from([True, False, None])),
    )


CLUSTERS = st.builds(
    lambda of, down, stopping, has_elr: replace(
        cluster(*of, has_elr=has_elr),
        brokers={each: Broker(None, each not in down, each in stopping) for each in range(1, 6)},
    ),
    st.lists(partitions(), min_size=1, max_size=8),
    st.sets(BROKERS, max_size=2),
    st.sets(BROKERS, max_size=1),
    st.sampled_from([True, False, None]),
)
LOST = st.frozensets(BROKERS, min_size=1, max_size=3)


@given(CLUSTERS, LOST)
def test_whoever_is_elected_lives_is_a_replica_and_is_not_lost(
    of: Cluster, lost: frozenset[int]
) -> None:
    for each in what_if(of, Loss(lost)).effects:
        leader, source = each.election
        assert leader not in lost
        if source in {ISR, ELR, UNCLEAN} and leader is not None:
            assert of.brokers[leader].can_lead
            assert leader in (each.of.replicas or ())
        if source == UNCLEAN:
            assert each.of.unclean
            assert leader not in (each.of.isr or ())


@given(CLUSTERS, LOST, LOST)
def test_to_lose_more_never_hurts_fewer(
    of: Cluster, lost: frozenset[int], more: frozenset[int]
) -> None:
    def hurt(by: frozenset[int]) -> tuple[set[int], set[int]]:
        found = what_if(of, Loss(by)).effects
        offline = {id(each.of) for each in found if each.after.offline}
        return offline, offline | {
            id(each.of) for each in found if each.after.under_min_isr or each.after.offline is None
        }

    offline, bad = hurt(lost)
    offline_of_more, bad_of_more = hurt(lost | more)
    assert offline <= offline_of_more
    assert bad <= bad_of_more


@given(CLUSTERS, LOST)
def test_nothing_gets_better(of: Cluster, lost: frozenset[int]) -> None:
    for each in what_if(of, Loss(lost)).effects:
        if each.before.offline:
            assert each.after.offline
        if each.before.under_min_isr and each.after.offline is False:
            assert each.after.under_min_isr
        if not each.is_in_isr:
            assert each.before == each.after

"""All of one group, from the log and from polls: whatever rounds are cut into, they leave the same tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.common.config import Thresholds
from schemas import groups
from tests.group_simulator import ClassicGroup, ConsumerGroup
from tests.support.examples import examples
from tests.support.group_rounds import Rounds

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(("join", "join", "leave", "restart", "fail", "settle", "settle", "settle")), st.integers(0, 30)
    ),
    min_size=1,
    max_size=25,
)
LIMITS = Thresholds(storm=3, crash_loop=2)
MAKERS = {
    "eager": lambda partitions: ClassicGroup(partitions, cooperative=False),
    "cooperative": lambda partitions: ClassicGroup(partitions, cooperative=True),
    "cooperative, old": lambda partitions: ClassicGroup(partitions, cooperative=True, old=True),
    "consumer": ConsumerGroup,
    "consumer, busy": lambda partitions: ConsumerGroup(partitions, busy=True),
}


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=examples(20))
@given(partitions=st.integers(1, 7), actions=ACTIONS, cuts=st.lists(st.integers(0, 200), max_size=5))
def test_the_log_cut_anywhere_makes_the_same_tables(maker, partitions, actions, cuts):
    group = MAKERS[maker](partitions)
    for action in actions:
        group.do(action)
    group.settle()
    rows = group.log.rows
    whole, cut, by_one = Rounds(LIMITS), Rounds(LIMITS), Rounds(LIMITS)
    whole.take(rows)
    begin = 0
    for end in [*sorted(each % (len(rows) + 1) for each in cuts), len(rows)]:
        if rows[begin:end]:
            cut.take(rows[begin:end])
            begin = end
    for row in rows:
        by_one.take([row])
    assert cut.sorted() == whole.sorted()
    assert by_one.sorted() == whole.sorted()
    if rows:
        rebalances = whole.of(groups.REBALANCES_TOLD)
        assert {row["rebalance_id"] for row in whole.of(groups.REBALANCE_MEMBERS_TOLD)} <= {r["id"] for r in rebalances}
        assert [life["valid_to"] for life in whole.of(groups.GROUP_LIVES)] == [None]
        assert sum(row["ended_before"] is None for row in rebalances) <= 1

"""The memory of the fold of the controllers' log, and the ids and times of its observations."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from jobs.rules.log.state import State
from jobs.rules.silver.state import Poll

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def poll(offset: int, at: datetime, after: str = "S/000000000007") -> Poll:
    return Poll(f"{after}/log/{offset:020}", at, at, 0)


STATE = State(
    next_offset=9,
    leader_epoch=4,
    last=poll(8, NOON),
    is_whole=True,
    after="S/000000000007",
    heard_at=NOON + 9 * SECOND,
    static_configs={"min.insync.replicas": "2", "unclean.leader.election.enable": None},
)


def test_a_record_follows_the_record_before_it() -> None:
    observation = STATE.observation(9, NOON + SECOND)
    assert observation.poll == poll(9, NOON + SECOND)
    # The change came at that moment: the record before held until then.
    assert observation.before == poll(8, NOON + SECOND)


def test_clocks_of_controllers_differ_and_times_never_decrease() -> None:
    observation = STATE.observation(9, NOON - SECOND)
    assert observation.poll == poll(9, NOON)
    assert observation.before == poll(8, NOON)


def test_the_first_record_follows_nothing() -> None:
    observation = State().observation(0, NOON)
    assert (observation.poll, observation.before) == (poll(0, NOON, ""), None)


@pytest.mark.parametrize(
    ("state", "is_cut"),
    [
        (State(), False),
        (State(last=poll(8, NOON), is_whole=True), False),
        # Lost: what follows is known by its offset.
        (State(last=poll(8, NOON), next_offset=9), False),
        (State(last=poll(8, NOON)), True),
    ],
)
def test_a_log_was_cut_off_and_nothing_of_it_was_taken_since(state: State, *, is_cut: bool) -> None:
    assert state.is_cut == is_cut


@pytest.mark.parametrize(
    ("last", "heard_at", "told_at"),
    [
        (None, None, None),
        (poll(8, NOON), None, NOON),
        (poll(8, NOON), NOON + SECOND, NOON + SECOND),
        (poll(8, NOON), NOON - SECOND, NOON),
        (None, NOON, NOON),
    ],
)
def test_nothing_changes_any_more_up_to_the_later_of_what_was_told_and_heard(
    last: Poll | None, heard_at: datetime | None, told_at: datetime | None
) -> None:
    assert State(last=last, heard_at=heard_at).told_at == told_at


def test_a_memory_survives_its_json() -> None:
    for state in (State(), STATE):
        assert State.from_json(json.loads(json.dumps(state.to_json()))) == state

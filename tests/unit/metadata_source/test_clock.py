"""A clock that is set ahead while a process runs."""

import pytest

from metadata_source import clock
from metadata_source.clock import BELIEVED_AFTER_S, LEAP_S, Clock

YEARS = 10 * 365 * 86_400.0


class Machine:
    """A machine with both clocks."""

    def __init__(self) -> None:
        self.clock, self.other = 1_780_000_000.0, 40.0
        self.seen = Clock(lambda: self.clock, lambda: self.other)

    def doubts(self, passed: float, *, set_by: float = 0.0) -> bool:
        self.clock += passed + set_by
        self.other += passed
        return self.seen.doubt() is not None


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_time_that_passes_is_no_leap(machine: Machine) -> None:
    """Nor is a machine that sleeps, whose other clock counts on, nor a clock that is corrected
    little by little.
    """
    assert not any(machine.doubts(passed) for passed in (0, 1, 30, 86_400, YEARS))
    assert not any(machine.doubts(1, set_by=LEAP_S - 1) for _ in range(20))


def test_a_clock_that_is_set_ahead_is_in_doubt_until_it_is_put_right(machine: Machine) -> None:
    assert machine.doubts(30, set_by=YEARS)
    assert machine.doubts(30)
    assert machine.seen.doubt() == (
        "the clock of the machine that polls was set ahead by 315360000 s: it is believed if it "
        "is still so in 570 s"
    )
    assert not machine.doubts(30, set_by=-YEARS)
    assert machine.doubts(30, set_by=LEAP_S + 1), "the next time counts from then"
    assert machine.doubts(BELIEVED_AFTER_S - 1)


def test_a_clock_that_keeps_its_new_time_is_believed(machine: Machine) -> None:
    assert machine.doubts(30, set_by=3_600)
    assert machine.doubts(BELIEVED_AFTER_S - 1)
    assert not machine.doubts(1)
    assert not machine.doubts(30, set_by=10)
    assert machine.doubts(30, set_by=3_600)


def test_a_clock_that_was_set_back_leaps_nowhere_if_it_is_put_right(machine: Machine) -> None:
    assert not machine.doubts(30, set_by=-3_600)
    assert not machine.doubts(300)
    assert not machine.doubts(30, set_by=3_600)
    assert machine.doubts(30, set_by=LEAP_S + 1)


def test_the_clocks_of_this_machine() -> None:
    assert clock.CLOCK.doubt() is None


def test_a_clock_that_was_ahead_before_the_process_began_is_doubted_by_what_is_kept() -> None:
    machine = Machine()
    since, until = machine.clock - 5, machine.clock + BELIEVED_AFTER_S
    assert machine.seen.doubt() is None, "nothing that this process has seen speaks against it"
    assert machine.seen.doubt((since, until)) == (
        "the clock of the machine that polls says 2026-05-28T20:26:40Z, more than a day after the "
        "newest poll that is kept, and may be wrong: it is believed if it is still so in 600 s"
    )
    machine.clock += BELIEVED_AFTER_S - 1
    machine.other += BELIEVED_AFTER_S - 1
    assert machine.seen.doubt((since, until)) is not None
    machine.clock += 1
    machine.other += 1
    assert machine.seen.doubt((since, until)) is None
    machine.clock = since - 86_400
    assert machine.seen.doubt((since, until)) is None, "it was put right"

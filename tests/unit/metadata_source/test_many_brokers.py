"""Questions to many brokers: their time, and one line for what many of them did wrong."""

import time
from types import SimpleNamespace

import pytest

from metadata_source.errors import PollError
from metadata_source.many_brokers import Broker, Time, at_addresses, some, undone

ONE, OTHER = Broker(1, ("one", 9092)), Broker(2, ("other", 9092))


def test_steps_share_the_time_that_is_left_evenly():
    visits = SimpleNamespace(deadline=time.monotonic() + 300)
    for steps in (1, 3):
        given = Time.share(visits, steps)
        assert given.seconds == pytest.approx(300 / steps, abs=20)
        assert given.until - time.monotonic() == pytest.approx(300 / steps, abs=20)
        assert not given.is_over
        given.check()
    over = Time.share(SimpleNamespace(deadline=time.monotonic() - 1), 1)
    assert (over.seconds, over.is_over) == (0.0, True)
    with pytest.raises(PollError, match="timeout: not asked, no time was left"):
        over.check()


def test_whoever_is_late_had_a_time_that_is_said():
    given = Time(2.5, 0.0)
    assert given.problem(ONE, PollError("timeout", "one:9092: no answer in time")) == (
        "no answer in time (2.5 s, see enrichTimeout)"
    )
    assert given.problem(ONE, PollError("unreachable", "one:9092: refused")) == "refused"


def test_items_of_one_address_are_together():
    at_one = Broker(3, ("one", 9092))
    assert at_addresses([ONE, OTHER, at_one], lambda each: each.address) == [[ONE, at_one], [OTHER]]


def test_reasons_are_counted_the_most_frequent_first():
    assert undone([], 3, "groups") is None
    assert undone(["failed: a", "failed: a"], 3, "groups") == "2 of 3 groups: a"
    assert undone(["failed: a", "b", "failed: b"], 9, "groups") == "3 of 9 groups: b: 2; a: 1"
    many = undone([f"failed: {n}" for n in range(7)], 9, "groups")
    assert many.endswith("; and 2 more")


def test_some_names_stand_for_many():
    assert some([1, 2]) == "1, 2"
    assert some(range(20)).endswith(", 19")
    assert some(range(21)).endswith(", 19, and 1 more")

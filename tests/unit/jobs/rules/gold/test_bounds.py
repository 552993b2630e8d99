"""When something began or ended: between which times, and for how long."""

from datetime import datetime, timedelta

import pytest

from jobs.rules.gold.bounds import NOT_ENDED, Bounds, at_least_ms, end, event, ms, reopen
from jobs.rules.ids import log_id
from tests.support.silver_rows import START

LONG = {"began_after": START, "began_before": START + timedelta(seconds=1)}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("begin", "end_", "milliseconds", "at_least"),
    [
        (at(1), at(3), 2_000, 2_000),
        (at(1), at(2.9999), 1_999, 1_999),
        (at(1), at(1), 0, 0),
        (at(3), at(1), -2_000, 0),
        (None, at(1), None, 0),
        (at(1), None, None, 0),
    ],
)
def test_milliseconds_are_whole_and_known_where_both_times_are(
    begin: datetime | None, end_: datetime | None, milliseconds: int | None, at_least: int
) -> None:
    assert (ms(begin, end_), at_least_ms(begin, end_)) == (milliseconds, at_least)


def test_a_row_of_silver_begins_and_is_over_between_two_polls() -> None:
    row = {
        "first_poll": "s/1",
        "prev_sent_at": at(1),
        "valid_from": at(2),
        "superseded_poll": "s/3",
        "last_seen_sent_at": at(3),
        "valid_to": at(4),
    }
    assert Bounds.of_begin(row) == Bounds("s/1", at(1), at(2))
    assert Bounds.of_end(row) == Bounds("s/3", at(3), at(4))


def test_a_row_of_gold_is_over_between_two_polls() -> None:
    row = {"ended_poll": "s/3", "ended_after": at(3), "ended_before": at(4)}
    assert Bounds.of_ended(row) == Bounds("s/3", at(3), at(4))
    for name in ("ended_poll", "ended_before"):
        with pytest.raises(ValueError, match="what lasts has no bounds of its end"):
            Bounds.of_ended(row | {name: None})


@pytest.mark.parametrize(
    ("one", "other", "after", "before"),
    [
        ((at(1), at(2)), None, at(1), at(2)),
        ((at(1), at(4)), (at(2), at(3)), at(1), at(4)),
        ((at(2), at(3)), (at(1), at(4)), at(1), at(4)),
        ((None, at(3)), (at(1), at(4)), None, at(4)),
        ((at(1), at(4)), (None, at(3)), None, at(4)),
    ],
)
def test_of_two_changes_either_may_have_come_last(
    one: tuple[datetime | None, datetime],
    other: tuple[datetime | None, datetime] | None,
    after: datetime | None,
    before: datetime,
) -> None:
    merged = Bounds("s/1", *one).merged(None if other is None else Bounds("s/2", *other))
    assert merged == Bounds("s/1", after, before)


def test_it_lasted_at_least_from_when_it_was_seen_and_at_most_from_when_it_was_not() -> None:
    row = LONG | NOT_ENDED
    end(row, Bounds("s/3", at(3), at(4)))
    assert row == LONG | {
        "ended_poll": "s/3",
        "ended_after": at(3),
        "ended_before": at(4),
        "duration_ms_min": 2_000,
        "duration_ms_max": 4_000,
    }
    reopen(row)
    assert row == LONG | NOT_ENDED


def test_if_no_poll_came_before_the_first_nobody_knows_how_long_it_lasted_at_most() -> None:
    row = LONG | NOT_ENDED | {"began_after": None}
    end(row, Bounds("s/3", None, at(4)))
    assert (row["duration_ms_min"], row["duration_ms_max"]) == (0, None)


@pytest.mark.parametrize(
    ("poll", "source"), [("s/000000000001", "polls"), (log_id("s/1", 7), "log")]
)
def test_an_event_names_its_partition_its_opening_poll_and_the_source(
    poll: str, source: str
) -> None:
    place = {"cluster_id": "id-prod", "cluster": "prod", "topic": "t", "partition": 0}
    state = place | {"topic_id": "id1"}
    row = event(state, Bounds(poll, at(1), at(2)))
    assert row == state | {
        "id": row["id"],
        "poll": poll,
        "source": source,
        "began_after": at(1),
        "began_before": at(2),
    }


def test_an_id_is_the_md5_of_place_key_and_poll() -> None:
    state = {"cluster_id": "id-prod", "cluster": "prod", "topic": "t", "partition": 0}
    bounds = Bounds("s/000000000001", None, START)

    def id_of(topic_id: str | None, *key: str | int) -> str:
        return event(state | {"topic_id": topic_id}, bounds, *key)["id"]

    # printf "id-prod\nt\nid1\n0\ns/000000000001" | md5sum
    assert id_of("id1") == "ba03a5163335e86b8c9b50cfb19a9afc"
    # printf "id-prod\nt\n\n0\ns/000000000001" | md5sum
    assert id_of(None) == "d88088161615772349f84799b864b2f7"
    # printf "id-prod\nt\nid1\n0\n3\nleft\ns/000000000001" | md5sum
    assert id_of("id1", 3, "left") == "79b206170550bd6dae226c46b7884fa9"

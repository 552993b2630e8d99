"""Brokers that answer from an old image: what is found of them, and what it does to the bounds of
changes.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.silver.state import Header
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START, Answer, good_answer
from tests.support.silver_rounds import PARTITIONS, STALE, Lake

STREAM = "20261101T000000Z-00000000"
ALL = {0: None, 1: None, 2: None}
STEP = timedelta(seconds=10)


def led(epoch: int, *isr: int) -> list[dict[str, Any]]:
    """One partition of a topic."""
    state = {
        "error_code": 0,
        "leader": isr[0],
        "leader_epoch": epoch,
        "replicas": [0, 1, 2],
        "isr": list(isr),
    }
    return [{**state, "offline_replicas": []}]


WHOLE, SHRUNK, MOVED = led(5, 0, 1, 2), led(5, 0, 1), led(6, 1)


def at(n: int) -> datetime:
    return START + n * STEP


def poll(
    n: int,
    broker: int,
    state: list[dict[str, Any]],
    *witnesses: Header,
    listed: Sequence[int] = (0, 1, 2),
) -> Answer:
    answer = good_answer(STREAM, n, at(n), dict.fromkeys(listed), {"orders": state}, batch=n)
    answer.broker_id, answer.witnesses = broker, [dict(each) for each in witnesses] or None
    return answer


def said(
    n: int, broker: int, *, is_behind: bool | None = None, behind_ms: int = 5_000, **far: Any
) -> Header:
    """What another broker said with poll n; it could not be reached where it does not say whether
    it was behind.
    """
    heard = None if is_behind is None else at(n)
    return {
        "broker_id": broker,
        "broker": f"host{broker}:9092",
        "sent_at": heard,
        "received_at": heard and heard + timedelta(milliseconds=50),
        "error_kind": "unreachable" if is_behind is None else None,
        "is_behind": is_behind,
        "behind_ms": behind_ms if is_behind else None,
        "partitions_behind": 1 if is_behind else None,
        "epochs_behind": 1 if is_behind else None,
        **far,
    }


def taken(answers: Sequence[Answer], cuts: Sequence[int] = ()) -> Lake:
    """History of the answers, in rounds that are cut there."""
    lake, bronze, ids = (
        Lake("c"),
        bronze_rows("c", list(answers)),
        [answer.poll_id for answer in answers],
    )
    for begin, end in zip((0, *cuts), (*cuts, len(ids)), strict=True):
        lake.take(bronze, ids[begin:end], "id-prod")
    return lake


def test_a_stretch_lasts_from_the_first_answer_that_is_behind_to_the_first_that_is_not() -> None:
    lake = taken(
        [
            poll(0, 2, WHOLE),
            poll(1, 0, WHOLE),
            poll(2, 1, MOVED, said(2, 2, is_behind=True, epochs_behind=3)),
            poll(3, 0, MOVED, said(3, 2, is_behind=True, partitions_behind=4)),
            poll(4, 1, MOVED),
            poll(5, 2, MOVED),
            poll(6, 0, MOVED),
        ]
    )
    (row,) = lake.tables[STALE].values()
    heard = timedelta(milliseconds=50)
    assert (row["broker_id"], row["broker"], row["end_reason"], row["is_live"]) == (
        2,
        "host2:9092",
        "caught_up",
        False,
    )
    assert (row["began_after"], row["began_before"]) == (at(0), at(2) + heard)
    assert (row["ended_after"], row["ended_before"]) == (at(3), at(5) + 2 * heard)
    assert (row["partitions_behind"], row["epochs_behind"]) == (4, 3)
    assert row["duration_ms_min"] == 9_950
    assert row["duration_ms_max"] == 50_100


def test_a_broker_that_said_nothing_had_changed_was_not_behind_if_another_said_so_later() -> None:
    """The last to say so may have been behind already."""
    cut_off = poll(4, 1, MOVED, said(4, 2, is_behind=True))
    polls = [poll(0, 2, WHOLE), poll(1, 2, WHOLE), poll(2, 0, WHOLE), poll(3, 2, WHOLE), cut_off]
    assert stale_from(polls) == at(1)
    assert stale_from([*polls[:3], cut_off]) == at(1)
    assert stale_from([*polls[:2], cut_off]) == at(0), "its news were news"
    # It was asked, and knew the news.
    knew = poll(3, 1, SHRUNK, said(3, 2, is_behind=False))
    assert stale_from([*polls[:3], knew, cut_off]) == at(3)


def stale_from(polls: Sequence[Answer]) -> datetime | None:
    (row,) = taken(polls).tables[STALE].values()
    after: datetime | None = row["began_after"]
    return after


def test_what_cannot_be_reached_has_ended_and_may_be_stale_still() -> None:
    behind = poll(1, 1, MOVED, said(1, 2, is_behind=True))
    lake = taken([poll(0, 0, WHOLE), behind, poll(2, 0, MOVED, said(2, 2))])
    (row,) = lake.tables[STALE].values()
    assert (row["end_reason"], row["ended_after"]) == (
        "unreachable",
        at(1) + timedelta(milliseconds=50),
    )
    assert row["began_after"] is None, "it never answered anything else"
    assert taken([poll(0, 0, WHOLE), behind]).tables[STALE].popitem()[1]["is_live"]


def test_a_moment_is_no_stretch() -> None:
    """Images spread from broker to broker within milliseconds."""
    for behind_ms, episodes in ((250, 0), (999, 0), (1_000, 1)):
        moved = poll(1, 1, MOVED, said(1, 0, is_behind=True, behind_ms=behind_ms))
        assert len(taken([poll(0, 0, WHOLE), moved, poll(2, 0, MOVED)]).tables[STALE]) == episodes


def test_a_stretch_begins_no_later_than_the_answer_that_showed_it() -> None:
    """A clock was set back between the answer that was not behind and the one that was."""
    set_back = at(0) + timedelta(seconds=1)
    behind = said(2, 2, is_behind=True, sent_at=at(0), received_at=set_back)
    assert (
        stale_from([poll(0, 0, WHOLE), poll(1, 2, SHRUNK), poll(2, 1, MOVED, behind)]) == set_back
    )


def bounds(lake: Lake) -> tuple[datetime, datetime]:
    """When the second state of the partition began: after, and before."""
    first, second = sorted(lake.tables[PARTITIONS].values(), key=lambda row: row["first_poll"])
    assert (first["last_seen_sent_at"], first["valid_to"]) == (
        second["prev_sent_at"],
        second["valid_from"],
    )
    return second["prev_sent_at"], second["valid_from"]


def test_a_broker_that_is_behind_proves_not_that_nothing_had_changed() -> None:
    quiet = [poll(0, 0, WHOLE), poll(1, 1, WHOLE), poll(2, 2, WHOLE)]
    answered = at(3) + timedelta(milliseconds=100)
    kept = led(6, 1, 2)
    assert bounds(taken([*quiet, poll(3, 0, kept, said(3, 2, is_behind=False))])) == (
        at(2),
        answered,
    )
    assert bounds(taken([*quiet, poll(3, 0, kept, said(3, 2, is_behind=True))])) == (
        at(1),
        answered,
    )
    # It caught up before anybody asked, and lost what it led.
    lost = poll(3, 1, MOVED, said(3, 0, is_behind=False))
    assert bounds(taken([poll(0, 1, WHOLE), poll(1, 2, WHOLE), poll(2, 0, WHOLE), lost])) == (
        at(1),
        answered,
    )
    # It lost what it led, and has it again.
    again = poll(3, 1, led(7, 0, 1, 2), said(3, 0, is_behind=False))
    assert bounds(taken([poll(0, 1, WHOLE), poll(1, 2, WHOLE), poll(2, 0, WHOLE), again])) == (
        at(1),
        answered,
    )
    led_on = poll(3, 1, led(6, 0, 1, 2), said(3, 0, is_behind=False))
    assert bounds(taken([poll(0, 1, WHOLE), poll(1, 2, WHOLE), poll(2, 0, WHOLE), led_on])) == (
        at(2),
        answered,
    )
    # Its own news are news: it was not behind when it told them.
    news = [poll(0, 0, WHOLE), poll(1, 2, SHRUNK), poll(2, 0, MOVED, said(2, 2, is_behind=True))]
    rows = sorted(taken(news).tables[PARTITIONS].values(), key=lambda row: row["first_poll"])
    assert rows[2]["prev_sent_at"] == at(1)


def made_again(answer: Answer, topic_id: str = "id-again") -> Answer:
    answer.topics["orders"]["topic_id"] = topic_id
    return answer


def test_who_leads_a_topic_no_more_that_was_made_again_has_lost_nothing() -> None:
    """The poll before is as good as any other: it shows the topic of before."""
    quiet = [poll(0, 0, WHOLE), poll(1, 1, WHOLE), poll(2, 0, WHOLE)]
    again = made_again(poll(3, 1, led(0, 1, 2), said(3, 0, is_behind=False)))
    assert bounds(taken([*quiet, again]))[0] == at(2)


def test_a_topic_that_two_polls_lack_was_last_seen_by_a_poll_that_proves_it() -> None:
    quiet = [poll(0, 0, WHOLE), poll(1, 1, WHOLE), poll(2, 2, WHOLE)]
    without = [poll(n, 0, WHOLE) for n in (3, 4)]
    without[0].witnesses = [dict(said(3, 2, is_behind=True))]
    for each in without:
        each.topics = {}
    (row,) = taken([*quiet, *without]).tables[PARTITIONS].values()
    assert row["last_seen_sent_at"] == at(1), "broker 2 was behind when it answered"
    assert row["superseded_poll"] == without[0].poll_id


def test_news_of_a_broker_that_is_not_listed_wait_until_another_tells_them() -> None:
    begun = [poll(0, 0, WHOLE), poll(1, 1, SHRUNK, listed=(0, 1))]
    alone = poll(2, 2, WHOLE)
    waits = taken([*begun, alone]).state
    assert waits is not None
    assert waits.waiting == (alone.poll_id,)
    better = taken([*begun, alone, poll(3, 0, SHRUNK, listed=(0, 1))])
    assert len(better.tables[PARTITIONS]) == 2, "it is discarded"
    silent = taken([*begun, poll(2, 2, WHOLE, said(2, 0))]).state
    assert silent is not None
    assert silent.waiting == (alone.poll_id,), "who cannot be reached confirms nothing"
    for confirmed in (
        poll(2, 2, WHOLE, said(2, 0, is_behind=False)),
        poll(2, 2, WHOLE, listed=(2,)),  # the first of a cluster that starts again
        poll(2, 0, WHOLE),
    ):
        assert len(taken([*begun, confirmed]).tables[PARTITIONS]) == 3


TOLD = st.tuples(
    st.sampled_from([0, 1, 2]), st.sampled_from([True, False, None]), st.sampled_from([200, 3_000])
)
ANSWERS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from([WHOLE, SHRUNK, MOVED]),
        st.lists(TOLD, max_size=2),
        st.sampled_from([(0, 1, 2), (0, 1)]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(150))
@given(ANSWERS, st.data())
def test_rows_are_the_same_however_polls_are_cut_into_rounds(
    answers: list[Any], data: st.DataObject
) -> None:
    polls = [
        poll(
            n,
            broker,
            state,
            *(said(n, each, is_behind=told, behind_ms=late) for each, told, late in others),
            listed=listed,
        )
        for n, (broker, state, others, listed) in enumerate(answers)
    ]
    cuts = sorted(
        data.draw(st.sets(st.integers(1, max(1, len(polls) - 1)), max_size=4))
        & set(range(1, len(polls)))
    )
    whole, cut = taken(polls), taken(polls, cuts)
    assert cut.rows == whole.rows
    assert cut.state == whole.state
    for row in whole.tables[STALE].values():
        after, before = row["began_after"], row["began_before"]
        assert after is None or after <= before
        assert row["is_live"] == (row["ended_before"] is None)
        assert row["is_live"] or before <= row["ended_after"] <= row["ended_before"]

"""What a round takes of a cluster, and whether it has to be in the round at all."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from jobs.rules import takes
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import Answered, Poll, State
from jobs.rules.takes import NOTED_AFTER, PARTITIONS_A_PART, Header, Take, is_due, take
from jobs.rules.teller import Teller

BEGIN = datetime(2026, 11, 1, 23, 59, tzinfo=UTC)
STREAM = "20261101T000000Z-00000000"
SAME, NEWS = b"same", b"news"


def at(n: int) -> datetime:
    return BEGIN + timedelta(seconds=10 * n)


def poll_id(n: int) -> str:
    return f"{STREAM}/{n:012d}"


def header(n: int, digest: bytes | None = SAME, partitions: int = 10, **more: Any) -> Header:
    return {
        "poll_id": poll_id(n),
        "stream": STREAM,
        "n": n,
        "day": at(n).date(),
        "outcome": "ok",
        "cluster_id": "id",
        "scheduled_at": at(n),
        "received_at": at(n),
        "digest": digest,
        "answers": (),
        "interval_ms": 10_000,
        "partition_count": partitions,
        "broker_id": None,
        "broker": None,
        "sent_at": at(n),
        "witnesses": None,
        "active_controller_id": None,
        "is_key_frame": False,
        **more,
    }


def answer(n: int, kind: str, digest: bytes | None, outcome: str = "ok") -> Header:
    """The header of an answer beside a poll, in bronze."""
    answered_at = at(n) if outcome == "ok" else None
    place = {"poll_id": poll_id(n), "cluster": "c", "record": "answer", "kind": kind}
    return place | {
        "asked_at": at(n),
        "answered_at": answered_at,
        "outcome": outcome,
        "digest": digest,
    }


def failed(n: int) -> Header:
    return header(n, None, 0, outcome="failed", cluster_id=None, received_at=None)


def after(n: int, **more: Any) -> State:
    """The state after the polls up to n, all good and the same."""
    last = Poll(poll_id(n), at(n), at(n), 10_000)
    return State(cluster_id="id", last=last, digest=SAME, seen={STREAM: n}, **more)


def taken(state: State, *headers: Header, most: int = 60, parts: int = 1) -> Take:
    return take("prod", state, parts, headers, claimed_id="id", most_polls=most)


# --- which polls, and what of them ---


def test_a_poll_that_says_nothing_new_is_taken_without_its_records() -> None:
    assert taken(after(0), header(1), failed(2)).polls == {poll_id(1): [], poll_id(2): []}


def test_from_the_first_poll_with_news_on_all_records_are_read() -> None:
    found = taken(after(0), header(1), header(2, NEWS), failed(3), header(4))
    assert found.polls == {
        poll_id(1): [],
        poll_id(2): ["topic"],
        poll_id(3): [],
        poll_id(4): ["topic"],
    }
    assert found.records == {"topic"}


def test_offsets_that_change_with_each_asking_are_no_news() -> None:
    """History has no table of them."""
    headers = headers_of(
        [
            row
            for n in (1, 2)
            for row in (header(n, record="poll", cluster="c"), answer(n, "offsets", None))
        ]
    )
    found = taken(after(0), *headers)
    assert found.polls == {poll_id(1): [], poll_id(2): []}
    assert not is_due(found, after(0), headers, (), at(3))


def test_a_poll_without_digest_is_looked_at() -> None:
    assert taken(after(0), header(1, None)).records == {"topic"}


def test_enrichments_are_read_by_kind() -> None:
    state = after(0, enriched={"quorum": Answered(poll_id(0), at(0), at(0), 10_000, SAME)})
    answers = [
        answer(1, "quorum", SAME),
        answer(1, "configs", NEWS),
        answer(1, "elr", None, "failed: timeout"),
    ]
    (polled,) = headers_of([header(1, record="poll", cluster="c"), *answers])
    assert taken(state, polled).polls == {poll_id(1): ["configs"]}


def test_answers_of_another_cluster_are_not_read() -> None:
    assert taken(after(0), header(1, NEWS, cluster_id="other")).records == set()
    assert take("prod", State(), 1, [header(0)], claimed_id=None, most_polls=60).records == set(), (
        "whose id that is, is not known yet"
    )
    assert take("prod", State(), 1, [header(0)], claimed_id="id", most_polls=60).records == {
        "topic"
    }


def test_a_round_takes_so_many_polls_beside_those_that_wait() -> None:
    waiting = (poll_id(1), poll_id(2))
    found = taken(after(2, waiting=waiting), *(header(n, NEWS) for n in range(1, 7)), most=3)
    assert list(found.polls) == [poll_id(n) for n in range(1, 6)]


def test_a_round_opens_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takes, "PARTITIONS_A_ROUND", 20)
    assert list(taken(after(0), *(header(n, NEWS) for n in range(1, 5))).polls) == [
        poll_id(1),
        poll_id(2),
    ]
    assert len(taken(after(0), *(header(n) for n in range(1, 5))).polls) == 4, (
        "what is not opened does not count"
    )
    assert list(taken(after(0), header(1, NEWS, 30), header(2, NEWS)).polls) == [poll_id(1)], (
        "one is always taken"
    )


def test_days_are_those_of_the_polls() -> None:
    assert taken(after(0), header(1), header(6), most=1).days == [str(date(2026, 11, 1))]
    assert taken(after(0), header(1), header(6)).days == ["2026-11-01", "2026-11-02"]


@pytest.mark.parametrize(
    ("partitions", "before", "parts"),
    [
        (0, 1, 1),
        (PARTITIONS_A_PART, 1, 1),
        (PARTITIONS_A_PART + 1, 1, 2),
        (5 * PARTITIONS_A_PART, 1, 8),
        (10, 4, 4),
        (5 * PARTITIONS_A_PART, 4, 8),
    ],
)
def test_parts_are_powers_of_two_and_never_fewer(partitions: int, before: int, parts: int) -> None:
    assert taken(after(0), header(1, NEWS, partitions), failed(2), parts=before).parts == parts


# --- whether it is due ---


def due(
    state: State,
    *headers: Header,
    deadlines: tuple[datetime | None, ...] = (),
    now: datetime | None = None,
) -> bool:
    return is_due(taken(state, *headers), state, headers, deadlines, now or at(4))


def test_news_is_due() -> None:
    assert due(after(0), header(1, NEWS))
    assert due(after(0), header(1), header(2, NEWS))


def test_news_behind_as_many_polls_as_a_round_takes_are_due_at_once() -> None:
    headers = [*(header(n) for n in (1, 2, 3)), header(4, NEWS)]
    found = taken(after(0), *headers, most=3)
    assert poll_id(4) not in found.polls
    assert is_due(found, after(0), headers, (), at(5))
    assert not is_due(taken(after(0), *headers[:3], most=3), after(0), headers[:3], (), at(5))


def test_polls_that_say_nothing_new_are_due_after_a_while() -> None:
    for header_ in (header(1), failed(1), header(1, NEWS, cluster_id="other")):
        assert not due(after(0), header_, now=at(1) + NOTED_AFTER)
        assert due(after(0), header_, now=at(1) + NOTED_AFTER + timedelta(microseconds=1))
    late = at(1) + NOTED_AFTER + timedelta(microseconds=1)
    assert due(after(0), header(1), header(2), now=late), "the first has waited"


def test_a_missing_topic_is_decided_by_the_next_good_answer() -> None:
    state = after(0, missing={"orders": "gone"})
    assert due(state, header(1))
    assert not due(state, failed(1))
    assert not due(state, header(1, cluster_id="other"))


def test_a_deadline_is_due_once_a_poll_was_answered_after_it() -> None:
    assert due(after(0), header(2), deadlines=(None, at(1)))
    assert not due(after(0), header(1), deadlines=(None, at(1)))
    assert not due(after(0), failed(2), deadlines=(at(1),))


def test_polls_that_wait_are_due_with_the_next_answer_and_not_alone() -> None:
    state = after(1, waiting=(poll_id(1),), missing={"orders": "gone"})
    waits = header(1, NEWS)
    assert not due(state, waits, deadlines=(at(0),), now=at(1_000)), (
        "they were looked at, and nothing has come since"
    )
    assert due(state, waits, header(2))
    assert due(after(1, waiting=(poll_id(1),)), header(2)), "bronze has kept no more of it"
    assert due(state, waits, header(2, NEWS))
    assert not due(state, waits, failed(2), now=at(2)), "a failed poll decides nothing"


# --- who tells ---


def test_the_first_answer_of_a_large_cluster_is_the_last_poll_of_a_round() -> None:
    large = [header(n, NEWS, 2 * PARTITIONS_A_PART) for n in range(4)]
    lost = failed(0)
    found = taken(State(), lost, *large[1:])
    assert (found.first_poll, list(found.polls)) == (poll_id(1), [poll_id(0), poll_id(1)])
    refused = header(0, NEWS, 2 * PARTITIONS_A_PART, cluster_id="other")
    assert taken(State(), refused, *large[1:]).first_poll == poll_id(1)
    assert taken(after(0), *large[1:]).first_poll is None, "one was accepted"
    small = [header(n, NEWS) for n in range(4)]
    assert taken(State(), *small).first_poll is None
    for parts in (1, 2):
        by_log = {"claimed_id": "id", "most_polls": 60, "teller": Teller(by_log=True)}
        of_log = take("prod", State(), parts, large, **by_log)
        assert (of_log.first_poll, of_log.parts, of_log.is_large) == (None, parts, parts == 2), (
            "the log tells partitions"
        )
    assert found.is_large


def test_a_round_that_ends_before_polls_tell_is_the_logs_alone() -> None:
    headers, by_log = [header(n, NEWS) for n in range(1, 4)], Teller(True, poll_id(3))
    given = {"claimed_id": "id", "teller": by_log}
    assert take("prod", after(0), 1, headers, most_polls=3, **given).teller == by_log
    assert take("prod", after(0), 1, headers, most_polls=2, **given).teller == Teller(True)

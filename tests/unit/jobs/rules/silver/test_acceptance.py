"""Which answers are believed, and when."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.rules.silver.acceptance import (
    MOST_FAILED,
    are_believed,
    claims,
    highest_after,
    is_by_unlisted,
    let_go,
    outcome,
)
from metadata_source.kafka_constants import KEY_FRAME_EVERY
from schemas import silver
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START, Answer, good_answer
from tests.support.silver_cases import (
    STREAM,
    Row,
    at,
    epochs,
    failed,
    heard,
    led,
    poll,
    rows,
    shown_by,
    shows,
    taken,
    unreachable,
    waits,
)
from tests.support.silver_rounds import Lake

TWO = [{"broker_id": 0}, {"broker_id": 1}]
ERROR = {"t": {"topic_id": "A", "error_code": 5, "is_internal": False, "partitions": []}}
NOTHING: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("header", "cluster_id", "expected"),
    [
        ({"outcome": "ok", "cluster_id": "A"}, "A", "answered"),
        ({"outcome": "ok", "cluster_id": None}, "A", "answered"),
        ({"outcome": "ok", "cluster_id": "B"}, "A", "refused"),
        ({"outcome": "ok", "cluster_id": "A"}, None, "refused"),
        ({"outcome": "ok", "cluster_id": None}, None, "refused"),
        ({"outcome": "failed", "cluster_id": None}, "A", "failed"),
    ],
    ids=[
        "answered",
        "answered: Metadata v1 tells no id",
        "refused: of another cluster",
        "refused: the alias has no id yet",
        "refused: nobody knows whose",
        "failed",
    ],
)
def test_whether_a_poll_was_answered(header: Row, cluster_id: str | None, expected: str) -> None:
    assert outcome(header, cluster_id) == expected


# --- which answers are stale ---

STALE: dict[str, tuple[Sequence[Row], bool]] = {
    "fresh: an epoch rose": ([shows(5), shows(6)], False),
    "fresh: no epoch is lower": ([shows(5), shows(5)], False),
    "stale: an epoch is lower": ([shows(5), shows(4)], True),
    "stale: one of several": ([shows(5, 7), shows(6, 6)], True),
    "stale: an error in between told no epoch": ([shows(5), ERROR, shows(4)], True),
    "stale: an old version of Metadata in between told none": (
        [shows(5), shows(None), shows(4)],
        True,
    ),
    "stale: absent once is not gone": ([shows(5), NOTHING, shows(4)], True),
    "fresh: absent twice is gone": ([shows(5), NOTHING, NOTHING, shows(4)], False),
    "fresh: another id is another topic": ([shows(5), shows(0, topic_id="B")], False),
    "stale: no id is taken for the same": ([shows(5), shows(4, topic_id=None)], True),
    "stale: ids are never used again": ([shows(5), shows(0, topic_id="B"), shows(5)], True),
    "stale: nor is the one before the last": (
        [shows(5), shows(0, topic_id="B"), shows(0, topic_id="C"), shows(5)],
        True,
    ),
    "stale: nor where the topic is absent": (
        [shows(5), shows(0, topic_id="B"), NOTHING, shows(5)],
        True,
    ),
    "fresh: of a name that nobody has any more": (
        [shows(5), shows(0, topic_id="B"), NOTHING, NOTHING, shows(5)],
        False,
    ),
    "fresh: another id, of a topic whose id an answer did not tell": (
        [shows(5), shows(5, topic_id=None), shows(0, topic_id="B")],
        False,
    ),
    "fresh: a partition that a whole answer lacks has ended": (
        [shows(5, 7), shows(5), shows(5, 6)],
        False,
    ),
}
"""Answers each 30 s, and whether the last one waits."""


@pytest.mark.parametrize("case", STALE)
def test_one_lower_epoch_under_the_same_topic_id_is_stale(case: str) -> None:
    answers, is_stale = STALE[case]
    assert waits(taken(*shown_by(None, *answers))) == is_stale


BEFORE = poll(0, 0, epochs(t=(5, 3), u=(7,)), topic_id=None)
FELL = epochs(t=(0, 0), u=(7,))

SHOWN: dict[str, tuple[int | None, Sequence[Row]]] = {
    "another topic: the broker that showed the higher epochs": (0, []),
    "another topic: that broker, as a witness": (1, [heard(0)]),
    "another topic: though a third one is silent": (1, [unreachable(2), heard(0)]),
    "stale: a broker that never showed the higher epochs": (1, []),
    "stale: two such": (1, [heard(2)]),
    "stale: that broker said something else": (1, [heard(0, is_behind=None)]),
    "stale: that broker is behind": (1, [heard(0, is_behind=True)]),
    "stale: that broker is silent": (1, [unreachable(0)]),
    "stale: nobody knows who answered": (None, []),
}
"""Who shows that all epochs of one topic without an id fell."""


@pytest.mark.parametrize("case", SHOWN)
def test_epochs_that_fall_without_topic_ids(case: str) -> None:
    broker, witnesses = SHOWN[case]
    found = taken(BEFORE, poll(1, broker, FELL, *witnesses, topic_id=None))
    assert waits(found) == case.startswith("stale")


def test_a_fall_of_several_topics_waits() -> None:
    """One topic that was made again alone is told from an old image."""
    assert waits(taken(BEFORE, poll(1, 0, epochs(t=(0, 0), u=(0,)), topic_id=None))) == 1


def test_where_nobody_knows_who_answered_before_a_fall_waits() -> None:
    before = poll(0, None, epochs(t=(5, 3)), topic_id=None)
    assert waits(taken(before, poll(1, None, epochs(t=(0, 0)), topic_id=None))) == 1


def test_the_first_better_answer_discards_those_that_wait() -> None:
    old = poll(1, 1, FELL, topic_id=None)
    better = poll(2, 2, epochs(t=(5, 3), u=(8,)), topic_id=None)
    lake = taken(BEFORE, old, better)
    assert waits(lake) == 0
    assert [row["end_reason"] for row in rows(lake, silver.TOPIC_SNAPSHOTS)] == [None, None]


# --- news of a broker that is not listed ---


def answer_of(broker: int | None, witnesses: list[Row] | None, brokers: list[int] | None) -> Row:
    listed = None if brokers is None else [{"broker_id": each} for each in brokers]
    return {"broker_id": broker, "witnesses": witnesses, "brokers": listed}


@pytest.mark.parametrize(
    ("header", "listed", "is_in_doubt"),
    [
        (answer_of(2, None, [0, 1, 2]), {0, 1}, True),
        (answer_of(2, [unreachable(0)], [0, 1, 2]), {0, 1}, True),
        (answer_of(2, [unreachable(0), heard(1)], [0, 1, 2]), {0, 1}, False),
        (answer_of(1, None, [0, 1, 2]), {0, 1}, False),
        (answer_of(2, None, [2]), {0, 1}, False),
        (answer_of(2, None, None), {0, 1}, False),
        (answer_of(2, None, [0, 1, 2]), set(), False),
        (answer_of(None, None, [0, 1, 2]), {0, 1}, False),
    ],
    ids=[
        "in doubt: not listed",
        "in doubt: a witness that did not answer confirms nothing",
        "a witness answered",
        "it is listed",
        "the first of a cluster that starts again",
        "it lists nobody",
        "nobody is listed yet",
        "nobody knows who answered",
    ],
)
def test_whether_a_broker_that_is_not_listed_is_in_doubt(
    header: Row, listed: set[int], is_in_doubt: bool
) -> None:
    assert is_by_unlisted(header, listed) == is_in_doubt


# --- whose word that nothing had changed proves nothing ---

LED = led(5, 0, 1, 2)
LOSSES: dict[str, tuple[int, Row, Sequence[int]]] = {
    "lost: it is not listed": (2, LED, (0, 1)),
    "lost: its place in an ISR": (2, led(5, 0, 1), (0, 1, 2)),
    "lost: a leadership": (0, led(6, 1, 0, 2), (0, 1, 2)),
    "lost: a leadership to nobody": (0, led(6, 0, 1, 2) | {"leader": -1}, (0, 1, 2)),
    "lost: it leads as before, two epochs later": (0, led(7, 0, 1, 2), (0, 1, 2)),
    "kept: one epoch later": (0, led(6, 0, 1, 2), (0, 1, 2)),
    "kept: epochs are not known": (0, led(None, 0, 1, 2), (0, 1, 2)),
    "kept: another lost its place": (2, led(5, 0, 2), (0, 1, 2)),
    "kept: another led": (2, led(7, 1, 0, 2), (0, 1, 2)),
}
"""The broker that answered last; the partition and the brokers that another one shows next."""


def shown_after(broker: int, state: Row, listed: Sequence[int], *, topic_id: str = "A") -> int:
    """The poll that proves the state before, of the first three, which show the same."""
    quiet = [poll(n, each, {"t": [LED], "u": [led(0, 3)]}) for n, each in enumerate((1, 1, broker))]
    other = 0 if broker == 2 else 2
    news = {"t": [state], "u": [led(1, 3)]}
    after = poll(3, other, news, heard(broker), listed=listed)
    after.topics["t"]["topic_id"] = topic_id
    for each in quiet:
        each.topics["t"]["topic_id"] = "A"
    (last,) = (
        row
        for row in rows(taken(*quiet, after), silver.PARTITION_SNAPSHOTS)
        if (row["topic"], row["leader_epoch"]) == ("u", 1)
    )
    return [at(n) for n in range(3)].index(last["prev_sent_at"])


@pytest.mark.parametrize("case", LOSSES)
def test_the_word_of_a_broker_that_lost_something_since_proves_nothing(case: str) -> None:
    assert shown_after(*LOSSES[case]) == (1 if case.startswith("lost") else 2)


def test_who_leads_a_topic_no_more_that_was_made_again_has_lost_nothing() -> None:
    """The poll before is as good as any other: it shows the topic of before."""
    assert shown_after(0, led(0, 1, 2), (0, 1, 2), topic_id="B") == 2


# --- levels of brokers ---


@pytest.mark.parametrize(
    ("broker", "level", "brokers", "expected"),
    [
        (1, 22, [0, 1], {0: 20, 1: 22}),
        (2, 22, [0, 2], {0: 20, 2: 22}),
        (2, 22, [0, 1], {0: 20, 1: 21}),
        (1, None, [0, 1], {0: 20, 1: 21}),
        (None, 22, [0, 1], {0: 20, 1: 21}),
        (0, 20, None, {}),
    ],
    ids=["another level", "a new broker", "not listed", "not told", "nobody knows", "no list"],
)
def test_the_highest_level_is_kept_of_brokers_that_are_listed(
    broker: int | None, level: int | None, brokers: list[int] | None, expected: dict[int, int]
) -> None:
    before = {0: 20, 1: 21}
    header = answer_of(broker, None, brokers) | {"metadata_version_highest": level}
    assert highest_after(header, before) == expected
    assert before == {0: 20, 1: 21}


# --- when stale answers are believed ---


def test_stale_answers_are_believed_after_five_over_a_minute() -> None:
    times = [START + timedelta(seconds=15 * n) for n in range(5)]
    headers = [
        {"received_at": each, "interval_ms": 15_000, "broker_id": n % 2, "brokers": TWO}
        for n, each in enumerate(times)
    ]
    assert are_believed(headers, START)
    assert not are_believed(headers[:4], START)
    assert not are_believed([headers[0], *headers[:4]], START)
    # The poller's clock stepped back: no time passed until it has caught up.
    assert not are_believed(headers, times[1])


@pytest.mark.parametrize(
    ("interval_ms", "count"), [(1_000, 121), (10_000, 13), (15_000, 10), (30_000, 10)]
)
def test_stale_answers_are_believed_by_count_while_the_clock_that_was_ahead_stands(
    interval_ms: int, count: int
) -> None:
    """One poll ten years ahead, and no time would pass for ten years."""
    ahead = START + timedelta(days=3_650)
    headers = [
        {
            "received_at": START + timedelta(milliseconds=interval_ms * n),
            "interval_ms": interval_ms,
            "broker_id": n % 2,
            "brokers": TWO,
        }
        for n in range(count)
    ]
    assert are_believed(headers, ahead)
    assert not are_believed(headers[1:], ahead)
    one = [{**each, "broker_id": 0} for each in headers]
    assert not are_believed(one, ahead), "of one broker however many"


def test_nothing_is_believed_because_one_broker_repeats_it() -> None:
    times = [START + timedelta(seconds=30 * n) for n in range(9)]
    one: list[dict[str, Any]] = [
        {"received_at": each, "interval_ms": 30_000, "broker_id": 0, "brokers": TWO}
        for each in times
    ]
    assert not are_believed(one, START)
    assert are_believed([*one, {**one[-1], "broker_id": 1}], START)
    assert are_believed([{**each, "brokers": TWO[:1]} for each in one], START), "there is no other"
    assert are_believed([{**each, "broker_id": None} for each in one], START), (
        "nobody knows who answered"
    )


def test_an_interval_that_is_not_known_is_no_time() -> None:
    of = {"received_at": START, "interval_ms": None, "broker_id": None, "brokers": TWO}
    assert not are_believed([of] * 100, START)


# --- which answers need not wait ---


def by_broker(answers: list[Answer], broker: int) -> list[Answer]:
    """The same, answered by one of the two brokers that the cluster lists."""
    brokers = {each: (f"host{each}", 9092, None) for each in (0, 1)}
    return [replace(answer, broker_id=broker, brokers=brokers) for answer in answers]


def in_rounds(answers: list[Answer], each: int) -> Lake:
    """Rounds of so many polls."""
    lake, bronze = Lake("c"), bronze_rows("c", answers)
    for first in range(0, len(answers), each):
        lake.take(bronze, [a.poll_id for a in answers[first : first + each]], "id-prod")
        assert lake.state is not None
        assert len(lake.state.waiting) <= MOST_FAILED + 10
    return lake


def test_answers_of_one_broker_do_not_pile_up_while_they_wait() -> None:
    """A cluster that came back from an older snapshot, of which one broker alone can be reached.
    The oldest answers are let go that those after them do not need; they are of the gap before.
    """
    before, *old = shown_by(None, shows(5), *[shows(4)] * 61)
    answers = [*by_broker([before], 1), *by_broker(old[:60], 0), *by_broker(old[60:], 1)]
    whole, by_one, by_seven = (in_rounds(answers, each) for each in (len(answers), 1, 7))
    assert by_one.tables == by_seven.tables == whole.tables
    assert by_one.state == by_seven.state == whole.state
    waits = in_rounds(answers[:-1], 1).state
    assert waits is not None
    assert [poll_id[-2:] for poll_id in waits.waiting] == ["56", "57", "58", "59", "60"]
    assert waits.stale_polls == 55
    assert whole.state is not None
    assert (whole.state.waiting, whole.state.stale_polls) == ((), 0)
    (gap,) = whole.tables[silver.POLL_GAPS.full_name].values()
    assert (gap["stale_polls"], gap["until_poll"][-2:], gap["reason"]) == (55, "56", "stale")


def test_failed_polls_do_not_pile_up_behind_an_answer_that_waits() -> None:
    before, old, *later = shown_by(None, shows(5), *[shows(4)] * (MOST_FAILED + 20), shows(5))
    answers = [before, old, *map(failed, later[:-1]), later[-1]]
    whole, by_one = in_rounds(answers, len(answers)), in_rounds(answers, 1)
    assert by_one.tables == whole.tables
    (gap,) = whole.tables[silver.POLL_GAPS.full_name].values()
    assert (gap["failed_polls"], gap["stale_polls"], gap["reason"]) == (
        MOST_FAILED + 19,
        1,
        "failed",
    )
    waits = in_rounds(answers[: MOST_FAILED + 2], 1).state
    assert waits is not None
    assert len(waits.waiting) == MOST_FAILED + 1
    none = in_rounds(answers[: MOST_FAILED + 3], 1).state
    assert none is not None
    assert (none.waiting, none.failed_polls, none.stale_polls) == ((), MOST_FAILED + 1, 1)


def test_an_answer_is_not_read_without_those_before_it_up_to_a_key_frame() -> None:
    """Answers tell what differs from the one before; only a key frame can begin those that stay."""
    header = {"broker_id": 0, "brokers": TWO, "interval_ms": 1_000}
    waiting = [
        (
            header | {"received_at": at, "scheduled_at": at, "is_key_frame": n % 75 == 0},
            n == 0 or n > MOST_FAILED + 20,
        )
        for n, at in ((n, START + n * KEY_FRAME_EVERY / 75) for n in range(390))
    ]
    assert let_go(waiting[:1], START) == 0
    assert let_go(waiting[: MOST_FAILED + 1], START) == 0
    assert let_go(waiting[: MOST_FAILED + 2], START) == MOST_FAILED + 2, (
        "the next answer is a key frame"
    )
    begins = let_go(waiting, START)
    assert begins == 300
    within = {"scheduled_at": START + KEY_FRAME_EVERY}
    soon = [
        waiting[0],
        *((each | within, is_answer) for each, is_answer in waiting[1 : MOST_FAILED + 2]),
    ]
    assert let_go(soon, START) == 0


@given(
    failed_for=st.lists(st.integers(0, 2 * MOST_FAILED), min_size=1, max_size=4),
    interval_s=st.sampled_from([1, 2, 5]),
    cuts=st.lists(st.floats(0, 1), max_size=5),
)
@settings(max_examples=examples(15))
@example(failed_for=[MOST_FAILED + 20], interval_s=1, cuts=[0.5])
@example(failed_for=[MOST_FAILED + 20], interval_s=5, cuts=[0.5])
def test_answers_that_wait_among_failed_polls_make_the_same_however_rare_key_frames_are(
    failed_for: list[int], interval_s: int, cuts: list[float]
) -> None:
    """An old answer shows another leader epoch of `t`, and beside it a topic that is new: the next
    one tells of that no more, unless it is a key frame. Then so many polls fail, and what comes is
    good again.
    """
    more = shows(5) | {"new": shows(0, topic_id="N")["t"]}
    shown: list[dict[str, Any] | None] = [shows(5)]
    for failing in failed_for:
        shown += [shows(4) | {"new": more["new"]}, *[None] * failing, more]
    answers = []
    last, run = START - KEY_FRAME_EVERY, 0
    for n, topics in enumerate(shown):
        sent_at = START + timedelta(seconds=interval_s * n)
        # As the recorder does: after so long the next good poll is one.
        if topics is not None and sent_at - last >= KEY_FRAME_EVERY:
            last, run = sent_at, run + 1
        answer = good_answer(STREAM, n, sent_at, {1: None}, {}, batch=run)
        answer.topics, answer.interval_ms = topics or {}, 1_000 * interval_s
        answers.append(failed(answer) if topics is None else answer)
    whole = [replace(each, batch=n) for n, each in enumerate(answers)]
    every = sorted({0, len(answers), *(int(cut * len(answers)) for cut in cuts)})
    found, expected = Lake("c"), Lake("c")
    bronze, of_whole = bronze_rows("c", answers), bronze_rows("c", whole)
    for begin, end in pairwise(every):
        found.take(bronze, [a.poll_id for a in answers[begin:end]], "id-prod")
    expected.take(of_whole, [a.poll_id for a in whole], "id-prod")
    assert found.rows == expected.rows


# --- whose cluster an alias is ---


def test_an_alias_keeps_the_first_id_that_nobody_has() -> None:
    # `b` was pointed at a's cluster first, and then put right.
    shown = [("b", "Z", 5), ("b", "Y", 4), ("c", "Y", 3), ("b", "X", 2), ("a", "X", 1)]
    pairs = [(alias, cluster_id, START + timedelta(seconds=at)) for alias, cluster_id, at in shown]
    assert claims(pairs) == {"a": "X", "c": "Y", "b": "Z"}
    assert claims([*pairs, ("a", "W", START + timedelta(seconds=6))]) == claims(pairs)
    # Of polls that are due at one moment the alias decides, so that a round done again decides the
    # same.
    assert claims([("b", "X", START), ("a", "X", START)]) == {"a": "X"}

"""Which answers are believed, on sequences that are easily got wrong; `tests/spark` has the rest, on random histories."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.acceptance import Known, Poll, Said, Verdict, claims, verdicts
from jobs.rules.presence import asked_for

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ANSWER = Mapping[str, Said | None]


def poll(n: int, topics: ANSWER) -> Poll:
    at = NOON + timedelta(seconds=30 * n)
    return Poll(f"s/{n:012d}", received_at=at, sent_at=at, interval_ms=30_000, topics=topics)


def kinds(*answers: ANSWER) -> list[str]:
    return [verdict.kind for verdict in verdicts([poll(n, topics) for n, topics in enumerate(answers)], None, {})]


def shows(*epochs: int | None, topic_id: str | None = "A", count: int | None = -1) -> ANSWER:
    return {"t": Said(topic_id, len(epochs) if count == -1 else count, dict(enumerate(epochs)))}


GONE: ANSWER = {"t": None}


@pytest.mark.parametrize(
    ("answers", "last"),
    [
        ([shows(5), shows(6)], "accepted"),
        ([shows(5), shows(4)], "pending"),
        # An answer of an old version, or with an error in place of partitions, tells no epoch: it was known already.
        ([shows(5), shows(None), shows(4)], "pending"),
        ([shows(5), shows(count=None), shows(4)], "pending"),
        # A topic that is absent once never went away; one that is absent twice has ended.
        ([shows(5), GONE, shows(4)], "pending"),
        ([shows(5), GONE, {}, shows(4)], "accepted"),
        # Another id is another topic; no id is taken for the same.
        ([shows(5), shows(0, topic_id="B")], "accepted"),
        ([shows(5), shows(4, topic_id=None)], "pending"),
        ([shows(5), shows(5, topic_id=None), shows(0, topic_id="B")], "accepted"),
        # A partition number that a whole answer lacks has ended.
        ([shows(5, 7), shows(5), shows(5, 6)], "accepted"),
        ([shows(5, 7), shows(6, 6)], "pending"),
    ],
)
def test_one_lower_epoch_under_the_same_topic_id_is_stale(answers: list[ANSWER], last: str) -> None:
    assert kinds(*answers) == ["accepted"] * (len(answers) - 1) + [last]


def test_a_better_answer_discards_those_that_waited() -> None:
    assert kinds(shows(5), shows(4), shows(4), shows(5)) == ["accepted", "stale", "stale", "accepted"]


def test_five_of_them_over_a_minute_are_believed() -> None:
    assert kinds(shows(5), *[shows(4)] * 4) == ["accepted"] + ["pending"] * 4
    assert kinds(shows(5), *[shows(4)] * 6) == ["accepted"] * 7


epochs = st.lists(st.none() | st.integers(0, 3), max_size=2)
answers = st.lists(
    st.just(GONE)
    | st.just(shows(count=None))
    | st.builds(lambda e, i: shows(*e, topic_id=i), epochs, st.sampled_from(["A", "B", None])),
    min_size=1,
    max_size=12,
)


@given(answers, st.data())
def test_a_cut_after_an_accepted_answer_changes_nothing(said: list[ANSWER], data: st.DataObject) -> None:
    """What is carried over a cut is what silver keeps: the last applied poll, and the topic as it is known there."""
    polls = [poll(n, topics) for n, topics in enumerate(said)]
    whole = verdicts(polls, None, {})
    cuts = [n for n, verdict in enumerate(whole, 1) if verdict.kind == "accepted" and not _waits(whole[:n])]
    cut = data.draw(st.sampled_from(cuts))
    applied = whole[cut - 1]
    rest = verdicts(
        polls[cut:],
        Verdict(applied.poll_id, "applied", 0, applied.at, applied.sent_at, applied.interval_ms, applied.before),
        _known(polls[:cut], whole),
    )
    assert [verdict.kind for verdict in rest] == [verdict.kind for verdict in whole[cut:]]


def _waits(verdicts_so_far: list[Verdict]) -> bool:
    return any(verdict.kind == "pending" for verdict in verdicts_so_far)


def _known(polls: list[Poll], judged: list[Verdict]) -> dict[str, Known]:
    """The topic as a table of its life would show it: written down the dumb way."""
    life: tuple[str | None, dict[int, int], int] | None = None
    for before, verdict in zip(polls, judged, strict=False):
        shown = before.topics["t"]
        if verdict.kind != "accepted":
            continue
        if shown is None:
            life = None if life is None or life[2] == 1 else (life[0], life[1], 1)
            continue
        if life is None or (shown.topic_id and life[0] and shown.topic_id != life[0]):
            life = (shown.topic_id, {}, 0)
        kept = {p: e for p, e in life[1].items() if shown.partition_count is None or p < shown.partition_count}
        kept.update({p: e for p, e in shown.epochs.items() if e is not None})
        life = (shown.topic_id or life[0], kept, 0)
    return {} if life is None else {"t": Known(*life)}


def test_an_alias_keeps_the_first_id_that_nobody_has() -> None:
    # `b` was pointed at a's cluster first, and then put right.
    pairs = [("a", "X", "s/1"), ("b", "X", "s/2"), ("b", "Y", "s/4"), ("b", "Z", "s/5"), ("c", "Y", "s/3")]
    assert claims(pairs) == {"a": "X", "c": "Y", "b": "Z"}
    assert claims([("a", "X", ""), ("b", "X", "s/2"), ("b", "Y", "s/4")]) == {"a": "X", "b": "Y"}
    # In one poll of both the alias decides, so that a batch done again decides the same.
    assert claims([("b", "X", "s/1"), ("a", "X", "s/1")]) == {"a": "X"}


def test_a_filter_asks_for_what_the_poller_matches() -> None:
    filters = [None, '{"topics":["a","b"]}', '{"pattern":"(?P<env>prod)-.*"}', '{"pattern":"[[:alpha:]-]+"}']
    topics = ["a", "c", "prod-x", "prod-1"]
    pairs = [(one, topic) for one in filters for topic in topics]
    covered = asked_for(pa.array([one for one, _ in pairs], pa.string()), pa.array([topic for _, topic in pairs]))
    assert [topic for (one, topic), yes in zip(pairs, covered.to_pylist(), strict=True) if yes] == [
        *topics,
        "a",
        "prod-x",
        "prod-1",
        "a",
        "c",
        "prod-x",
    ]

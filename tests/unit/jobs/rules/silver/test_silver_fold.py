"""The silver fold against plain rules, over random histories, however they are cut into rounds."""

import hashlib
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from metadata_source.kinds import KAFKA, KINDS
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import VERSIONS, VERSIONS_WITHOUT_IDS, Answer, RandomCluster
from tests.support.silver_oracle import expected_rows, views
from tests.support.silver_rounds import Lake, comparable

ALIAS = "c"
CLUSTER_ID = f"id-{ALIAS}"

PHASES = [Phase.generate, Phase.target, Phase.shrink]


@st.composite
def histories(draw: st.DrawFn) -> list[Answer]:
    """Short ones whose every step is drawn, so that they shrink."""
    chance = draw(st.randoms(use_true_random=False))
    kinds = draw(
        st.sampled_from([(), ("configs", "groups", "quorum"), ("elr", "fenced", "reassignments")])
    )
    versions = draw(st.sampled_from([VERSIONS, VERSIONS_WITHOUT_IDS]))
    runs = draw(st.sampled_from([0.3, 0.0]))
    return RandomCluster(ALIAS, chance, kinds=kinds, versions=versions).answers(
        draw(st.integers(1, 12)), runs=runs
    )


def claimed(answers: list[Answer]) -> str | None:
    return CLUSTER_ID if any(a.ok and a.cluster_id == CLUSTER_ID for a in answers) else None


def folded(
    answers: list[Answer],
    cuts: list[int],
    *,
    narrowed: bool = False,
    repeats: int = 0,
    kind: str = KAFKA,
) -> Lake:
    """The lake after rounds over the polls between cuts; each round also names `repeats` polls that
    were taken before.
    """
    bronze = bronze_rows(ALIAS, answers)
    ids = sorted(a.poll_id for a in answers)
    lake = Lake(ALIAS, narrowed, kind)
    for since, until in pairwise(sorted({0, *cuts, len(ids)})):
        so_far = [a for a in answers if a.poll_id in ids[:until]]
        lake.take(bronze, ids[max(0, since - repeats) : until], claimed(so_far))
    return lake


def cuts_of(answers: list[Answer]) -> st.SearchStrategy[list[int]]:
    """Nowhere, anywhere, or after every poll."""
    every = list(range(len(answers) + 1))
    return st.just([]) | st.lists(st.sampled_from(every), max_size=6) | st.just(every)


def check_state(lake: Lake, answers: list[Answer]) -> None:
    """What the state says of the polls at the end, and of how they were taken."""
    line, _, missing = views(answers, CLUSTER_ID)
    state = lake.state
    assert state is not None
    assert [(p.id, p.at, p.sent_at, p.interval_ms) for p in lake.polls] == [
        (v.poll_id, v.at, v.sent_at, v.interval_ms) for v in line
    ]
    assert state.last == (lake.polls[-1] if line else None)
    assert set(state.missing) == missing
    settled = line[-2] if missing else line[-1] if line else None
    assert (state.settled and state.settled.id) == (settled and settled.poll_id)
    after = [a for a in answers if not line or a.poll_id > line[-1].poll_id]
    own = [a.poll_id for a in after if a.ok and a.cluster_id == CLUSTER_ID]
    assert list(state.waiting) == [a.poll_id for a in after if own and a.poll_id >= own[0]]
    after = [a for a in after if a.poll_id not in state.waiting]
    assert state.failed_polls == sum(not a.ok for a in after)
    assert state.refused_polls == sum(a.ok and a.cluster_id != CLUSTER_ID for a in after)
    assert state.error_kinds == tuple(sorted({str(a.error_kind) for a in after if not a.ok}))
    assert dict(state.seen) == {a.stream: a.n for a in answers}
    assert state.last_poll_at == max(a.scheduled_at for a in answers)
    assert state.late_polls == 0
    assert state.cluster_id == claimed(answers)


def check_rows(lake: Lake, answers: list[Answer]) -> None:
    expected = comparable(expected_rows(answers, ALIAS, lake.kind))
    assert lake.rows.keys() == expected.keys()
    for table, rows in expected.items():
        assert lake.rows[table] == rows, table


@given(histories(), st.data())
@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), phases=PHASES)
def test_rounds_cut_anywhere_make_the_rows_of_the_plain_rules(
    answers: list[Answer], data: st.DataObject
) -> None:
    lake = folded(
        answers,
        data.draw(cuts_of(answers)),
        narrowed=data.draw(st.booleans()),
        repeats=data.draw(st.integers(0, 3)),
    )
    check_rows(lake, answers)
    check_state(lake, answers)


@pytest.mark.parametrize("runs", [0.3, 0.02], ids=["key frames are common", "key frames are rare"])
@pytest.mark.parametrize("narrowed", [False, True], ids=["whole", "narrowed"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(5), phases=[Phase.generate])
def test_long_histories_cut_anywhere_make_the_rows_of_the_plain_rules(
    *, narrowed: bool, runs: float, seed: int
) -> None:
    """The plain rules know whole answers alone."""
    chance = random.Random(seed)
    versions, mistaken_for = (
        chance.choice([VERSIONS, VERSIONS_WITHOUT_IDS]),
        chance.choice([None, "id-b"]),
    )
    cluster = RandomCluster(ALIAS, seed, mistaken_for, versions=versions)
    answers = cluster.answers(chance.randint(20, 40), runs=runs)
    cuts = chance.sample(
        range(len(answers)), chance.choice([0, 1, 3, len(answers) - 1, len(answers)])
    )
    lake = folded(answers, cuts, narrowed=narrowed, repeats=chance.randint(0, 2))
    check_rows(lake, answers)
    check_state(lake, answers)


def digested_anew(bronze: list[dict[str, Any]], since: str) -> list[dict[str, Any]]:
    """The rows as a program with another algorithm would have written those of polls from one on.
    For the first state of each topic that algorithm has the digest that the one before had for the
    last: versions have nothing in common.
    """
    last = {
        row["topic"]: row["digest"]
        for row in bronze
        if row["record"] == "topic" and row["poll_id"] < since
    }
    places: dict[bytes, bytes] = {}

    def anew(old: bytes | None, topic: str | None = None) -> bytes | None:
        if old is None:
            return None
        mistaken = last.pop(topic, None)
        return places.setdefault(old, mistaken or hashlib.blake2b(old, digest_size=16).digest())

    def row_of(row: dict[str, Any]) -> dict[str, Any]:
        if row["poll_id"] < since:
            return row
        own = {
            "digest": anew(row["digest"], row["topic"]),
            "digest_version": row["digest_version"] and 2,
        }
        return row | own

    return [row_of(row) for row in bronze]


@pytest.mark.parametrize("narrowed", [False, True], ids=["whole", "narrowed"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(10), phases=[Phase.generate])
def test_digests_of_another_version_change_nothing_and_hide_nothing(
    *, narrowed: bool, seed: int
) -> None:
    """A program whose digests are others takes over at a batch."""
    chance = random.Random(seed)
    answers = RandomCluster(ALIAS, seed).answers(chance.randint(10, 30))
    begins = [b.poll_id for a, b in pairwise(answers) if (a.stream, a.batch) != (b.stream, b.batch)]
    since = chance.choice(begins or [answers[0].poll_id])
    ids = [a.poll_id for a in answers]
    cuts = sorted({0, ids.index(since), len(ids), *chance.sample(range(len(ids)), 2)})
    bronze = digested_anew(bronze_rows(ALIAS, answers), since)
    lake = Lake(ALIAS, narrowed)
    for begin, end in pairwise(cuts):
        lake.take(bronze, ids[begin:end], claimed(answers[:end]))
    check_rows(lake, answers)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != KAFKA])
@given(seed=st.integers(0, 2**32), narrowed=st.booleans())
@settings(max_examples=examples(5), phases=[Phase.generate])
def test_histories_of_other_kinds_cut_anywhere_make_the_rows_of_the_plain_rules(
    *, kind: str, seed: int, narrowed: bool
) -> None:
    chance = random.Random(seed)
    answers = RandomCluster(ALIAS, seed).answers(chance.randint(5, 30))
    cuts = chance.sample(range(len(answers)), chance.choice([0, 1, 3, len(answers) - 1]))
    check_rows(folded(answers, cuts, narrowed=narrowed, kind=kind), answers)


@example(
    seed=22, other="redpanda"
)  # There are partitions that the answer in question does not show.
@given(seed=st.integers(0, 2**32), other=st.sampled_from(list(KINDS)))
@settings(max_examples=examples(10), phases=[Phase.explicit, Phase.generate])
def test_a_kind_declared_later_means_the_same_whatever_the_fold_is_given(
    seed: int, other: str
) -> None:
    chance = random.Random(seed)
    answers = RandomCluster(ALIAS, seed).answers(chance.randint(5, 30))
    bronze, ids = bronze_rows(ALIAS, answers), sorted(a.poll_id for a in answers)
    cut = chance.randrange(len(ids))
    lakes = [Lake(ALIAS, narrowed=narrowed) for narrowed in (False, True)]
    for lake in lakes:
        lake.take(bronze, ids[:cut], claimed(answers[:cut]))
        lake.kind = other
        for poll_id in ids[cut:]:
            lake.take(bronze, [poll_id], claimed(answers))
    assert lakes[0].rows == lakes[1].rows
    state = lakes[0].state
    if state is not None and state.kind == other:
        current = [
            row
            for row in lakes[0].tables["silver.partition_snapshots"].values()
            if row["valid_to"] is None
        ]
        there = [row for row in current if row["topic"] not in state.missing]
        assert not [row for row in there for name in KINDS[other].columns if row[name] is not None]


def led_by_agents(seed: int) -> list[Answer]:
    """Answers of a cluster of which each broker, now and then, names one broker as the leader of
    nearly everything.
    """
    chance = random.Random(seed)
    answers = RandomCluster(ALIAS, seed).answers(chance.randint(5, 30))
    for answer in answers:
        agent, is_named = chance.randrange(3), chance.random() < 0.6
        for p in (p for topic in answer.topics.values() for p in topic["partitions"] if is_named):
            if p["leader"] >= 0 and chance.random() < 0.9:
                p["leader"] = agent
    return answers


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(10), phases=[Phase.generate])
def test_leaders_that_move_in_their_epochs_mean_the_same_whatever_the_fold_is_given(
    seed: int,
) -> None:
    answers = led_by_agents(seed)
    cuts = random.Random(seed).sample(range(len(answers)), 3)
    whole = folded(answers, []).rows
    assert all(folded(answers, cuts, narrowed=narrowed).rows == whole for narrowed in (False, True))


def seen_in(answers: list[Answer]) -> set[str]:
    """What happens in a history that the rules are about."""
    line, ended, missing = views(answers, CLUSTER_ID)
    own = [a for a in answers if a.ok and a.cluster_id == CLUSTER_ID]
    accepted = {view.poll_id for view in line}
    seen = {reason for _, reason in ended.values()}
    shown = {a.poll_id: a.topics for a in own}
    seen |= {
        "recreated while missing"
        for (t, _), (poll, r) in ended.items()
        if r == "recreated" and t not in shown[poll]
    }
    seen |= {"missing"} if missing else set()
    seen |= {"refused"} if any(a.ok and a.cluster_id != CLUSTER_ID for a in answers) else set()
    seen |= {"waiting"} if own and own[-1].poll_id not in accepted else set()
    seen |= (
        {"stale"}
        if any(a.poll_id not in accepted and a.poll_id < line[-1].poll_id for a in own if line)
        else set()
    )
    stale_in_batch = {(a.stream, a.batch) for a in own if a.poll_id not in accepted}
    seen |= (
        {"stale in mid-batch"}
        if any((a.stream, a.batch) in stale_in_batch for a in own if a.poll_id in accepted)
        else set()
    )
    for one, other in pairwise(line):
        shared = one.partitions.keys() & other.partitions.keys()
        epochs = [
            (one.partitions[k][3], other.partitions[k][3])
            for k in shared
            if one.partitions[k][0] == other.partitions[k][0]
        ]
        seen |= (
            {"believed"}
            if any(None not in pair and pair[0] > pair[1] for pair in epochs)
            else set()
        )
    return seen


EVERYTHING = {
    *("recreated", "unauthorized", "gone", "not_polled", "missing", "refused", "waiting", "stale"),
    *("stale in mid-batch", "believed", "recreated while missing"),
}


def test_histories_have_everything_that_the_rules_are_about() -> None:
    seen: set[str] = set()
    for seed in range(80):
        seen |= seen_in(RandomCluster(ALIAS, seed, mistaken_for="id-b").answers(30))
        if seen >= EVERYTHING:
            return
    assert seen >= EVERYTHING

"""Rules for clusters that no one task may hold, against those for all."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.rounds.large import IS_QUIET
from jobs.rules import takes
from jobs.rules.gold.isr_shrink import BROKER_INCIDENTS, ISR_CHANGES, ISR_EPISODES, needed
from jobs.rules.gold.leaders import leader_balance
from jobs.rules.gold.news import TIMES, Poll
from jobs.rules.silver.cluster import fold, poll_of
from jobs.rules.silver.compare import first_rows
from jobs.rules.silver.enrichments import headers_of, min_isr_of_changed
from jobs.rules.silver.opened import MIN_ISR
from jobs.rules.silver.state import Observation, State
from jobs.rules.takes import take
from metadata_source.kinds import KINDS
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START, Answer, good_answer
from tests.support.large_rounds import FIRST, Rounds
from tests.support.memory_lake import Frame
from tests.support.silver_lives import histories
from tests.support.silver_rounds import PARTITIONS, SAID, comparable

STREAM = "20261101T000000Z-00000000"


@given(histories(most=8, mistaken_for=[None]))
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
def test_a_first_answer_makes_the_rows_of_the_fold(answers: list[Answer]) -> None:
    """Of all versions, with topics of several rows, and of errors alone."""
    *_, answer = (each for each in answers if each.ok and each.cluster_id == "id-c")
    rows = bronze_rows("c", [answer])
    (header,), said = headers_of(rows), [row for row in rows if row["record"] == "topic"]
    wanted = fold(None, {}, [header], said, "id-c").rows.get(PARTITIONS, [])
    place = Observation(poll_of(header), None)
    of_cluster = {"cluster_id": "id-c", "cluster": "c"}
    made: list[dict[str, Any]] = []
    for batch in pa.Table.from_pylist(said, schema=SAID).to_batches(max_chunksize=2):
        made += first_rows(place, header["api_version"], batch, of_cluster, FIRST).to_pylist()
    assert comparable({PARTITIONS: made}) == comparable({PARTITIONS: wanted})


def test_a_first_answer_without_topics_makes_no_rows() -> None:
    header = bronze_rows("c", [polled(0, 0)])[0]
    batch = pa.RecordBatch.from_pylist([], schema=SAID)
    assert not first_rows(
        Observation(poll_of(header), None), 12, batch, {"cluster": "c"}, FIRST
    ).num_rows


def polled(n: int, partitions: int, **more: Any) -> Answer:
    shown = {
        "error_code": 0,
        "leader": 1,
        "leader_epoch": 0,
        "replicas": [1],
        "isr": [1],
        "offline_replicas": [],
    }
    at = START + timedelta(seconds=10 * n)
    return good_answer(STREAM, n, at, {1: None}, {"t": [shown] * partitions}, batch=n, **more)


def headers(*answers: Answer) -> list[dict[str, Any]]:
    found = headers_of(bronze_rows("c", list(answers)))
    for row, answer in zip(found, answers, strict=True):
        row["day"] = answer.scheduled_at.date()
        row["partition_count"] = sum(len(topic["partitions"]) for topic in answer.topics.values())
    return found


def test_the_first_answer_of_a_large_cluster_is_taken_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Polls before it, which say nothing, are taken with it."""
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 4)
    failed, good, other = polled(0, 0), polled(1, 9), polled(2, 9)
    failed.ok, failed.error_kind = False, "timeout"
    taken = take("c", State(), 1, headers(failed, good, other), claimed_id="id-prod", most_polls=60)
    assert (taken.parts, taken.first_poll, list(taken.polls)) == (
        4,
        good.poll_id,
        [failed.poll_id, good.poll_id],
    )
    small = take(
        "c",
        State(),
        1,
        headers(failed, polled(1, 4), polled(2, 4)),
        claimed_id="id-prod",
        most_polls=60,
    )
    assert (small.parts, small.first_poll, len(small.polls)) == (1, None, 3)


def test_a_large_cluster_with_history_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 4)
    state = fold(None, {}, headers(polled(0, 2)), [], "id-prod").state
    taken = take(
        "c", state, 1, headers(polled(1, 9), polled(2, 9)), claimed_id="id-prod", most_polls=60
    )
    assert (taken.parts, taken.first_poll, len(taken.polls)) == (4, None, 2)


def configs(poll_id: str, **min_isr: int | None) -> list[dict[str, Any]]:
    return [
        {
            "poll_id": poll_id,
            "topic": topic,
            "configs": None
            if value is None
            else {
                "min.insync.replicas": {"value": str(value), "source": "DYNAMIC_TOPIC_CONFIG"},
                "unclean.leader.election.enable": {"value": "false", "source": "DEFAULT_CONFIG"},
            },
        }
        for topic, value in min_isr.items()
    ]


@pytest.mark.parametrize(
    ("polls", "wanted"),
    [
        ([{"same": 2, "raised": 3, "lowered": 1}], {"raised": 3, "lowered": 2}),
        ([{"same": 2, "raised": 2, "lowered": 2, "new": 1}], {"new": 1}),
        ([{"same": 2, "raised": 2}], {"lowered": 2}),
        (
            [{"same": 2, "raised": 5, "lowered": 2}, {"same": 2, "raised": 2, "lowered": 2}],
            {"raised": 5},
        ),
        ([{"same": None, "raised": 2, "lowered": 2, "new": None}], {"same": 2}),
        ([{}], {"same": 2, "raised": 2, "lowered": 2}),
        ([], {}),
    ],
)
def test_topics_whose_settings_change_and_their_highest_min_isr(
    polls: list[dict[str, int | None]], wanted: dict[str, int]
) -> None:
    live = [
        {"topic": topic, "min_insync_replicas": 2, "unclean_leader_election_enable": False}
        for topic in ("same", "raised", "lowered")
    ]
    rows = [row for n, told in enumerate(polls) for row in configs(str(n), **told)]
    assert min_isr_of_changed([str(n) for n in range(len(polls))], rows, live) == wanted


def test_a_row_counts_for_all_that_it_stands_for() -> None:
    poll = Poll("p", START)
    row = {
        "cluster_id": "id",
        "cluster": "c",
        "leader": 1,
        "replicas": [2, 1],
        "isr": [1, 2],
        "error_code": 0,
    }
    poll.began.partitions.extend([row | {TIMES: 5}, row])
    one, other = sorted(leader_balance([poll], []), key=lambda made: made["broker_id"])
    assert (one["leads"], one["preferred_for"], other["preferred_for"], other["led_elsewhere"]) == (
        6,
        0,
        6,
        6,
    )


QUIET = {"leader": 1, "replicas": [3, 1, 2], "isr": [1, 2, 3], MIN_ISR: 2}


@pytest.mark.parametrize(
    ("changed", "is_quiet"),
    [
        pytest.param({}, True, id="all replicas are in sync, more than have to be"),
        pytest.param({MIN_ISR: None}, True, id="nobody says how many have to be"),
        pytest.param({MIN_ISR: 3}, False, id="one less would be too few"),
        pytest.param({"isr": [1, 2], MIN_ISR: 1}, False, id="one is not in sync"),
        pytest.param({"leader": -1}, False, id="nobody leads"),
        pytest.param({"leader": -1, "isr": None}, False, id="nobody leads, nobody tells of ISRs"),
        pytest.param({"leader": None, "isr": None}, True, id="nobody tells of either"),
        pytest.param({"prev_error_code": 0}, False, id="it was otherwise before"),
        pytest.param({"superseded_poll": "p"}, False, id="it is otherwise by now"),
    ],
)
def test_quiet_partitions_of_a_large_cluster_are_the_same_to_gold(
    changed: dict[str, Any], is_quiet: bool
) -> None:
    schema = FIRST.append(pa.field(MIN_ISR, pa.int32()))
    rows = Frame(pa.Table.from_pylist([QUIET | changed], schema))
    assert rows.fulfils(IS_QUIET).to_pylist() == [is_quiet]


def test_large_clusters_have_the_history_of_small_ones() -> None:
    """Of silver and gold, over random lives of clusters, with what is stale, while they grow,
    however rounds are cut.
    """
    were_large = 0

    @given(histories(most=30, mistaken_for=[None]), st.data())
    @settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
    def check(answers: list[Answer], data: st.DataObject) -> None:
        nonlocal were_large
        bronze = bronze_rows("c", answers)
        for row in bronze:
            row["day"] = "2026-11-01"
            if row["record"] == "poll" and row["outcome"] == "ok":
                of_poll = (
                    other["partitions"] or ()
                    for other in bronze
                    if other["poll_id"] == row["poll_id"]
                )
                row["partition_count"] = max(sum(map(len, of_poll)), 3)
        kind = data.draw(st.sampled_from(["kafka", *KINDS]))
        small, large = Rounds("c", "id-c", kind), Rounds("c", "id-c", kind)
        small.catch_up(bronze, 60)
        ids = {answer.poll_id for answer in answers[: data.draw(st.integers(0, len(answers)))]}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(takes, "PARTITIONS_A_PART", data.draw(st.sampled_from([1, 2, 4])))
            for rows in ([row for row in bronze if row["poll_id"] in ids], bronze):
                large.catch_up(rows, data.draw(st.sampled_from([1, 3, 60])))
        were_large += large.parts > 1
        made, wanted = (
            comparable({t: list(rows.values()) for t, rows in of.tables.items()})
            for of in (large, small)
        )
        for table in wanted.keys() | made.keys():
            assert made.get(table) == wanted.get(table), table

    check()
    assert were_large > 5, "else it says less than it seems to"


def test_live_rows_of_gold_that_no_fold_looks_at_are_left_out() -> None:
    rows = [
        ("news", "cause", None),
        ("other", None, None),
        ("other", "cause", "p"),
        ("other", "cause", None),
    ]
    changes = pa.Table.from_pylist(
        [dict(zip(("topic", "cause", "ended_poll"), row, strict=True)) for row in rows],
        pa.schema([(name, pa.string()) for name in ("topic", "cause", "ended_poll")]),
    )
    incidents = pa.table({"broker_id": [1]})
    live = {ISR_CHANGES: changes, ISR_EPISODES: changes, BROKER_INCIDENTS: incidents}
    found = needed(live, pa.array(["news"]))
    assert found == {
        ISR_CHANGES: changes[:3],
        ISR_EPISODES: changes[:1],
        BROKER_INCIDENTS: incidents,
    }
    assert needed({}, pa.array(["news"])) == {}

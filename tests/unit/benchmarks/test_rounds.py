"""The benchmark of rounds: its names, its arithmetic, and what it makes up. Nothing is timed."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.rounds.aims import AIMS, BY_NAME, ONLY_IF_ALL
from benchmarks.rounds.beat import lateness_of, polls_on_time
from benchmarks.rounds.commits import Followed, first_commits
from benchmarks.rounds.made_up import MadeUpCluster, MadeUpPoller
from benchmarks.rounds.results import Measured, as_json, median, percentile, table
from benchmarks.rounds.suite import SUITE, chosen
from metadata_source.columns.polls import POLLS
from tests.support.repository import ROOT

ROUNDS = ROOT / "benchmarks" / "rounds"


def test_every_name_is_measured_once_and_has_an_aim() -> None:
    measured = [name for measure in SUITE for name in measure.names]
    assert sorted(measured) == sorted(aim.name for aim in AIMS)
    assert len(BY_NAME) == len(AIMS)
    assert {aim.name for aim in AIMS if aim.relation == ">="} == {
        name for name in BY_NAME if name.startswith("polls_on_time")
    }
    for measure in SUITE:  # read, not imported: that would take Spark's time
        assert f"\ndef {measure.function}(" in (ROUNDS / f"{measure.module}.py").read_text()


def test_names_choose_what_is_measured() -> None:
    assert [measure.names for measure in chosen(["news_s"], every=False)] == [("quiet_s", "news_s")]
    usual = {name for measure in chosen(None, every=False) for name in measure.names}
    assert usual == BY_NAME.keys() - set(ONLY_IF_ALL)
    assert {
        name for measure in chosen(None, every=True) for name in measure.names
    } == BY_NAME.keys()


def test_medians_and_percentiles() -> None:
    assert median([3.0, 1.0, 2.0]) == Measured(2.0, (3.0, 1.0, 2.0))
    assert median([1.0, 2.0]).value == 1.5
    values = [7.0, 1.0, 4.0, 2.0, 9.0, 3.0]
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert percentile(values, share) == pytest.approx(np.percentile(values, 100 * share))
    assert percentile([5.0], 0.9) == 5.0


def test_results_stand_beside_their_aims() -> None:
    results = {
        "polls_on_time": Measured(0.94, (0.1, 0.2)),
        "quiet_s": Measured(0.51239, (0.4, 0.51239, 0.7)),
    }
    lines = table(results)
    assert ["MISSED" in line for line in lines] == [False, False, False, True]
    assert lines[2].split()[:6] == ["quiet_s", "0.5124", "<=", "1", "s", "met"]
    assert json.loads(json.dumps(as_json(results))) == {
        "quiet_s": {"value": 0.5124, "unit": "s", "aim": 1, "runs": [0.4, 0.5124, 0.7]},
        "polls_on_time": {"value": 0.94, "unit": "", "aim": 0.99, "runs": [0.1, 0.2]},
    }


def test_a_broker_that_goes_is_out_of_its_share() -> None:
    cluster = MadeUpCluster("c", topics=3, partitions=6, brokers=6)
    cluster.stop(2)
    now = cluster.metadata()
    partitions = now.partitions.to_pylist()
    assert 2 not in now.brokers["broker_id"].to_pylist()
    assert sum(2 in row["replicas"] for row in partitions) == 9
    for row in partitions:
        assert row["isr"] == [broker for broker in row["replicas"] if broker != 2]
        assert row["offline_replicas"] == [broker for broker in row["replicas"] if broker == 2]
        assert row["leader"] == row["isr"][0]
        assert row["leader_epoch"] == (row["replicas"][0] == 2)
    cluster.start(2)
    assert all(
        row["leader"] == row["replicas"][0] for row in cluster.metadata().partitions.to_pylist()
    )
    assert cluster.leader_epoch.sum() == 6


def test_so_many_changes_are_made() -> None:
    cluster = MadeUpCluster("c", topics=2, partitions=20, brokers=5)
    before = cluster.metadata().partitions.to_pylist()
    cluster.change(10)
    after = cluster.metadata().partitions.to_pylist()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 10
    assert (
        sum(one["leader"] != other["leader"] for one, other in zip(before, after, strict=True)) == 5
    )


def test_rows_are_as_the_recorder_makes_them() -> None:
    poller = MadeUpPoller([MadeUpCluster("c", 4, 3, 5)], timedelta(seconds=2), polls=3)
    first = poller.batch()
    second = poller.batch(lambda cluster, place: cluster.change(2) if place == 1 else None)
    assert first.schema == POLLS
    told = [(row["n"], row["record"]) for row in second.to_pylist()]
    assert [row["n"] for row in first.to_pylist() if row["record"] == "topic"] == [0] * 4
    assert [record for n, record in told if n == 3] == ["poll"]
    assert [record for n, record in told if n == 4] == ["topic"] * 2 + ["poll"]
    assert [record for n, record in told if n == 5] == ["poll"]
    scheduled = [row["scheduled_at"] for row in second.to_pylist() if row["record"] == "poll"]
    assert {later - earlier for earlier, later in pairwise(scheduled)} == {poller.interval}
    polls = [
        row for _ in range(50) for row in poller.batch().to_pylist() if row["record"] == "poll"
    ]
    assert [row["n"] for row in polls if row["is_key_frame"]] == [150], (
        "five minutes after the first one"
    )


BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def header(
    due: float, late: float | None = 0.0, *, attempts: int = 1, error_kind: str | None = None
) -> dict[str, Any]:
    at = BEGIN + timedelta(seconds=due)
    sent = None if late is None else at + timedelta(seconds=late)
    told = {"scheduled_at": at, "sent_at": sent, "interval_ms": 2_000}
    return told | {"attempts": None if late is None else attempts, "error_kind": error_kind}


def test_polls_on_time_are_a_share_of_those_that_could_be() -> None:
    well = [header(2 * n, 0.5) for n in range(7)]
    assert polls_on_time(well) == Measured(1.0, (0.5,) * 7)
    assert polls_on_time([*well, header(14, 0.6)]).value == 7 / 8
    assert polls_on_time([*well, header(16)]).value == 8 / 9, "nobody polled at 14"
    assert polls_on_time([*well, header(14, 1.9, attempts=2)]).value == 1, "a broker did not answer"
    assert polls_on_time([*well, header(14, None, error_kind="overlapped")]).value == 1, (
        "a broker hangs"
    )
    assert polls_on_time([*well, header(14, None, error_kind="lost")]).value == 7 / 8, (
        "it was made, and is gone"
    )
    assert lateness_of([header(0, 0.25), header(2, None)]) == (0.25,)


def commit(folder: Path, version: int, at: datetime, rows: list[dict[str, object]]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    name = f"part-{version}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), folder / name)
    actions = [{"commitInfo": {"timestamp": round(at.timestamp() * 1000)}}, {"add": {"path": name}}]
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_a_row_counts_from_the_commit_that_had_it_first(tmp_path: Path) -> None:
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    later = begin + timedelta(seconds=9)
    followed = Followed(tmp_path, ["id"])
    assert not followed.look()
    commit(tmp_path, 1, begin, [{"id": "a", "x": 1}])
    assert followed.look()
    commit(tmp_path, 2, later, [{"id": "a", "x": 1}, {"id": "b", "x": 2}])
    assert followed.look()
    assert not followed.look()
    assert [row["id"] for _, row in followed.rows] == ["a", "a", "b"]
    assert first_commits(tmp_path, "id", "x") == [
        (begin, {"id": "a", "x": 1}),
        (later, {"id": "b", "x": 2}),
    ]
    assert [row["id"] for _, row in first_commits(tmp_path, "id", "x", where=("x", 2))] == ["b"]


def test_a_topic_that_is_made_again_has_another_id_and_begins_again() -> None:
    cluster = MadeUpCluster("made-up", topics=3, partitions=2, brokers=4)
    before = cluster.metadata()
    cluster.change(4)
    cluster.delete(1)
    without = cluster.metadata()
    assert without.topics["topic"].to_pylist() == ["topic-00000", "topic-00002"]
    assert [str(topic) for topic in without.partitions["topic"]] == ["topic-00000"] * 2 + [
        "topic-00002"
    ] * 2
    cluster.stop(1)
    cluster.make_again(1)
    again = cluster.metadata()
    assert again.topics["topic"].to_pylist() == before.topics["topic"].to_pylist()
    same = [
        a == b for a, b in zip(again.topics["topic_id"], before.topics["topic_id"], strict=True)
    ]
    assert same == [True, False, True]
    rows = [row for row in again.partitions.to_pylist() if row["topic"] == "topic-00001"]
    assert [row["leader_epoch"] for row in rows] == [0, 0]
    assert all(1 not in row["isr"] and row["leader"] in row["isr"] for row in rows)

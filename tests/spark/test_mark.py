"""Marks are written by the job, and both engines answer with them."""

import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import mark
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import text_of
from kafka_metadata_history.opened import asking, without_spark
from schemas import gold, internal, silver
from schemas.lake import Lake
from tests.support import stored as stored_lakes
from tests.support.availability import DAY, answered, at, changed, episode, lake_of, marked, topic
from tests.support.documents import commands, document
from tests.support.lakes import new_lake
from tests.support.store_lake import stored, unpacked
from tests.support.sums_of_time import window


def config_of(folder: Path, lake: Lake) -> str:
    file = folder / "config.yaml"
    file.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    return str(file)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Offline over midnight and a gap, hidden changes, marks that overlap, a topic that ends."""
    made = new_lake(spark, tmp_path_factory.mktemp("availability") / "lake")
    rows = lake_of(
        {
            silver.TOPIC_SNAPSHOTS: [
                topic(partitions=2),
                topic("clicks", after=10, since=20, last=500, until=510, end="gone"),
            ],
            silver.POLL_GAPS: [
                answered()
                | {
                    "gap_start": at(1000),
                    "gap_end": at(4600),
                    **dict.fromkeys(("after_poll", "until_poll"), "p"),
                    **dict.fromkeys(("interval_ms", "failed_polls", "stale_polls"), 0),
                    "refused_polls": 0,
                    "error_kinds": [],
                    "reason": "failed",
                }
            ],
            gold.ISR_EPISODES: [
                episode("offline", (DAY / 2 - 60, DAY / 2 - 50, None, None)),
                episode("under_min_isr", (100, 110, 1200, 1210)),
                episode("under_replicated", (100, 110, 200, 220), name="clicks"),
            ],
            gold.LEADER_CHANGES: [changed(50, 60, changes_max=3)],
            gold.MARKS: [marked(0, 150), marked(140, 160, cluster="prod"), marked(9, None)],
        }
    )
    for table, own in rows.items():
        stored_lakes.append(made, table, own)
    return made


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM gold.availability ORDER BY cluster, topic, day",
        text_of("availability"),
        text_of("marks"),
        "SELECT * FROM gold.incident_timeline WHERE what LIKE 'mark%' ORDER BY what, began_before",
    ],
    ids=["view", "availability", "marks", "timeline"],
)
def test_both_engines_answer_the_same(spark: SparkSession, lake: Lake, sql: str) -> None:
    text = with_values(sql, window(2 * DAY) | {"slo": "99.95"})
    found, other = (ask(text).to_pylist() for ask in (asking(spark, lake), without_spark(lake)))
    assert found
    assert [*map(plain, found)] == [*map(plain, other)]


def plain(row: dict[str, object]) -> dict[str, object]:
    def value(of: object) -> object:
        if isinstance(of, datetime):
            return of.astimezone(UTC)
        return of if of is None or isinstance(of, str) else str(of)

    return {name: round(of, 6) if isinstance(of, float) else value(of) for name, of in row.items()}


def test_a_mark_is_written_and_shown(
    spark: SparkSession, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", config_of(tmp_path, lake)]
    before = len(stored_lakes.rows_of(lake, gold.MARKS))
    for line in commands(r"kafka-metadata-history mark .*", document("availability.md")):
        assert mark.main([*config, *shlex.split(line)[2:]]) == 0
    first, second = capsys.readouterr().err.splitlines()[-2:]
    assert first.startswith("marked prod, ")
    assert first.endswith(": new disks in rack a")
    assert second.startswith("marked all clusters, ")
    window_, moment = stored_lakes.rows_of(lake, gold.MARKS)[before:]
    assert (window_["cluster"], (window_["until"] - window_["since"]).seconds) == ("prod", 3600)
    assert (moment["cluster"], moment["until"]) == (None, None)
    shown = without_spark(lake)(
        "SELECT what, after FROM gold.incident_timeline WHERE after = 'quota raised to 50 MB/s'"
    )
    assert shown.to_pylist() == [{"what": "mark_began", "after": "quota raised to 50 MB/s"}]


def test_an_unknown_cluster_is_refused(
    spark: SparkSession, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(stored_lakes.rows_of(lake, gold.MARKS))
    config = ["--config", config_of(tmp_path, lake)]
    assert mark.main([*config, "--cluster", "prd", "new disks"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "mark: --cluster prd: history knows no such cluster; did you mean prod?"
    )
    assert len(stored_lakes.rows_of(lake, gold.MARKS)) == before


def test_a_lake_without_the_table_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = new_lake(spark, tmp_path / "new", [internal.STATE])
    assert mark.main(["--config", config_of(tmp_path, new), "new disks"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"mark: gold.marks: no such table in {new}; `kafka-metadata-history run` makes it"
    )
    old = Lake(root=str(unpacked(stored(10), tmp_path)))
    assert mark.main(["--config", config_of(tmp_path, old), "new disks"]) == 1
    assert (
        "`kafka-metadata-history upgrade` makes it one of this version"
        in (capsys.readouterr().err.splitlines()[-1])
    )

"""The commands and queries of README.md and docs/, run as they are, but for where the cluster and
the lake are.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from jobs.configuration.limits import CROSSED
from kafka_metadata_history.answers.asof.read import reaches
from kafka_metadata_history.command import exit_status
from kafka_metadata_history.opened import asking, without_spark
from local_cluster import LocalCluster
from schemas.in_spark import attach
from schemas.lake import Lake
from tests.support.commands import run_in_new_shell
from tests.support.documents import ROOT, blocks, commands
from tests.support.lakes import new_lake
from tests.support.worker import SMALL_JVM

CONFIG = "kafka-metadata-history.yaml"


@pytest.fixture(scope="module")
def config(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README.md's configuration, in a folder of its own, in which its lake is to be."""
    folder = tmp_path_factory.mktemp("readme")
    config = yaml.safe_load(blocks("yaml")[0])
    config["lake"] = str(folder / "lake")
    # Or the poll would be late by the time that it is asked for on a slow machine.
    config["poll"]["pollInterval"] = "10m"
    config["clusters"]["orders"]["kafka.bootstrap.servers"] = cluster.bootstrap_servers
    (folder / CONFIG).write_text(yaml.safe_dump(config))
    return folder / CONFIG


@pytest.fixture(scope="module")
def lake(spark, config: Path) -> Lake:
    """A lake with that configuration, in which nothing was recorded yet."""
    return new_lake(spark, config.parent / "lake")


@pytest.fixture(scope="module")
def recorded(lake: Lake, config: Path) -> Lake:
    """The same after README.md's `--once` command."""
    in_new_shell(r"spark-submit .* --once", config.parent)
    return lake


def written(command: str, folder: Path) -> str:
    """The one documented command that looks so, with the configuration in `folder`."""
    (found,) = commands(command)
    assert CONFIG in found
    return found.replace(CONFIG, str(folder / CONFIG))


def in_new_shell(command: str, folder: Path) -> str:
    """Run the command; return its output."""
    # Options that change nothing but how long Java takes.
    return run_in_new_shell(written(command, folder), JDK_JAVA_OPTIONS=SMALL_JVM)


@pytest.mark.soak
def test_tables_are_attached_to_a_session(spark, recorded: Lake, capsys) -> None:
    (example,) = (block for block in blocks("python") if "kmh.attach(spark" in block)
    exec(example.replace('"lake"', repr(recorded.root)), {"spark": spark})  # noqa: S102 - our own documents
    assert "leader_epoch" in capsys.readouterr().out
    assert spark.sql("SELECT DISTINCT cluster FROM silver.brokers_now").collect() == [("orders",)]


@pytest.mark.parametrize("engine", ["DuckDB", pytest.param("Spark", marks=pytest.mark.soak)])
def test_queries_run(spark, lake: Lake, engine: str) -> None:
    ask = asking(spark, lake) if engine == "Spark" else without_spark(lake)
    of_the_demo = [
        shlex.split(line)[2]
        for line in commands(r'kafka-metadata-history query "SELECT .* \.demo/.*')
    ]
    assert len(of_the_demo) == 2
    for query in (*blocks("sql"), *of_the_demo):
        assert ask(query).column_names


@pytest.mark.soak
def test_the_kept_query_says_that_all_is_well(spark, recorded: Lake, monkeypatch, capsys) -> None:
    attach(spark, recorded)
    monkeypatch.chdir(ROOT)
    (example,) = (block for block in blocks("python") if "health.sql" in block)
    exec(example, {"spark": spark})  # noqa: S102
    assert re.search(r"\|\s*orders\|\s*ok\|", capsys.readouterr().out)


@pytest.mark.soak
def test_a_question_of_an_incident_review(recorded: Lake, config: Path) -> None:
    printed = in_new_shell(r"spark-submit .* jobs/query.py timeline .*", config.parent)
    assert re.search(r"\d +orders +broker_listed ", printed)


@pytest.mark.soak
def test_the_recorded_state_is_shown(
    recorded: Lake,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", str(config))
    (line,) = set(commands("kafka-metadata-history show"))

    def told(*arguments: str) -> list[dict[str, object]]:
        assert exit_status([*arguments, "--format", "json"]) == 0
        return [json.loads(each) for each in capsys.readouterr().out.splitlines()]

    (of,) = told(*shlex.split(line)[1:])
    assert (of["cluster"], of["offline"], of["brokers"]) == ("orders", 0, 3)
    ask = without_spark(recorded)
    for broker in ask("SELECT broker_id FROM silver.brokers_now")["broker_id"].to_pylist():
        (found,) = told("show", "--broker", str(broker))
        assert found["state"] == "listed"
    (reach,) = reaches(ask, None)
    assert told("diff", f"{reach.until}") == []


@pytest.mark.soak
def test_the_status_as_a_textfile_says_that_all_is_well(
    recorded: Lake, config: Path, tmp_path: Path
) -> None:
    (example,) = (block for block in blocks("sh") if "textfile_collector" in block)
    made = tmp_path / "kafka_metadata_history.prom"
    example = re.sub(r"(?m)^FILE=.*", f"FILE={made}", example)
    (plain,) = set(commands(r"kafka-metadata-history status"))
    assert f"\n{plain} --config {CONFIG} --format prometheus" in example
    example = example.replace(CONFIG, str(config))
    run_in_new_shell(f"{{ {example}}}", JDK_JAVA_OPTIONS=SMALL_JVM)
    metrics = {each.name: each.samples for each in text_string_to_metric_families(made.read_text())}
    good, crossed = (
        metrics[f"kafka_metadata_history_{name}"] for name in ("recent_polls", "threshold_crossed")
    )
    assert [(each.labels, each.value) for each in good] == [({"cluster": "orders"}, 1)]
    assert [each.labels for each in crossed if each.value] == []
    assert [each.name for each in tmp_path.iterdir()] == [made.name]


@pytest.mark.soak
def test_a_report_of_a_window(
    recorded: Lake, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", str(config))
    monkeypatch.chdir(tmp_path)
    lines = dict.fromkeys(commands(r"kafka-metadata-history report --since (?!.* \.demo/).*"))
    assert len(lines) == 2
    for line in lines:
        assert exit_status(shlex.split(line)[1:]) == 0
    assert {each.name for each in tmp_path.iterdir()} == {"incident.html", "report.html"}


@pytest.mark.soak
def test_a_lake_is_exported_and_imported_by_jobs(recorded: Lake, config: Path) -> None:
    elsewhere = config.with_name("elsewhere.yaml")
    told = yaml.safe_load(config.read_text())
    elsewhere.write_text(yaml.safe_dump(told | {"lake": str(config.parent / "elsewhere")}))
    for job in ("export", "import_history"):
        (line,) = commands(rf"spark-submit .* jobs/{job}\.py .*")
        for written_down in (CONFIG, elsewhere.name):
            line = re.sub(rf"(?<= ){written_down}", str(config.with_name(written_down)), line)
        run_in_new_shell(
            line.replace("/backup", str(config.parent / "backup")), JDK_JAVA_OPTIONS=SMALL_JVM
        )
    brokers = "SELECT broker_id FROM silver.brokers_now ORDER BY broker_id"
    found = [
        without_spark(each)(brokers) for each in (recorded, Lake(root=f"{config.parent}/elsewhere"))
    ]
    assert found[0].num_rows == 3
    assert found[0] == found[1]


@pytest.mark.soak
def test_the_status_by_a_job(recorded: Lake, config: Path) -> None:
    command = written(r"spark-submit .* jobs/status\.py .*", config.parent)
    assert "orders" in run_in_new_shell(
        f"{{ {command} || [ $? = {CROSSED} ]; }}", JDK_JAVA_OPTIONS=SMALL_JVM
    )


NO_SPARK = r"kafka-metadata-history (?:check|query|status)\b(?!.* \.demo/).*"
"""Those of the demo run in tests/kafka/test_installed.py."""


@pytest.mark.parametrize("line", dict.fromkeys(commands(NO_SPARK)))
def test_a_line_of_the_command_that_needs_no_spark(
    lake: Lake, config: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", str(config))
    # A threshold may be crossed: nobody has polled into a new lake, or kept up its tables.
    assert exit_status(shlex.split(line)[1:]) in ({0, CROSSED} if " status" in line else {0})


@pytest.mark.soak
def test_validation_finds_nothing_critical(recorded: Lake, config: Path) -> None:
    printed = in_new_shell(r"spark-submit .* jobs/validate\.py .*", config.parent)
    assert re.search(
        r"^known_partitions_complete +silver topics +critical +\d+ +0$", printed, re.MULTILINE
    )
    assert (
        "Great Expectations"
        in (Path(str(recorded)) / "quality" / "data_docs" / "index.html").read_text()
    )


def test_the_source_reads_what_the_example_asks_for(spark, cluster: LocalCluster) -> None:
    (example,) = (block for block in blocks("python") if 'format("kafka_metadata")' in block)
    host = cluster.bootstrap_servers.split(",")[0]
    *lines, expression = example.replace("host:9092", host).split("\n(", 1)
    names: dict[str, object] = {"spark": spark}
    exec(lines[0], names)  # noqa: S102
    frame = eval(f"({expression}", names)  # noqa: S307
    assert {"leader", "isr", "replicas"} <= set(frame.columns)

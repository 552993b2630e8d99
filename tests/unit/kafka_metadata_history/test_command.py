"""The command asks a lake in a folder, without a JVM."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from jobs.configuration.config import ConfigError, load
from jobs.run.session import SessionError
from kafka_metadata_history import check, command, spark
from kafka_metadata_history.answers.questions import names
from kafka_metadata_history.command import FAILED, NAME, USAGE, app, exit_status
from kafka_metadata_history.jars import delta
from metadata_source.errors import PollError
from metadata_source.options import Cluster, parse
from metadata_source.probes import Permission
from schemas import in_duckdb
from schemas.lake import Lake
from schemas.table import LAKE_VERSION, Table
from tests.support.store_lake import stored, unpacked

WINDOW = ("--since", "2026-11-01", "--until", "2026-11-02")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the known incident: two of three brokers are missing."""
    folder = tmp_path_factory.mktemp("stored")
    return unpacked(stored(LAKE_VERSION), folder)


@pytest.fixture
def config(lake: Path, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    return str(file)


def asked(
    config: str, *arguments: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, list[str]]:
    found = exit_status(["query", *arguments, "--config", config])
    printed = capsys.readouterr()
    return found, printed.out, printed.err.splitlines()


def test_an_answer_says_how_many_rows_who_answered_and_what_history_reaches(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, answer, beside = asked(config, "broker_incidents", *WINDOW, capsys=capsys)
    assert found == 0
    heading, _, *rows, _ = answer.splitlines()
    assert heading.split()[:4] == ["broker", "id", "rack", "began"]
    assert [row.split()[:2] for row in rows[:2]] == [["2", "b"], ["3", "b"]]
    assert beside == [
        "2 rows, by DuckDB",
        (
            "history of prod: 2026-11-01 12:00:00Z to 2026-11-01 12:00:30Z; it lacks the "
            "beginning of the window"
        ),
    ]


@pytest.mark.parametrize("name", names())
def test_every_named_question_is_answered(
    config: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, beside = asked(config, name, *WINDOW, capsys=capsys)
    assert (found, beside[0].partition(" ")[2].replace("row,", "rows,")) == (0, "rows, by DuckDB")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("health", "status"),
        ("broker_incidents", "worst level"),
        ("rebalances", "partitions"),
        ("stuck_groups", "state"),
    ],
)
def test_a_table_shows_first_the_columns_that_matter_most(
    config: str, name: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer, _ = asked(config, name, *WINDOW, capsys=capsys)
    assert column in answer.partition("(not shown")[0]


def test_programs_get_all_rows_and_columns(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = (
        "SELECT cluster, topic, isr FROM silver.partitions_now WHERE topic = 'orders' ORDER BY "
        "partition"
    )
    _, answer, beside = asked(config, sql, "--format", "json", capsys=capsys)
    rows = [json.loads(line) for line in answer.splitlines()]
    assert beside[0] == f"{len(rows)} rows, by DuckDB"
    assert len(rows) > 1
    assert set(rows[0]) == {"cluster", "topic", "isr"}
    for form, lines in (("table", 3), ("csv", 2), ("json", 1)):
        _, answer, beside = asked(config, sql, "--format", form, "--limit", "1", capsys=capsys)
        assert len(answer.splitlines()) == lines
        assert beside[0] == f"{len(rows)} rows, by DuckDB; 1 shown, --limit 0 shows all"


def test_the_list_has_a_line_for_each_question_with_its_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_status(["query"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert max(map(len, lines)) <= 120
    (stuck,) = (line for line in lines if line.startswith("stuck_groups "))
    assert " ".join(stuck.split()).endswith("end? --cluster --broker --group --at-least")


def test_the_list_of_commands_cuts_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_the_help_of_a_question_explains_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["query", "broker_incidents", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "broker_incidents: What happened to brokers: stopped, crashed, lagging?"
    assert [line.split()[0] for line in lines[-2:]] == ["--cluster", "--broker"]
    assert exit_status(["query", "--help"]) == 0
    assert "[NAME|SELECT]" in capsys.readouterr().out


def test_a_table_is_opened_once(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()
    opening = in_duckdb._opened

    def counted(lake: Lake, table: Table) -> object:
        opened[table.full_name] += 1
        return opening(lake, table)

    monkeypatch.setattr(in_duckdb, "_opened", counted)
    assert exit_status(["query", "timeline", *WINDOW, "--cluster", "prod", "--config", config]) == 0
    assert opened["silver.broker_snapshots"] == 1
    assert set(opened.values()) == {1}


def test_a_table_of_one_cluster_does_not_name_it(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer, _ = asked(config, "timeline", *WINDOW, "--cluster", "prod", capsys=capsys)
    assert "prod" not in answer
    _, answer, _ = asked(config, "timeline", *WINDOW, "--cluster", "prod", "--wide", capsys=capsys)
    assert "prod" in answer


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["unclean_election"],
            "no query is called 'unclean_election'; did you mean unclean_elections?",
        ),
        (
            ["timeline", "--at-least", "5 minutes"],
            "timeline: --at-least does not narrow this query; it takes",
        ),
        (["stuck_groups", "--at-least", "long"], "'long' is neither a time like"),
        (["timeline", "--since", "yesterday"], "'yesterday' is neither a time like"),
        (["timeline", "--since", "2026-11-02", "--until", "2026-11-01"], "is after --until"),
        (
            ["stuck_groups", "--topic", "orders"],
            "stuck_groups: --topic does not narrow this query; it takes --cluster,",
        ),
        (
            ["SELECT 1 AS one", "--broker", "1"],
            "SELECT: --broker does not narrow this query; nothing narrows it",
        ),
        (
            ["timeline", "--cluster", "prd"],
            "--cluster prd: history knows no such cluster; did you mean prod?",
        ),
        (
            ["timeline", "--topic", "order"],
            "--topic order: history knows no such topic; did you mean orders?",
        ),
        (
            ["timeline", "--cluster", "prod", "--broker", "9"],
            "history of cluster prod knows no such broker;",
        ),
        (["timeline", "--group", "billing"], "--group billing: history knows no such group"),
        (["SELECT nothing FROM gold.leader_changes"], "DuckDB: Binder Error"),
        (
            ["SELECT 1 FROM silver.partitionz"],
            "silver.partitionz: no such table; did you mean silver.partition",
        ),
        (
            ["SELECT 1 FROM gold.broker_incident"],
            "gold.broker_incident: no such table; did you mean",
        ),
        (
            ["SELECT 1 FROM brokers_now"],
            "brokers_now: no such table; did you mean silver.brokers_now?",
        ),
        (["SELECT 1 FROM gold.zzzzzzzz"], "gold.zzzzzzzz: no such table; docs/tables.md has all"),
        (["DELETE FROM gold.leader_changes"], "neither a name nor a query (SELECT)"),
        (["DROP VIEW gold.incident_timeline"], "neither a name nor a query (SELECT)"),
        (
            ["COPY gold.leader_changes TO '/tmp/leader_changes.csv'"],
            "neither a name nor a query (SELECT)",
        ),
        (["SELECT 1; SELECT 2"], "neither a name nor a query (SELECT)"),
        (["SELECT FROM WHERE"], "neither a name nor a query (SELECT)"),
        (["SELEC 1"], "Line 1, Col: 7. SELEC 1"),
        (
            ["SELECT * FROM read_csv('/etc/passwd')"],
            "the function read_csv is not known to be in DuckDB what it is in",
        ),
        (
            ["SELECT * FROM read_text('/etc/passwd')"],
            "the function read_text is not known to be in DuckDB what it is",
        ),
        (["SELECT * FROM '/etc/passwd'"], "/etc/passwd: no such table; docs/tables.md has all"),
        (["timeline", "--format", "xml"], "Invalid value for '--format'"),
    ],
)
def test_a_question_that_nobody_can_answer(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    found, answer, beside = asked(config, *arguments, capsys=capsys)
    assert (found, answer) == (USAGE, "")
    assert says in beside[-1]


def test_where_there_is_no_lake_or_no_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(str(tmp_path / "no.yaml"), "timeline", capsys=capsys)[0] == FAILED
    file = tmp_path / "config.yaml"
    file.write_text(
        f"lake: {tmp_path}/lake\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    found, _, beside = asked(str(file), "timeline", capsys=capsys)
    assert found == FAILED
    assert beside == [
        (
            f"kafka-metadata-history: {tmp_path}/lake: no lake there; `kafka-metadata-history "
            "run` makes one"
        )
    ]


def test_no_part_of_spark_is_needed(config: str) -> None:
    script = (
        "import sys; from kafka_metadata_history.command import exit_status; found = "
        f"exit_status(['query', 'timeline', '--since', '2026-11-01', '--config', {config!r}]); "
        "sys.exit(found or 'pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


# --- a first configuration ---


def found_by(
    monkeypatch: pytest.MonkeyPatch, *missing: Permission, problem: str | None = None
) -> None:
    """Let a cluster be polled by what follows, or not at all."""

    def checked(cluster: Cluster, *_: object) -> tuple[object, list[Permission]]:
        if problem is not None:
            raise PollError("authentication", problem)
        topics = SimpleNamespace(num_rows=3)
        state = SimpleNamespace(
            metadata=SimpleNamespace(topics=topics), poll=SimpleNamespace(latency_ms=1.5)
        )
        return state, list(missing)

    monkeypatch.setattr(check, "check", checked)


INIT = ("init", "--alias", "orders", "--bootstrap", "b1:9092,b2:9092", "--lake", "lake")


def test_a_first_configuration_asks_what_its_user_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.yaml"
    log = Permission(
        "rebalance history", "READ", "missing: READ", "--operation Read --topic __consumer_offsets"
    )
    settings = Permission(
        "min ISR", "DESCRIBE_CONFIGS", "missing: DESCRIBE_CONFIGS on 3 of 3 topics", "--operation X"
    )
    found_by(monkeypatch, log, settings)
    user = (
        "--option",
        "kafka.security.protocol=SASL_SSL",
        "--option",
        "kafka.sasl.mechanism=PLAIN",
    )
    secret = (
        "--option",
        "kafka.sasl.username=eve",
        "--option",
        "kafka.sasl.password=env:KAFKA_PASSWORD",
    )
    assert exit_status([*INIT, *user, *secret, "--config", str(file)]) == 0
    made = load(str(file))
    assert (made.lake.root, set(made.clusters), made.group_log) == (
        f"{tmp_path}/lake",
        {"orders"},
        None,
    )
    assert made.clusters["orders"]["kafka.sasl.password"] == "env:KAFKA_PASSWORD"
    asked = parse(made.source_options({}), "stream").polling["orders"].enrich
    assert set(asked) == {"reassignments", "quorum", "fenced", "groups"}
    text = file.read_text()
    command = (
        "kafka-acls --bootstrap-server b1:9092,b2:9092 --add --allow-principal User:eve --operation"
    )
    assert f"#   {command} Read --topic __consumer_offsets\n" in text
    assert f"#   {command} X\n" in text
    assert f"{file} is written" in capsys.readouterr().err
    found_by(monkeypatch)
    assert exit_status([*INIT, "--config", str(file)]) == 1, "nothing takes its place"
    assert file.read_text() == text
    other = tmp_path / "other.yaml"
    assert exit_status([*INIT, "--config", str(other)]) == 0
    assert load(str(other)).group_log == {"startingOffsets": "earliest"}
    assert "#   kafka-acls" not in other.read_text()


@pytest.mark.parametrize(
    ("more", "says", "expected"),
    [
        ((), "orders: failed: authentication: no such user", 3),
        (("--option", "kafka.sasl.password=hunter2"), "kafka.sasl.password", 1),
        (("--option", "kafka.sasl.mechanism"), "not NAME=VALUE", 2),
    ],
)
def test_no_configuration_is_written_that_does_not_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    more: tuple[str, ...],
    says: str,
    expected: int,
) -> None:
    found_by(monkeypatch, problem="no such user")
    file = tmp_path / "history.yaml"
    assert exit_status([*INIT, *more, "--config", str(file)]) == expected
    assert not file.exists()
    error = capsys.readouterr().err
    assert says in error
    assert "hunter2" not in error


def test_a_lake_that_cannot_be_named_leaves_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found_by(monkeypatch)
    file = tmp_path / "history.yaml"
    for _ in range(2):
        assert exit_status([*INIT[:-1], "it's", "--config", str(file)]) == 1
        assert "lake" in capsys.readouterr().err.splitlines()[-1]
        assert not file.exists()


def test_init_asks_for_what_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found_by(monkeypatch)
    file = tmp_path / "history.yaml"
    asked = CliRunner().invoke(app, ["init", "--config", str(file)], input="orders\nb1:9092\n\n")
    assert asked.exit_code == 0, asked.output
    assert load(str(file)).lake.root == f"{tmp_path}/lake"


def test_init_takes_a_client_s_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found_by(monkeypatch)
    client, file = tmp_path / "client.properties", tmp_path / "history.yaml"
    client.write_text(
        "bootstrap.servers=b1:9092\nacks=all\nclient.id=0123\n"
        "ssl.endpoint.identification.algorithm=\n"
    )
    made = [
        "init",
        "--alias",
        "0123",
        "--lake",
        "lake",
        "--client",
        str(client),
        "--config",
        str(file),
    ]
    protocol = ["--option", "kafka.security.protocol=SSL"]
    asked = CliRunner().invoke(app, [*made, *protocol], input="\n")
    assert asked.exit_code == 0, asked.output
    assert "Its bootstrap servers (host:port, ...) [b1:9092]: " in asked.output
    assert f"{client}: warning: passed over, nothing here needs it: acks\n" in asked.output
    assert load(str(file)).clusters == {
        "0123": {
            "kafka.bootstrap.servers": "b1:9092",
            "kafka.client.id": "0123",
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.security.protocol": "SSL",
        }
    }
    other = tmp_path / "other.yaml"
    assert exit_status([*made[:-1], str(other), *protocol, "--bootstrap", "b2:9092"]) == 0
    assert load(str(other)).clusters["0123"]["kafka.bootstrap.servers"] == "b2:9092"
    client.write_text("kafka.bootstrap.servers: b1:9092\n")
    assert exit_status([*made[:-1], str(tmp_path / "third.yaml"), "--bootstrap", "b2:9092"]) == 1
    assert "contradicts --bootstrap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "says"),
    [("none/history.yaml", "No such file or directory"), ("file/h.yaml", "Not a directory")],
)
def test_a_configuration_that_cannot_be_written_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    says: str,
) -> None:
    found_by(monkeypatch)
    (tmp_path / "file").touch()
    assert exit_status([*INIT, "--config", str(tmp_path / place)]) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == f"{NAME}: {tmp_path / place}: cannot be written: {says}"
    )


def test_nothing_is_written_before_it_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for a moment, in which whoever asks would find a file that is refused."""
    found_by(monkeypatch)
    file = tmp_path / "history.yaml"

    def refused(text: str, path: str) -> None:
        assert (text.startswith("# Where the tables are"), path, file.exists()) == (
            True,
            str(file),
            False,
        )
        raise ConfigError("refused")

    monkeypatch.setattr(command, "parsed", refused)
    assert exit_status([*INIT, "--config", str(file)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_home_or_a_folder_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.yaml"
    for lake in ("~no-such-user-here/lake", "~/lake"):
        file.write_text(f"lake: {lake}\nclusters: {{a: {{kafka.bootstrap.servers: 'b:1'}}}}\n")
        if lake == "~/lake":  # of a user whom the system does not know, as in a container
            monkeypatch.delenv("HOME")
            monkeypatch.setattr("os.getuid", lambda: 4_242_424)
        assert exit_status(["check", "--config", str(file)]) == 1
        says = f"{NAME}: {file}: {lake}: there is no such home folder: write the whole path\n"
        assert capsys.readouterr().err == says
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found_by(monkeypatch)
    for asked in (["check"], ["status"], ["query", "overview"], ["report"], [*INIT]):
        assert exit_status([*asked, "--config", "history.yaml"]) == 1
        *_, said = capsys.readouterr().err.splitlines()
        assert said.startswith(f"{NAME}: history.yaml")
        assert "a folder that was removed" in said
    os.chdir(tmp_path)


def test_a_user_without_a_home_is_told_where_one_is_needed(config: str, tmp_path: Path) -> None:
    script = f"""
import os, sys
os.getuid = lambda: 4_242_424
from kafka_metadata_history.command import exit_status
for asked in (["query", "overview", "--limit", "1"], ["report"]):
    print(exit_status([*asked, "--config", {config!r}]))
"""
    homeless = {
        name: value
        for name, value in os.environ.items()
        if name != "HOME" and not name.startswith("XDG_")
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=homeless,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert [line for line in done.stdout.splitlines() if line.isdigit()] == ["0", "1"], done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"{NAME}: this user has no home folder, in which Bokeh looks for settings: set HOME"
    )


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (
            "~/.cache/jars",
            "this user has no home folder to keep Delta's jars in: set HOME, or XDG_CACHE_HOME",
        ),
        (
            "/dev/null/jars",
            "Delta's jars cannot be kept in /dev/null/jars: Not a directory: set XDG_CACHE_HOME",
        ),
    ],
)
def test_a_folder_for_jars_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, place: str, says: str
) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark, "JARS", Path(place))
    monkeypatch.setattr(delta, "JARS", Path(place))
    with pytest.raises(SessionError) as caught:
        spark.prepare("1g")
    assert str(caught.value) == says
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ

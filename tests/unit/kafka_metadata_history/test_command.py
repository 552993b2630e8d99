"""The command asks a lake in a folder, without a JVM."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kafka_metadata_history import command
from kafka_metadata_history.answers.questions import THEMES, by_theme, filters_of, names
from kafka_metadata_history.command import FAILED, NAME, USAGE, exit_status
from schemas.open_tables import OpenTables
from schemas.table import LAKE_VERSION, Table
from tests.support.for_each import for_each
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


@for_each("name", names())
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


@for_each("name", by_theme()["maintenance"])
def test_a_table_about_maintenance_has_at_most_eight_columns(
    config: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without rows none is left out for want of a value."""
    _, answer, beside = asked(
        config, name, "--since", "2020-01-01", "--until", "2020-01-02", capsys=capsys
    )
    assert beside[0] == "0 rows, by DuckDB"
    assert "not shown" not in answer


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


def test_the_list_has_a_line_for_each_question_with_its_options_by_theme(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_status(["query"]) == 0
    lines = capsys.readouterr().out.splitlines()
    themes = [line for line in lines if line.endswith(":")]
    assert themes == [f"{theme}:" for theme in THEMES]
    assert sorted(line.split()[0] for line in lines if line not in themes) == names()
    of_groups = lines[lines.index("groups:") : lines.index("maintenance:")]
    assert {"lag", "rebalances"} <= {line.split()[0] for line in of_groups}
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
    opening = OpenTables._opened

    def counted(tables: OpenTables, table: Table) -> object:
        opened[table.full_name] += 1
        return opening(tables, table)

    monkeypatch.setattr(OpenTables, "_opened", counted)
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


@pytest.mark.parametrize("flags", [[], ["--dry-run"], ["--undo"]])
def test_an_upgrade_is_a_job(
    config: str, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    monkeypatch.setattr(command, "in_spark", lambda *given, memory: ran.append((*given, memory)))
    assert exit_status(["upgrade", "--config", config, *flags]) == 0
    assert ran == [("upgrade", config, *flags, "1g")]


def test_an_upgrade_is_tried_or_taken_back_but_not_both(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(["upgrade", "--config", config, "--dry-run", "--undo"]) == USAGE
    assert "--dry-run and --undo exclude each other" in capsys.readouterr().err


OF_ALL_CLUSTERS = {
    "status": "has a line for each cluster, the thresholds of which hold for all",
    "init": "reads no lake: the cluster that it asks for is the first one",
    "run": "records all clusters of the configuration",
    "notify": "narrows each target by its `clusters` in the configuration",
    "serve": "has a page for each cluster",
    "validate": "holds what is new of all clusters against the rules",
    "maintain": "keeps up tables, which hold all clusters",
    "upgrade": "upgrades tables, which hold all clusters",
    "mcp": "answers of the cluster that each call of a tool names",
    "import": "takes all that `export` has written, which takes --cluster",
    "demo": "plays on a cluster of its own",
    "pack": "packs programs, and reads no lake",
}
"""Command -> why it does not take --cluster."""


def test_each_command_takes_a_cluster_or_has_a_reason() -> None:
    without = {
        name
        for name, of in command.app.commands.items()
        if "--cluster" not in {each for given in of.params for each in given.opts}
    }
    assert without == {*OF_ALL_CLUSTERS}


@pytest.mark.parametrize("name", names())
def test_each_question_takes_a_cluster(name: str) -> None:
    assert "cluster" in filters_of(name)


READING = (
    ("query", "lag"),
    ("query", "SELECT count(*) FROM silver.quorum"),
    ("status",),
    ("explain",),
    ("events",),
    ("availability",),
    ("whatif", "--lose", "broker", "1"),
    ("show",),
    ("diff", "2026-11-01T12:00:05Z"),
    ("report", "--since", "2026-11-01", "--until", "2026-11-02", "--out", os.devnull),
)


def test_commands_that_only_read_need_no_pyspark(config: str) -> None:
    """It would take seconds."""
    script = (
        "import json, sys\n"
        "from kafka_metadata_history.command import exit_status\n"
        "config, commands = sys.argv[1], json.loads(sys.argv[2])\n"
        "found = [exit_status([*each, '--config', config]) for each in commands]\n"
        "loaded = {each.partition('.')[0] for each in sys.modules} & {'pyspark', 'py4j'}\n"
        "print(f'{found} {loaded or None}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, config, json.dumps(READING)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    # The record is old: `status` says so by its exit status.
    expected = [3 if each == ("status",) else 0 for each in READING]
    assert done.stdout.splitlines()[-1] == f"{expected} None", done.stderr

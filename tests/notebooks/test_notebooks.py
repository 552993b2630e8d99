"""The notebooks, run: in this process and by the documented command, of a history that is known; in
Spark; and where there is nothing to show.
"""

import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_notebook
from pandas import DataFrame

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.reader import Text
from kafka_metadata_history.report.make import Report
from notebooks import render
from notebooks.__main__ import main
from notebooks.render import names
from schemas.lake import Lake, LakeError
from tests.support.commands import run_in_new_shell
from tests.support.delta_lakes import delta_lake
from tests.support.documents import commands, document
from tests.support.known_rows import known_rows
from tests.support.report_pages import columns_of, data_of, marks_of
from tests.support.repository import ROOT
from tests.support.shown_notebooks import shown

UNTIL = "2026-11-01T12:01:40Z"
SINCE = datetime(2026, 11, 1, 12, 0, 5, tzinfo=UTC).timestamp() * 1000


def test_the_notebooks_are_those_of_the_documents() -> None:
    linked = re.findall(r"\(\.\./notebooks/(\w+)\.ipynb\)", document("notebooks.md"))
    assert (
        sorted(set(linked))
        == names()
        == ["incident", "isr_history", "leader_churn", "rebalance_history"]
    )


@pytest.mark.parametrize("name", names())
def test_stored_without_what_a_run_leaves(name: str) -> None:
    text = (render.FOLDER / f"{name}.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert notebook.nbformat == 4
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert len([cell for cell in code if "parameters" in cell.metadata.get("tags", [])]) == 1
    assert not re.search(r"""["'](?:/|[A-Z]:\\)""", text.replace("\\n", "\n")), "an absolute path"


@dataclass
class Page:
    """A page as its reader sees it: printed text, tables, the report's figures."""

    text: str
    tables: list[list[list[str]]]
    reports: list[str]

    @classmethod
    def of_html(cls, soup: BeautifulSoup) -> "Page":
        """What is in an HTML file."""
        return cls(
            soup.get_text(),
            tables_of(soup),
            [str(each["srcdoc"]) for each in soup.find_all("iframe")],
        )

    def columns(self, *wanted: str) -> list[tuple[str, ...]]:
        """The rows of the one table that has these columns."""
        ((header, *rows),) = (table for table in self.tables if set(wanted) <= set(table[0]))
        return [tuple(row[header.index(name)] for name in wanted) for row in rows]

    @property
    def figures(self) -> list[str]:
        """The names of its figures, in order."""
        (report,) = self.reports
        soup = BeautifulSoup(report, "html.parser")
        return [str(each["id"]).removeprefix("figure-") for each in soup.select(".figure")]

    def kinds(self, figure: str) -> set[str]:
        """The kinds of all marks in a figure."""
        (report,) = self.reports
        return set(marks_of(report, figure)["what"])

    def surely(self, figure: str, second: float) -> set[tuple[str, str]]:
        """The lanes and kinds of what a figure has as sure at a second of the window."""
        (report,) = self.reports
        marks, at = marks_of(report, figure), SINCE + second * 1000
        columns = (marks[key] for key in ("lane", "what", "sure_from", "sure_until"))
        return {
            (lane, kind)
            for lane, kind, begin, end in zip(*columns, strict=True)
            if begin <= at <= end
        }

    def levels(self, second: float) -> dict[str, str]:
        """Level -> how many partitions are at it, at a second of the window."""
        (report,) = self.reports
        steps, at = columns_of(report, "levels"), SINCE + second * 1000
        columns = (steps[key] for key in ("what", "count", "begin", "end"))
        return {
            level: count
            for level, count, begin, end in zip(*columns, strict=True)
            if begin <= at < end
        }


def tables_of(soup: BeautifulSoup) -> list[list[list[str]]]:
    """The text of each table's cells by row, without the rows' numbers."""
    return [
        [
            [cell.get_text() for cell in row.find_all(["th", "td"])][1:]
            for row in table.find_all("tr")
        ]
        for table in soup.find_all("table")
    ]


def page_of(name: str, lake: str) -> Page:
    """What a notebook shows of the known history, from 12:00:05 to 12:01:40."""
    with redirect_stdout(io.StringIO()) as printed:
        found = shown(name, lake=lake, since="95 seconds", until=UNTIL)
    tables = [
        tables_of(BeautifulSoup(each._repr_html_(), "html.parser"))
        for each in found
        if isinstance(each, DataFrame)
    ]
    reports = [each.html for each in found if isinstance(each, Report)]
    texts = [str(each) for each in found if isinstance(each, Text)]
    return Page(
        "".join([printed.getvalue(), *texts]), [table for of in tables for table in of], reports
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(delta_lake(tmp_path_factory.mktemp("known") / "lake", known_rows()))


@pytest.fixture(scope="module")
def pages(lake: str) -> dict[str, Page]:
    return {name: page_of(name, lake) for name in names()}


@pytest.fixture(scope="module")
def written(incident_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The HTML files that the documented command makes of the same."""
    folder = tmp_path_factory.mktemp("pages")
    config = folder / "kafka-metadata-history.yaml"
    config.write_text(
        f"lake: {incident_lake}\nclusters: {{prod: {{kafka.bootstrap.servers: 'localhost:1'}}}}\n"
    )
    (command,) = commands(r"python -m notebooks .*", document("notebooks.md"))
    for said, meant in (("kafka-metadata-history.yaml", str(config)), ("2 hours", "95 seconds")):
        assert said in command
        command = command.replace(said, meant)
    printed = run_in_new_shell(f"{command} --until {UNTIL} --to {folder}")
    assert printed.splitlines() == [str(folder / f"{name}.html") for name in names()]
    return {name: (folder / f"{name}.html").read_text() for name in names()}


@pytest.mark.soak
def test_a_page_is_whole_in_itself_and_shows_what_is_shown_here(
    written: dict[str, str], pages: dict[str, Page], incident_lake: Lake
) -> None:
    for name, html in written.items():
        assert not re.search(
            r"""<script|<link|@import|(?:src|href)\s*=\s*["']?https?:|url\(\s*["']?https?:""", html
        )
        assert str(ROOT) not in html
        soup = BeautifulSoup(html, "html.parser")
        assert "stderr" not in {
            name
            for tag in soup.find_all(attrs={"data-mime-type": True})
            for name in tag["data-mime-type"].split(".")
        }
        assert_same(Page.of_html(soup), pages[name], incident_lake)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["isr_history"])
@pytest.mark.usefixtures("spark")
def test_spark_shows_what_duckdb_does(
    pages: dict[str, Page], incident_lake: Lake, name: str
) -> None:
    """The tests' session is there, as one is on Databricks."""
    in_spark = page_of(name, Path(str(incident_lake)).as_uri())
    assert_same(in_spark, pages[name], Path(str(incident_lake)).as_uri())


def assert_same(page: Page, known: Page, lake: object) -> None:
    """Two pages show the same; `known` has it from DuckDB."""
    said = re.sub(r"(?m), in /.*$", f", in {lake}", known.text).splitlines()
    assert [line for line in said if line not in page.text] == []
    assert page.tables == known.tables
    assert [data_of(report)["sections"] for report in page.reports] == [
        data_of(report)["sections"] for report in known.reports
    ]
    # Bokeh draws names of its own by chance.
    sizes = [[len(each) for each in of.reports] for of in (page, known)]
    assert sizes[0] == pytest.approx(sizes[1], abs=1000)


def test_isr_history(pages: dict[str, Page]) -> None:
    page = pages["isr_history"]
    assert "prod, 2026-11-01 12:00:05Z to 2026-11-01 12:01:40Z, in /" in page.text
    assert "history of prod: 2026-11-01 12:00:00Z to 2026-11-01 12:02:00Z" in page.text
    assert page.columns("broker_id", "began", "duration_s", "worst_level") == [
        ("2", "11-01 12:00:00.0Z to 11-01 12:00:10.1Z", "19.9 to 40.1", "offline"),
        ("3", "11-01 12:00:10.0Z to 11-01 12:00:20.1Z", "29.9 to 50.1", "under_min_isr"),
    ]
    assert page.columns("broker_id", "partitions", "causes", "flapping") == [
        ("2", "4", "broker_down", "0"),
        ("3", "2", "broker_down", "0"),
        ("3", "1", "lagging", "0"),
    ]
    assert ("orders", "under_min_isr", "19.8 to 60.2") in page.columns("topic", "level", "seconds")
    assert page.figures == ["brokers", "levels", "isrs"]
    # Broker 2 had at its worst a partition that was offline, broker 3 one under min ISR.
    assert page.surely("brokers", 20) == {("broker 2", "offline"), ("broker 3", "under min ISR")}
    levels = {"under replicated", "at min ISR", "under min ISR", "offline"}
    assert page.kinds("isrs") == levels
    # From 12:00:20.1 to 12:00:30 two polls said the same; logs-0 needs its one replica in sync, all
    # the time.
    assert page.levels(20) == {"under replicated": "4", "under min ISR": "2", "offline": "2"}
    assert page.levels(10).keys() == levels
    assert page.levels(50) == {
        "under replicated": "0 surely, 1 at most",
        "at min ISR": "1 surely, 2 at most",
    }
    assert page.levels(90) == {"at min ISR": "1"}
    # Which partitions had a single replica left.
    assert page.columns("topic", "partition", "in_sync", "brokers_out", "seconds") == [
        ("__consumer_offsets", "0", "1", "2", "19.9 to 40.1"),
        ("clicks", "0", "2", "2, 3", "39.9 to 60.1"),
        ("orders", "0", "1", "2, 3", "9.9 to 30.1"),
        ("orders", "1", "1", "2, 3", "9.9 to 30.1"),
    ]
    # Each broker in the order of what happened.
    happened = page.columns("what", "broker_id", "rows", "example")
    assert {broker for _, broker, *_ in happened} >= {"-1", "1", "2", "3"}
    assert happened.index(("broker_gone", "2", "1", "")) < happened.index(
        ("isr_left", "3", "2", "orders-0")
    )


def test_leader_churn(pages: dict[str, Page]) -> None:
    page = pages["leader_churn"]
    assert page.columns("reason", "seen", "changes", "partitions", "longest_leaderless_s") == [
        ("failover", "4", "4", "3", "0"),
        ("offline", "2", "2", "2", "0"),
        ("preferred", "2", "2", "2", "0"),
        ("recovery", "2", "2", "2", "9.9 to 30.1"),
    ]
    assert page.columns("topic", "partition", "began", "unclean") == [
        ("clicks", "0", "11-01 12:00:30.0Z to 11-01 12:00:40.1Z", "proven")
    ]
    assert [row[:2] for row in page.columns("topic", "changes", "failover")] == [
        ("clicks", "3"),
        ("orders", "3"),
        ("__consumer_offsets", "2"),
        ("logs", "2"),
    ]
    assert page.figures == ["leaders", "brokers"]
    assert page.kinds("leaders") == {"failover", "offline", "recovery", "preferred", "unclean"}
    assert [
        row for row in page.columns("partition", "leader", "began", "ended") if row[0] == "logs-0"
    ] == [
        ("logs-0", "3", "by 11-01 12:00:00.1Z", "11-01 12:00:10.0Z to 11-01 12:00:20.1Z"),
        (
            "logs-0",
            "none",
            "11-01 12:00:10.0Z to 11-01 12:00:20.1Z",
            "11-01 12:00:30.0Z to 11-01 12:00:40.1Z",
        ),
        ("logs-0", "3", "11-01 12:00:30.0Z to 11-01 12:00:40.1Z", "goes on"),
    ]
    assert page.columns("hour", "broker_id", "changes") == [
        ("11-01 12:00:00.0Z", "1", "4"),
        ("11-01 12:00:00.0Z", "2", "6"),
        ("11-01 12:00:00.0Z", "3", "6"),
    ]
    assert page.columns("broker_id", "leads_before", "leads_after", "imbalance_worst") == [
        ("1", "1", "1", "0"),
        ("2", "3", "3", "1"),
        ("3", "1", "1", "1"),
    ]


def test_rebalance_history(pages: dict[str, Page]) -> None:
    page = pages["rebalance_history"]
    assert page.columns("group_id", "rebalances", "seconds", "percent", "crash_loops") == [
        ("billing", "8", "14 to 40.8", "14.7 to 42.9", "1"),
        ("shop", "1", "15", "15.8", "0"),
        ("search", "1", "1.2", "1.3", "0"),
        ("audit", "1", "0 or more", "0 or more", "0"),
        ("fresh", "0", "0", "0", "0"),
        ("reports", "0", "0", "0", "0"),
    ]
    assert page.columns("client_id", "client_host", "joined", "left", "in_crash_loop") == [
        ("billing-3", "/10.0.0.3", "3", "3", "True")
    ]
    assert page.columns("group_id", "state", "began") == [
        ("reports", "PreparingRebalance", "11-01 12:00:20.0Z to 11-01 12:00:30.1Z"),
        ("shop", "Reconciling", "11-01 12:01:25.0Z to 11-01 12:01:25.0Z"),
    ]
    assert [
        row[1:] for row in page.columns("began", "pause_s", "lag_before", "lag_peak", "reprocessed")
    ] == [("14 to 24", "22", "100", "20 to 95"), ("", "", "", "0 or more")]
    assert page.columns("topic", "partition", "seconds", "pause_unknown") == [
        ("orders", "1", "65.8 or more", "no_commit_after"),
        ("orders", "1", "13 to 23", ""),
        ("orders", "0", "0 to 3", ""),
    ]
    assert page.columns("prev_broker_id", "broker_id", "groups", "groups_that_rebalanced") == [
        ("2", "1", "5", "1"),
        ("1", "2", "5", "0"),
    ]
    assert page.figures == ["groups", "coordinators", "brokers", "leaders"]
    assert page.columns("reason", "rebalances", "groups") == [
        ("member_joined", "5", "2"),
        ("member_left", "4", "1"),
        ("partitions_changed", "1", "1"),
        ("static_member_left", "1", "1"),
    ]
    assert page.kinds("groups") >= {"storm", "crash loop"}
    assert page.surely("groups", 20) == {("billing", "member left")}
    assert page.surely("groups", 92) == {("shop", "partitions changed")}
    # Of billing: its coordinator was broker 1 from 10.1 to 40 s and broker 2 from 50.1 s; who stays
    # has other partitions from 27 to 30 s.
    assert page.surely("coordinators", 5.1) == {("2 to 1", "coordinator moved")}
    assert page.surely("coordinators", 45.1) == {("1 to 2", "coordinator moved")}
    header = [
        "generation",
        "began",
        "ended",
        "reasons",
        "members",
        "partitions_moved",
        "coordinator",
    ]
    (generations,) = (rows for first, *rows in page.tables if first == header)
    assert [(*row[3:5], row[6]) for row in generations[:3]] == [
        ("member_left", "1", "1"),
        ("member_joined", "2", "1"),
        ("member_joined", "3", "2"),
    ]
    members = page.columns(
        "generation", "began", "member", "change", "assigned_partitions", "other_partitions"
    )
    began = "11-01 12:00:27.0Z to 11-01 12:00:27.0Z"
    assert members[0] == ("12", began, "billing-1 /10.0.0.1", "stayed", "2", "True")
    assert ("billing-1 /10.0.0.1", "stayed", "1", "False") in [row[2:] for row in members]


def test_incident(pages: dict[str, Page]) -> None:
    page = pages["incident"]
    (report,) = page.reports
    assert "incidents of prod are not made yet" in page.text
    # tests/unit/kafka_metadata_history/report and tests/browser have what is in it.
    assert "<title>Kafka metadata history of prod</title>" in report
    # One row of the table for each kind, of all groups.
    whole = page.columns("what", "broker_id", "events", "example")
    assert ("coordinator_moved", "1", "5", "audit") in whole
    assert ("rebalance_began", "1", "1", "billing") in whole
    assert {
        "broker_gone",
        "isr_left",
        "leader_changed",
        "group_created",
        "storm",
        "crash_loop",
    } <= {row[0] for row in whole}


def reports(found: list[object]) -> list[str]:
    return [each.html for each in found if isinstance(each, Report)]


class TestNothing:
    @pytest.mark.parametrize("name", names())
    def test_a_folder_that_is_no_lake(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(LakeError, match="no lake there; `kafka-metadata-history run` makes"):
            shown(name, lake=str(tmp_path / "empty"))

    def test_a_lake_without_history(self, tmp_path: Path) -> None:
        empty = delta_lake(tmp_path / "lake", {})
        with pytest.raises(QueryError, match="history is empty: no cluster had a good poll"):
            shown("incident", lake=str(empty))

    def test_a_window_before_history(self, lake: str, capsys: pytest.CaptureFixture[str]) -> None:
        found = shown("isr_history", lake=lake, since="2026-10-01", until="2026-10-02")
        said = capsys.readouterr().out
        assert "history of prod: 2026-11-01 12:00:00Z to 2026-11-01 12:02:00Z; it lacks" in said
        assert said.count("None in this window.") == 5
        (report,) = reports(found)
        assert "Nothing is known of this window: history lies outside it." in report

    def test_a_quiet_window(self, lake: str) -> None:
        found = shown("leader_churn", lake=lake, since="2 seconds", until="2026-11-01T12:01:11Z")
        # Who led what is known; that it changed is not.
        (report,) = reports(found)
        assert "Nothing of this kind happened in this window, as far as polls saw." in report
        assert 0 < sum(isinstance(each, DataFrame) and not each.empty for each in found) < 7

    @pytest.mark.parametrize(
        ("parameters", "says"),
        [
            (
                {"cluster": "prd"},
                "--cluster prd: history knows no such cluster; did you mean prod?",
            ),
            ({"group": "bill"}, "--group bill: history knows no such group"),
            ({"since": "2026-11-02"}, "--since 2026-11-02 00:00:00Z is after --until 2026-11-01 "),
        ],
    )
    def test_parameters_that_cannot_be_meant(
        self, lake: str, parameters: dict[str, str], says: str
    ) -> None:
        with pytest.raises(QueryError) as caught:
            shown("incident", lake=lake, **{"since": "1 hour", "until": UNTIL, **parameters})
        assert str(caught.value).startswith(says)


def test_a_cell_that_fails_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [
        new_code_cell("lake = None", metadata={"tags": ["parameters"]}),
        new_code_cell("raise ValueError(lake + '\\n2')"),
    ]
    nbformat.write(new_notebook(cells=cells), tmp_path / "broken.ipynb")
    monkeypatch.setattr(render, "FOLDER", tmp_path)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dleft.as=it.was")
    assert main(["broken", "--config", "/etc/x.yaml", "--to", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "notebooks: broken: ValueError: /etc/x.yaml\n"
    assert not (tmp_path / "broken.html").exists()

"""The notebooks, run: here in DuckDB and by the documented command in Spark, of a history that is known; and where
there is nothing to show.
"""

import base64
import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import nbformat
import numpy as np
import pytest
from bs4 import BeautifulSoup
from IPython.core.pylabtools import print_figure
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from nbformat.v4 import new_code_cell, new_notebook
from pandas import DataFrame

from notebooks import colours, render
from notebooks.__main__ import main
from notebooks.render import names
from notebooks.review import Framed, ReviewError, open_review
from schemas import consumption, groups, silver
from schemas.lake import TABLES, VIEWS, Lake
from tests.commands import run_in_new_shell
from tests.support.documents import commands, document
from tests.support.shown_notebooks import known_to_duckdb, shown

ROOT = Path(__file__).resolve().parents[2]
UNTIL = "2026-11-01T12:01:40Z"
AXIS = (205, 1075)
"""Where the window begins and ends in a picture, in pixels."""


def test_the_notebooks_are_those_of_the_documents() -> None:
    linked = re.findall(r"\(\.\./notebooks/(\w+)\.ipynb\)", document("notebooks.md"))
    assert sorted(set(linked)) == names() == ["incident", "isr_history", "leader_churn", "rebalance_history"]


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
    """A page as its reader sees it: printed text, tables, pictures as PNG."""

    text: str
    tables: list[list[list[str]]]
    pngs: list[bytes]
    reports: list[str]

    @classmethod
    def of_html(cls, soup: BeautifulSoup) -> "Page":
        """What is in an HTML file."""
        pngs = [base64.b64decode(image["src"].removeprefix("data:image/png;base64,")) for image in soup.find_all("img")]
        return cls(soup.get_text(), tables_of(soup), pngs, [str(each["srcdoc"]) for each in soup.find_all("iframe")])

    @property
    def pictures(self) -> list[np.ndarray]:
        return [imread(io.BytesIO(png)) for png in self.pngs]

    def columns(self, *wanted: str) -> list[tuple[str, ...]]:
        """The rows of the one table that has these columns."""
        ((header, *rows),) = (table for table in self.tables if set(wanted) <= set(table[0]))
        return [tuple(row[header.index(name)] for name in wanted) for row in rows]

    def has(self, picture: int, colour: str, *, at: float | None = None) -> bool:
        """Whether a patch of that colour is in a picture; `at`: about there in the window, from 0 to 1."""
        pixels = self.pictures[picture][:, :, :3]
        if at is not None:
            left, right = AXIS
            middle = int(left + at * (right - left))
            pixels = pixels[:, middle - 3 : middle + 3]
        return int((np.abs(pixels - to_rgb(colour)) < 0.004).all(axis=2).sum()) > 100


def tables_of(soup: BeautifulSoup) -> list[list[list[str]]]:
    """The text of each table's cells by row, without the rows' numbers."""
    return [
        [[cell.get_text() for cell in row.find_all(["th", "td"])][1:] for row in table.find_all("tr")]
        for table in soup.find_all("table")
    ]


def page_of(name: str, lake: str = "known") -> Page:
    """What a notebook shows of the known history, from 12:00:05 to 12:01:40."""
    with redirect_stdout(io.StringIO()) as printed:
        found = shown(name, lake=lake, since="95 seconds", until=UNTIL)
    tables = [
        tables_of(BeautifulSoup(each._repr_html_(), "html.parser")) for each in found if isinstance(each, DataFrame)
    ]
    # As a kernel makes a picture of a figure.
    pngs = [print_figure(each) for each in found if isinstance(each, Figure)]
    reports = [each.html for each in found if isinstance(each, Framed)]
    return Page(printed.getvalue(), [table for of in tables for table in of], pngs, reports)


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    with known_to_duckdb():
        return {name: page_of(name) for name in names()}


@pytest.fixture(scope="module")
def written(incident_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The HTML files that the documented command makes of the same."""
    folder = tmp_path_factory.mktemp("pages")
    config = folder / "kafka-metadata-history.yaml"
    config.write_text(f"lake: {incident_lake}\nclusters: {{prod: {{kafka.bootstrap.servers: 'localhost:1'}}}}\n")
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
        assert not re.search(r"""<script|<link|@import|(?:src|href)\s*=\s*["']?https?:|url\(\s*["']?https?:""", html)
        assert str(ROOT) not in html
        soup = BeautifulSoup(html, "html.parser")
        assert "stderr" not in {
            name for tag in soup.find_all(attrs={"data-mime-type": True}) for name in tag["data-mime-type"].split(".")
        }
        assert_same(Page.of_html(soup), pages[name], incident_lake)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["isr_history"])
@pytest.mark.usefixtures("spark")
def test_spark_shows_what_duckdb_does(pages: dict[str, Page], incident_lake: Lake, name: str) -> None:
    """The tests' session is there, as one is on Databricks."""
    assert_same(page_of(name, str(incident_lake)), pages[name], incident_lake)


def assert_same(page: Page, known: Page, lake: Lake) -> None:
    """Two pages show the same; `known` has it from DuckDB."""
    said = known.text.replace("Lake known", f"Lake {lake}").splitlines()
    assert [line for line in said if line not in page.text] == []
    assert page.tables == known.tables
    assert [picture.tolist() for picture in page.pictures] == [picture.tolist() for picture in known.pictures]
    # Bokeh draws names of its own by chance.
    sizes = [[len(each) for each in of.reports] for of in (page, known)]
    assert sizes[0] == pytest.approx(sizes[1], abs=1000)


def test_isr_history(pages: dict[str, Page]) -> None:
    page = pages["isr_history"]
    assert "Cluster prod: " in page.text
    assert "from 2026-11-01 12:00:05Z to 2026-11-01 12:01:40Z" in page.text
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
    brokers, levels, left, partitions, happened = range(5)
    assert len(page.pictures) == 5
    assert [level for level, colour in colours.LEVEL.items() if page.has(brokers, colour)] == [
        "under_min_isr",
        "offline",
    ]
    assert all(page.has(levels, colour) and page.has(partitions, colour) for colour in colours.LEVEL.values())
    # From 12:00:20.1 to 12:00:30 two polls said the same; logs-0 needs its one replica in sync, all the time.
    assert page.has(levels, colours.LEVEL["offline"], at=20 / 95)
    assert not page.has(levels, colours.LEVEL["offline"], at=50 / 95)
    assert page.has(levels, colours.LEVEL["at_min_isr"], at=90 / 95)
    assert [kind for kind, colour in colours.LEFT.items() if page.has(left, colour)] == ["none in sync", "one", "two"]
    styles = colours.of_brokers([1, 2, 3])
    assert all(page.has(happened, style.colour) for style in styles.values())


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
    reasons, balance, led, heat, imbalance, hidden = range(6)
    assert len(page.pictures) == 6
    found = [reason for reason, colour in colours.REASON.items() if page.has(reasons, colour) and reason != "unknown"]
    assert found == ["failover", "offline", "recovery", "preferred"]
    styles = colours.of_brokers([1, 2, 3])
    for picture in (balance, led, imbalance):
        assert all(page.has(picture, style.colour) for style in styles.values()), picture
    assert page.has(led, colours.NONE, at=20 / 95)
    assert not page.has(led, colours.NONE, at=50 / 95)
    assert page.has(hidden, colours.COUNT)
    assert not any(page.has(heat, colour) for colour in colours.LEVEL.values() if colour != colours.NONE)


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
    assert [row[1:] for row in page.columns("began", "pause_s", "lag_before", "lag_peak", "reprocessed")] == [
        ("14 to 24", "22", "100", "20 to 95"),
        ("", "", "", "0 or more"),
    ]
    assert page.columns("topic", "partition", "seconds", "pause_unknown") == [
        ("orders", "1", "65.8 or more", "no_commit_after"),
        ("orders", "1", "13 to 23", ""),
        ("orders", "0", "0 to 3", ""),
    ]
    assert page.columns("prev_broker_id", "broker_id", "groups", "groups_that_rebalanced") == [
        ("2", "1", "5", "1"),
        ("1", "2", "5", "0"),
    ]
    groups, reasons, lanes, happened = range(4)
    assert len(page.pictures) == 4
    found = {reason for reason, colour in colours.REBALANCE.items() if page.has(reasons, colour)} - {"unknown"}
    assert found == {"member_joined", "member_left", "static_member_left", "partitions_changed"}
    assert page.has(groups, colours.REBALANCE["member_left"], at=20 / 95)
    assert page.has(groups, colours.REBALANCE["partitions_changed"], at=92 / 95)
    assert all(page.has(groups, colour) for colour in colours.STORM.values())
    # Of billing: its coordinator was broker 1 from 10.1 to 40 s and broker 2 from 50.1 s; who stays has other
    # partitions from 27 to 30 s.
    styles = colours.of_brokers([1, 2, 3])
    assert [page.has(lanes, styles[1].colour, at=second / 95) for second in (15, 60)] == [True, False]
    assert [page.has(lanes, styles[2].colour, at=second / 95) for second in (15, 60)] == [False, True]
    assert page.has(lanes, colours.MEMBER["partitions_changed_hands"], at=23 / 95)
    assert page.has(lanes, colours.MEMBER["as_before"], at=60 / 95)
    assert page.has(happened, styles[1].colour)


def test_incident(pages: dict[str, Page]) -> None:
    page = pages["incident"]
    (report,) = page.reports
    # tests/unit/test_report.py and tests/browser have what is in it.
    assert "<title>Kafka metadata history of prod</title>" in report
    # One row of the table for each kind, of all groups.
    whole = page.columns("what", "broker_id", "events", "example")
    assert ("coordinator_moved", "1", "5", "audit") in whole
    assert ("rebalance_began", "1", "1", "billing") in whole
    assert {"broker_gone", "isr_left", "leader_changed", "group_created", "storm", "crash_loop"} <= {
        row[0] for row in whole
    }


def is_blank(picture: object) -> bool:
    return isinstance(picture, Figure) and "nothing of this in the window" in {
        text.get_text() for axes in picture.axes for text in axes.texts
    }


class TestNothing:
    @pytest.mark.usefixtures("spark")
    def test_a_folder_that_is_no_lake(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        found = shown("incident", lake=str(tmp_path / "empty"))
        assert "Nothing is known here: the lake has no gold.isr_changes." in capsys.readouterr().out
        assert not any(isinstance(each, Framed) for each in found)

    @pytest.mark.parametrize(("name", "pictures"), [("isr_history", 5), ("leader_churn", 6), ("rebalance_history", 4)])
    def test_a_lake_without_tables(self, capsys: pytest.CaptureFixture[str], name: str, pictures: int) -> None:
        with known_to_duckdb(without=[*TABLES, *VIEWS]):
            found = shown(name, since="1 day")
        assert "Nothing is known here: the lake has no gold.isr_changes." in capsys.readouterr().out
        assert sum(map(is_blank, found)) == pictures

    # What happened to brokers is told, of groups nothing.
    def test_a_lake_that_was_made_before_groups_were_read(self, capsys: pytest.CaptureFixture[str]) -> None:
        with known_to_duckdb(without=[*groups.TABLES, *consumption.TABLES, *groups.VIEWS, silver.GROUP_SNAPSHOTS]):
            found = shown("rebalance_history", since="95 seconds", until=UNTIL)
        assert "Nothing is known of groups: the lake has no gold.rebalances_told." in capsys.readouterr().out
        assert sum(map(is_blank, found)) == 3

    def test_a_report_of_such_a_lake(self) -> None:
        with known_to_duckdb(without=[*groups.TABLES, *consumption.TABLES, *groups.VIEWS, silver.GROUP_SNAPSHOTS]):
            (report,) = page_of("incident").reports
        of_groups = re.findall("Nothing is known of this: ([^<]*)", report)
        assert of_groups
        assert all("DuckDB: no table " in each for each in of_groups)
        assert "broker 2 was missing from the ISRs" in report

    def test_a_window_before_history(self, capsys: pytest.CaptureFixture[str]) -> None:
        with known_to_duckdb():
            found = shown("isr_history", since="2026-10-01", until="2026-10-02")
        said = capsys.readouterr().out
        assert "history from 2026-11-01 12:00:00Z to 2026-11-01 12:02:00Z" in said
        assert "Nothing is known of this window: history lies outside it." in said
        assert sum(map(is_blank, found)) == 5

    def test_a_quiet_window(self, capsys: pytest.CaptureFixture[str]) -> None:
        with known_to_duckdb():
            found = shown("leader_churn", since="2 seconds", until="2026-11-01T12:01:11Z", cluster="prod")
        assert "Nothing happened in this window, as far as polls saw." in capsys.readouterr().out
        # Who led what is known; that it changed is not.
        assert sum(map(is_blank, found)) == 4

    @pytest.mark.parametrize(
        ("parameters", "says"),
        [
            ({"since": "1 hour", "cluster": "prd"}, "the lake has no cluster 'prd'; it has prod"),
            ({"since": "1 hour", "group": "bill"}, "cluster prod has no group 'bill' in gold.group_lives"),
            ({"since": "2026-11-02"}, "since '2026-11-02' is not before until '2026-11-01T12:01:40Z'"),
        ],
    )
    def test_parameters_that_cannot_be_meant(self, parameters: dict[str, str], says: str) -> None:
        with known_to_duckdb(), pytest.raises(ReviewError) as caught:
            open_review("known", until=UNTIL, **parameters)
        assert str(caught.value) == says


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

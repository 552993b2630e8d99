"""A lake opened in Python answers what the commands print."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import kafka_metadata_history as kmh
from jobs.configuration.config import ConfigError
from kafka_metadata_history import reader as readers
from kafka_metadata_history.answers.questions import FILTERS, QueryError
from kafka_metadata_history.answers.text import plain_rows
from kafka_metadata_history.reader import LakeReader
from schemas import incidents
from schemas.lake import Lake, LakeError
from tests.support import stored
from tests.support.asof_lakes import KNOWN, both
from tests.support.delta_lakes import delta_lake
from tests.support.documents import document
from tests.support.incident import at
from tests.support.incident_rows import OPEN, event, incident_rows
from tests.support.printed import printed_by

BEGIN, END = "2026-11-01T12:00:05Z", "2026-11-01T12:01:40Z"
AT = "2026-11-01T12:00:25Z"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The known incident, in two clusters, and incidents that were made by hand."""
    return delta_lake(tmp_path_factory.mktemp("read") / "lake", both() | incident_rows())


@pytest.fixture
def config(lake: Lake, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    clusters = "{prod: {kafka.bootstrap.servers: 'a:1'}, test: {kafka.bootstrap.servers: 'b:1'}}"
    file.write_text(f"lake: {lake}\nclusters: {clusters}\n")
    return str(file)


@pytest.fixture
def reader(config: str) -> LakeReader:
    return kmh.open(config)


def rows(table: pa.Table) -> list[dict[str, object]]:
    return [*plain_rows(table)]


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (
            ("query", "broker_incidents", "--since", BEGIN, "--until", END, "--cluster", "prod"),
            lambda lake: lake.query("broker_incidents", since=BEGIN, until=END, cluster="prod"),
        ),
        (
            ("query", "SELECT DISTINCT topic FROM gold.isr_episodes ORDER BY topic"),
            lambda lake: lake.query("SELECT DISTINCT topic FROM gold.isr_episodes ORDER BY topic"),
        ),
        (("show", "--at", AT), lambda lake: lake.show(at=AT)),
        (
            ("show", "--at", AT, "--group", "billing", "--cluster", "prod"),
            lambda lake: lake.show(at=AT, group="billing", cluster="prod"),
        ),
        (("diff", BEGIN, AT), lambda lake: lake.diff(BEGIN, datetime.fromisoformat(AT))),
        (
            ("diff", "--clusters", "prod", "test", "--at", AT),
            lambda lake: lake.diff(clusters=("prod", "test"), at=AT),
        ),
        (("events", "--since", BEGIN), lambda lake: lake.events(BEGIN)),
    ],
)
def test_rows_are_those_of_the_command(
    command: tuple[str, ...],
    asked: Callable[[LakeReader], pa.Table],
    reader: LakeReader,
    config: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, *arguments = command
    status, answer, _ = printed_by(name, config, *arguments, "--format", "json", capsys=capsys)
    found = rows(asked(reader))
    known = [json.loads(line) for line in answer.splitlines()]
    assert status == 0
    for row in (*found, *known):
        row.pop("age_s", None)  # of when it was asked
    assert found == known
    assert found or "--clusters" in command


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (("explain", OPEN), lambda lake: lake.explain(OPEN)),
        (("explain", "--cluster", "prod"), lambda lake: lake.explain(cluster="prod")),
        (
            ("whatif", "--cluster", "prod", "--at", AT, "--lose", "broker", "1,2"),
            lambda lake: lake.whatif({"broker": [1, 2]}, cluster="prod", at=AT),
        ),
        (
            ("whatif", "--cluster", "prod", "--at", AT, "--lose", "rack", "a"),
            lambda lake: lake.whatif(lose={"rack": "a"}, cluster="prod", at=AT),
        ),
    ],
)
def test_texts_are_those_of_the_command(
    command: tuple[str, ...],
    asked: Callable[[LakeReader], readers.Text],
    reader: LakeReader,
    config: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, *arguments = command
    _, answer, _ = printed_by(name, config, *arguments, capsys=capsys)
    text = asked(reader)

    def of(said: str) -> list[str]:
        """Without ages, which differ by a second, and the file that a command was given."""
        lines = said.replace(f" --config {config}", "").splitlines()
        return [
            line.split(" ago")[0].rpartition(", ")[0] if " ago" in line else line for line in lines
        ]

    assert of(str(text)) == of(repr(text)) == of(answer)
    assert text.data["cluster" if "open" not in text.data else "open"]
    assert text._repr_markdown_().startswith(("### ", "```text\n", "    prod at "))


def test_figures_are_those_of_the_report(reader: LakeReader) -> None:
    page = reader.figures(BEGIN, END, cluster="prod", sections=("leaders", "brokers"))
    assert page.html.index('id="figure-leaders"') < page.html.index('id="figure-brokers"')
    assert 'id="figure-isrs"' not in page.html
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_a_window_is_of_one_cluster_and_narrows_what_it_can(reader: LakeReader) -> None:
    window = reader.window("95 seconds", END, topic="orders")
    assert window.filters == {"cluster": "prod", "topic": "orders"}
    assert window.others.keys() == {"test"}
    named = {row["cluster"] for row in rows(window.query("broker_incidents"))}
    assert named <= {"prod"}
    assert window.query("one_failure_from_offline")["topic"].unique().to_pylist() == ["orders"]
    assert window.query("one_failure_from_offline", topic="clicks")["topic"].to_pylist() == [
        "clicks"
    ]
    first, reach, *_, last = str(window).splitlines()
    assert first == f"prod, 2026-11-01 12:00:05Z to 2026-11-01 12:01:40Z, in {reader.lake}"
    assert reach.startswith("history of prod: 2026-11-01 12:00:00Z to ")
    assert last.startswith("not shown: test (")
    assert 'id="figure-isrs"' in window.figures().html
    assert reader.window(BEGIN, END, cluster="test").others == {}


def test_a_folder_is_opened_without_a_configuration(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_path = kmh.open(Path(str(lake)))
    assert by_path.show(at=AT)["cluster"].to_pylist() == ["prod", "test"]
    assert "nothing recorded of" not in str(by_path.explain()), "nobody says what is to be recorded"
    monkeypatch.chdir(Path(str(lake)).parent)
    relative = kmh.open("lake")
    monkeypatch.chdir("/")
    assert relative.query("broker_incidents", since=BEGIN, until=END).num_rows == 4


def test_each_call_asks_the_newest_commit(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path / "lake", KNOWN | incident_rows())
    reader = kmh.open(str(lake))
    before = reader.events("2026-11-01").num_rows
    stored.append(lake, incidents.EVENTS, [event(7, "ended", OPEN, 60, happened_before=at(60))])
    assert reader.events("2026-11-01").num_rows == before + 1
    none = reader.events(datetime(2026, 12, 1, tzinfo=UTC))
    assert (none.num_rows, none.schema) == (0, reader.events("2026-11-01").schema)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (lambda lake: lake.query("lagg"), "no query is called 'lagg'; did you mean lag?"),
        (lambda lake: lake.query("lag", grup="a"), "lag: --grup does not narrow this query; it "),
        (
            lambda lake: lake.query("lag", cluster="prd"),
            "--cluster prd: history knows no such clus",
        ),
        (lambda lake: lake.show(topic="a", broker=1), "--topic and --broker exclude each other"),
        (lambda lake: lake.diff(), "give T1 and T2, or --clusters A B [--at T]"),
        (lambda lake: lake.whatif({}), "--lose: name what is lost, broker or controller or rack"),
        (lambda lake: lake.whatif({"broke": 1}), "--lose broke 1: did you mean broker?"),
        (lambda lake: lake.explain("zzz"), "there is no incident 'zzz'"),
        (
            lambda lake: lake.figures(sections=["isr"]),
            "no figure is called 'isr'; did you mean isrs",
        ),
        (
            lambda lake: lake.window(BEGIN, END, grup="a"),
            "grup narrows no window: cluster, topic, ",
        ),
        (lambda lake: lake.window(BEGIN, END, group="bill"), "--group bill: history knows no such"),
        (lambda lake: lake.window(END, BEGIN), "--since 2026-11-01 12:01:40Z is after --until"),
    ],
)
def test_what_is_wrong_is_one_line(
    asked: Callable[[LakeReader], object], says: str, reader: LakeReader
) -> None:
    with pytest.raises(QueryError) as caught:
        asked(reader)
    assert str(caught.value).startswith(says)
    assert str(caught.value).isprintable()


def test_what_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="no lake there; `kafka-metadata-history run` makes one"):
        kmh.open(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file"):
        kmh.open(tmp_path / "none.yaml")
    with pytest.raises(LakeError, match="neither a folder, a file nor"):
        kmh.open({"katalog": "a"})


def test_a_catalog_and_other_file_systems_are_asked_through_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def in_spark(lake: Lake, _: object) -> object:
        asked.append(lake)
        return object()

    monkeypatch.setattr(readers, "_in_spark", in_spark)
    for place in ({"catalog": "main"}, "hdfs://host/lake"):
        kmh.open(place)
    assert asked == [Lake(catalog="main"), Lake(root="hdfs://host/lake")]


def test_the_examples_of_the_documents(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"```python\n(.*?)```", document("notebooks.md"), re.DOTALL)
    assert len(examples) == 3
    monkeypatch.chdir(Path(str(lake)).parent)
    names_there: dict[str, object] = {}
    for example in examples:
        exec(example, names_there)  # noqa: S102 - our own documents
    assert str(names_there["window"]).startswith("prod, ")


def test_the_calls_of_the_documents() -> None:
    (table,) = re.findall(
        r"\| call \| returns \|\n\|---\|---\|\n(.*?)\n\n", document("notebooks.md"), re.DOTALL
    )
    documented = dict(re.findall(r"(?m)^\| `(\w+)\((.*?)\)`", table))
    calls = {
        name: call for name, call in vars(LakeReader).items() if callable(call) and name[0] != "_"
    }
    assert documented.keys() == calls.keys()
    for name, call in calls.items():
        for each in re.findall(r"(\w+)=", documented[name]):
            parameters = inspect.signature(call).parameters
            assert each in parameters or ("filters" in parameters and each in FILTERS)


def test_importing_the_package_imports_nothing_large_and_a_folder_needs_no_spark(
    lake: Lake,
) -> None:
    script = f"""
import sys
import kafka_metadata_history as kmh
large = {{"pyspark", "duckdb", "bokeh", "pyarrow", "pandas", "deltalake", "click"}}
print(sorted(large & sys.modules.keys()))
kmh.open({str(lake)!r}).query("broker_incidents", since={BEGIN!r}, until={END!r})
print(sorted({{"pyspark", "bokeh"}} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "[]\n[]\n"

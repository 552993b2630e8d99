"""The pages, and their JSON, of lakes in folders."""

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from bs4 import BeautifulSoup
from starlette.testclient import TestClient

from kafka_metadata_history.answers.metrics.exposition import CONTENT_TYPE
from kafka_metadata_history.answers.questions import filters_of, names
from kafka_metadata_history.live import LiveLake
from kafka_metadata_history.web import app, ask
from kafka_metadata_history.web.app import PAGES
from schemas import gold
from tests.support import store_lake, stored
from tests.support.incident import at
from tests.support.incident_rows import OPEN, RESTART
from tests.support.reports import HOSTILE
from tests.support.store_lake import unpacked
from tests.support.waiting import eventually
from tests.support.web_lakes import config_of, pages, web_lake, web_rows

NOON = "2026-11-01T12:00:00Z"
ADDRESSES = {
    "/": {},
    "/cluster": {"cluster": "prod"},
    f"/incident/{OPEN}": {"cluster": "prod"},
    "/topic": {"cluster": "prod", "topic": "orders"},
    "/broker": {"cluster": "prod", "broker": "2"},
    "/group": {"cluster": "prod", "group": "billing"},
    "/diff": {"cluster": "prod", "from": "2026-11-01T12:00:05Z", "to": "2026-11-01T12:00:45Z"},
    "/whatif": {"cluster": "prod", "lose": "2"},
}


def address(path: str, **more: str) -> str:
    given = {**ADDRESSES.get(path, {}), **more}
    return f"{path}?{urlencode(given)}" if given else path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("web")
    config_of(made, web_lake(made / "lake"))
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with pages(str(folder / "kafka-metadata-history.yaml")) as made:
        yield made


def soup_of(client: TestClient, path: str, status: int = 200) -> BeautifulSoup:
    answer = client.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == status, answer.text
    return BeautifulSoup(answer.text, "html.parser")


def line_of(client: TestClient, path: str, status: int) -> str:
    found = soup_of(client, path, status).select_one("main .line")
    assert found is not None
    return found.get_text()


def test_each_page_has_an_address_that_is_tried_here() -> None:
    assert {path.replace("{id}", OPEN) for path in PAGES} == {*ADDRESSES}


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_page_and_its_json_have_the_same_sections(client: TestClient, path: str) -> None:
    page = soup_of(client, address(path))
    sections = [each["id"] for each in page.select("section")]
    answer = client.get(f"/api{address(path)}".replace("/api/?", "/api?").rstrip("/"))
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["title", "cluster", "lines", *sections]
    tables = [each for each in answer.json().values() if isinstance(each, dict) and "rows" in each]
    shown = [len(each.select("tbody tr")) for each in page.select("section") if each.select("h2")]
    assert sum(shown) == sum(len(each["rows"]) for each in tables)


def test_the_fleet_has_open_incidents_first_and_says_that_nobody_records(
    client: TestClient,
) -> None:
    fleet = client.get("/api").json()
    assert [row["incident"] for row in fleet["open"]["rows"]][:1] == [OPEN]
    assert fleet["clusters"]["rows"][0]["open_incidents"] == 1
    assert fleet["lines"][0].startswith("nothing recorded of prod since 2026-11-01 12:02:00Z, ")


def test_a_cluster_at_a_time_has_that_state(client: TestClient) -> None:
    then = client.get(address("/api/cluster", cluster="prod", at="2026-11-01T12:00:35Z")).json()
    now = client.get(address("/api/cluster", cluster="prod")).json()
    states = [
        {row["broker_id"]: row["state"] for row in each["brokers"]["rows"]} for each in (then, now)
    ]
    assert states == [
        {1: "listed", 2: "not_listed", 3: "not_listed"},
        {1: "listed", 2: "listed", 3: "listed"},
    ]
    assert [row["level"] for row in then["partitions"]["rows"]].count("offline") == 2
    (one,) = (row for row in then["brokers"]["rows"] if row["broker_id"] == 2)
    assert one["offline"] + one["under_min_isr"] + one["under_replicated"] == one["replicates"] == 4
    assert now["partitions"]["rows"] == []
    assert then["at"]["times"] == now["at"]["times"]
    assert NOON[:16] <= min(now["at"]["times"]) < max(now["at"]["times"]) <= "2026-11-01T12:02:01"


def test_an_incident_has_its_story_and_chain(client: TestClient) -> None:
    found = client.get(f"/api/incident/{OPEN}?cluster=prod").json()
    assert found["story"].startswith("OPEN  page: broker 3 has been missing")
    assert len(found["chain"]["rows"]) > 3
    assert client.get(f"/api/incident/{OPEN[:6]}?cluster=prod").json()["story"] == found["story"]
    assert "brokers 1, 2 and 3 were missing" in client.get(f"/incident/{RESTART}?cluster=prod").text


def test_a_question_is_a_form_and_its_csv_has_all_rows(client: TestClient) -> None:
    given = urlencode({"since": NOON, "until": "2026-11-01T12:02:00Z", "cluster": "prod"})
    page = soup_of(client, f"/ask/timeline?{given}")
    fields = [each["name"] for each in page.select("#question input")]
    assert fields == ["since", "until", *filters_of("timeline")]
    text = client.get(f"/ask/timeline?{given}&format=csv")
    assert text.headers["content-disposition"] == 'attachment; filename="timeline.csv"'
    heading, *rows = csv.reader(io.StringIO(text.text))
    assert heading[:2] == ["began_after", "began_before"]
    assert len(rows) == len(client.get(f"/api/ask/timeline?{given}").json()["rows"]["rows"])
    assert len(rows) == len(page.select("#rows tbody tr")) > 10


def test_an_answer_with_more_rows_than_csv_may_have_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "MOST", 3)
    answer = client.get(f"/ask/timeline?since={NOON}&until=2026-11-01T12:02:00.5Z&format=csv")
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(" rows, more than 3: narrow the question")


def test_all_questions_are_listed(client: TestClient) -> None:
    links = [each["href"] for each in soup_of(client, "/ask").select("section li a")]
    assert sorted(links) == [f"/ask/{name}" for name in names()]


@pytest.mark.parametrize(
    ("path", "status", "line"),
    [
        ("/cluster?cluster=prd", 400, "--cluster prd: history has prod; did you mean prod?"),
        (
            "/cluster?cluster=prod&at=2025-01-01",
            400,
            (
                "--at 2025-01-01 00:00:00Z: history of prod is 2026-11-01 12:00:00Z to 2026-11-01 "
                "12:02:00Z"
            ),
        ),
        ("/cluster?since=never", 400, "'never' is neither a time like"),
        ("/topic?cluster=prod", 400, "the address lacks topic="),
        ("/topic?topic=orderz", 400, "--topic orderz: history of cluster prod knows no such topic"),
        ("/broker?broker=x", 400, "broker x: not a broker's id, a whole number"),
        ("/incident/ffff", 400, "there is no incident 'ffff'"),
        ("/whatif?lose=9", 400, "--lose broker 9: "),
        ("/whatif?kind=city&lose=9", 400, "--lose city 9: one of broker, controller, rack"),
        ("/ask/timelin", 400, "no question is called 'timelin'; did you mean timeline?"),
        ("/ask/timeline?colour=red", 400, "timeline knows no colour; it takes cluster, topic, "),
        ("/nothing", 404, "/nothing: there is no such page"),
    ],
)
def test_a_wrong_address_is_one_line(client: TestClient, path: str, status: int, line: str) -> None:
    assert line_of(client, path, status).startswith(line)
    answer = client.get(f"/api{path}")
    assert answer.status_code == status
    assert answer.json()["error"].removeprefix("/api").startswith(line)


def test_a_window_without_history_says_so(client: TestClient) -> None:
    page = soup_of(client, "/ask/timeline?since=2026-10-01&until=2026-10-02")
    assert page.select_one("#rows .empty") is not None
    assert "history of prod: 2026-11-01" in page.get_text()


def test_the_figures_are_a_page_of_their_own(client: TestClient) -> None:
    page = soup_of(client, address("/cluster", cluster="prod"))
    frame = page.select_one("#figures iframe")
    assert frame is not None
    figures = client.get(str(frame["src"]))
    assert figures.status_code == 200
    assert figures.headers["content-security-policy"] == "frame-ancestors 'self'"
    assert "script-src &#x27;sha256-" in figures.text
    assert line_of(client, "/figures?since=never", 400).startswith("'never' is neither a time")
    # Or the frame would show a refusal of the browser's own.
    problem = client.get("/figures?since=never").headers["content-security-policy"]
    assert "frame-ancestors 'self'" in problem


# --- what the lake may be ---


def test_a_commit_makes_a_new_version_which_pages_show(tmp_path: Path) -> None:
    lake = web_lake(tmp_path / "lake")
    asked = f"/api/ask/timeline?since={NOON}&until=2026-11-01T12:02:00Z"
    with pages(config_of(tmp_path, lake)) as client:
        versions = [soup_of(client, "/").body["data-version"]]  # type: ignore[index]
        assert "new" not in {each["topic"] for each in client.get(asked).json()["rows"]["rows"]}
        row = web_rows()[gold.LEADER_CHANGES][0] | {"topic": "new", "changed_before": at(110)}
        stored.append(lake, gold.LEADER_CHANGES, [row])
        assert "new" in {each["topic"] for each in client.get(asked).json()["rows"]["rows"]}
        versions.append(soup_of(client, "/").body["data-version"])  # type: ignore[index]
    assert versions[0] != versions[1]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_lake_that_is_not_there_or_is_empty_is_one_line(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        web_lake(tmp_path / "lake", {})
    with pages(config_of(tmp_path, tmp_path / "lake")) as client:
        line = line_of(client, "/", 400 if is_there else 503)
        assert line.startswith(
            "history is empty: no cluster had a good poll"
            if is_there
            else f"{tmp_path}/lake: no lake there; `kafka-metadata-history run` makes one"
        )
        assert client.get("/healthz").text == "ok\n"
        assert soup_of(client, "/ask").h1.get_text() == "Ask"  # type: ignore[union-attr]


def test_who_looks_for_versions_passes_over_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "LOOK_S", 0.01)
    lake = web_lake(tmp_path / "lake")
    problems = iter([OSError(5, "Input/output error")] * 3)
    version = LiveLake.version

    def failing(of: LiveLake) -> str:
        for problem in problems:
            raise problem
        return version(of)

    with pages(config_of(tmp_path, lake)) as client:
        before = soup_of(client, "/").body["data-version"]  # type: ignore[index]
        monkeypatch.setattr(LiveLake, "version", failing)
        stored.append(lake, gold.LEADER_CHANGES, web_rows()[gold.LEADER_CHANGES][:1])

        def is_seen() -> bool:
            answer = client.get("/")
            return f'data-version="{before}"' not in answer.text and answer.status_code == 200

        eventually(is_seen, "the new version", within=60)
    assert next(problems, None) is None


def test_a_lake_that_comes_goes_and_is_replaced_is_shown_as_it_is(tmp_path: Path) -> None:
    with pages(config_of(tmp_path, tmp_path / "lake")) as client:
        assert client.get("/").status_code == 503
        web_lake(tmp_path / "lake")
        assert client.get("/").status_code == 200
        shutil.rmtree(tmp_path / "lake")
        assert client.get("/").status_code == 503
        web_lake(tmp_path / "lake", {})
        assert client.get("/").status_code == 400


# --- names that mean harm ---


def test_no_name_becomes_more_than_text_on_any_page_that_links_lead_to(tmp_path: Path) -> None:
    lake = web_lake(tmp_path / "lake", web_rows(hostile=True))
    seen: dict[str, BeautifulSoup] = {}
    with pages(config_of(tmp_path, lake)) as client:
        ahead = ["/", address("/cluster", cluster="prod", at="2026-11-01T12:00:35Z")]
        while ahead:
            path = ahead.pop()
            kind = path.partition("?")[0]
            if path in seen or sum(each.partition("?")[0] == kind for each in seen) >= 3:
                continue
            answer = client.get(path)
            if answer.status_code == 400:  # of a topic whose name is only changed in some tables
                assert "history of cluster prod knows no such topic" in answer.text, path
                continue
            assert answer.status_code == 200, (path, answer.text)
            # Figures are the report's, of which tests/unit/.../report says the same.
            if kind == "/figures" or "csv" in answer.headers["content-type"]:
                continue
            page = seen[path] = BeautifulSoup(answer.text, "html.parser")
            ahead += [str(each["href"]) for each in page.select("a[href^='/']")]
            assert [each.get("src") for each in page.select("script")] == ["/static/pages.js"], path
            assert not page.select("img"), path
            assert not [
                name for each in page.find_all(True) for name in each.attrs if name.startswith("on")
            ], path
            assert all(str(each["href"]).startswith(("/", "#")) for each in page.select("a")), path
    kinds = {each.partition("?")[0] for each in seen}
    assert {"/topic", "/group", "/broker", "/cluster", f"/incident/{OPEN}"} <= kinds
    text = " ".join(each.get_text() for each in seen.values())
    assert HOSTILE[0] in text
    assert "\x1b" not in text
    assert "\u202e" not in text


# --- SQL of a person ---


def sql(client: TestClient, text: str) -> tuple[int, BeautifulSoup]:
    answer = client.post("/ask/sql", data={"sql": text})
    return answer.status_code, BeautifulSoup(answer.text, "html.parser")


def test_sql_is_answered(client: TestClient) -> None:
    status, page = sql(client, "SELECT count(*) AS n FROM silver.broker_snapshots WHERE is_current")
    assert status == 200
    assert [each.get_text() for each in page.select("#rows td")] == ["3"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("DROP TABLE silver.quorum", "neither a name nor a query (SELECT)"),
        ("SELECT 1\0", "one SELECT is needed"),
        (" ", "one SELECT is needed"),
        ("x" * 200_000, "the form has more than 100,000 bytes"),
        (
            "SELECT repeat('x', 20000) FROM (SELECT explode(sequence(1, 3000)) AS n)",
            "the answer has more than 50,000,000 bytes: ask for less",
        ),
        ("SELECT * FROM read_csv('/etc/passwd')", "the function read_csv is not known"),
        ("SELECT * FROM '/etc/passwd'", "/etc/passwd: no such table"),
        ("--spark x", "neither a name nor a query (SELECT), which is all that is asked here"),
    ],
)
def test_sql_that_does_more_than_ask_is_one_line(client: TestClient, text: str, line: str) -> None:
    status, page = sql(client, text)
    assert status == 400
    (found,) = page.select("main .line")
    assert found.get_text().startswith(line)
    assert "root:" not in page.get_text()


def test_sql_that_takes_too_long_is_ended(folder: Path) -> None:
    many = "(SELECT explode(sequence(1, 1000000)) AS n)"
    text = f"SELECT count(*) FROM {many} AS a, {many} AS b WHERE a.n * b.n % 7 = 3"
    with pytest.raises(ask.QueryError, match=r"no answer within 3 s: ask for less"):
        ask.OwnSql(str(folder / "kafka-metadata-history.yaml")).answer(text, 3)


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        ("1 row\nkafka-metadata-history: DuckDB: no\n", "DuckDB: no"),
        ("memory allocation of 1 bytes failed\n", "no answer: its process ended, as one does that"),
        ("", "no answer: its process ended"),
    ],
)
def test_a_process_that_ended_is_one_line(printed: str, line: str) -> None:
    assert ask.problem_of(printed).startswith(line)


def test_sql_is_not_answered_where_it_is_not_allowed(folder: Path) -> None:
    with pages(str(folder / "kafka-metadata-history.yaml"), allow_sql=False) as client:
        status, page = sql(client, "SELECT 1")
        assert (status, page.h1.get_text()) == (403, "Not allowed")  # type: ignore[union-attr]
        assert client.get("/ask").text.count("<textarea") == 0


# --- what programs read ---


def test_all_json_is_described_and_all_that_is_described_answers(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()["paths"]
    pages_ = {f"/api{path}".rstrip("/") for path in PAGES}
    assert {*described} == pages_ | {"/api/annotations", "/api/ask"} | {
        f"/api/ask/{name}" for name in names()
    }
    window = {"since": NOON, "until": "2026-11-01T12:02:00Z"}
    for name in ("lag", "incidents"):
        known = [each["name"] for each in described[f"/api/ask/{name}"]["get"]["parameters"]]
        assert known == ["since", "until", *filters_of(name)]
        answer = client.get(f"/api/ask/{name}", params=window)
        assert answer.status_code == 200
        assert answer.json()["rows"]["rows"]


def test_prometheus_reads_metrics_of_the_newest_version(tmp_path: Path) -> None:
    lake = web_lake(tmp_path / "lake")
    with pages(config_of(tmp_path, lake)) as client:
        answer = client.get("/metrics")
        assert answer.headers["content-type"] == CONTENT_TYPE
        (age,) = (
            line
            for line in answer.text.splitlines()
            if line.startswith('kafka_history_record_age_seconds{cluster="prod"}')
        )
        assert float(age.split()[1]) > 100_000
        shutil.rmtree(lake.root or "")
        answer = client.get("/metrics")
        assert answer.status_code == 503
        assert "no lake there" in answer.text


def test_pages_and_metrics_of_an_older_lake_say_what_it_has_not(tmp_path: Path) -> None:
    lake = unpacked(store_lake.stored(11), tmp_path)
    of_new = {
        "/cluster": ["stuck_transactions"],
        "/broker": ["storage", "growth"],
        "/topic": ["transactions"],
    }
    with pages(config_of(tmp_path, lake)) as client:
        for path, asked in of_new.items():
            answer = client.get(f"/api{address(path)}")
            assert answer.status_code == 200, answer.text
            says = f"{lake}: version 11 had no "
            found = {
                name
                for name, each in answer.json().items()
                if isinstance(each, dict) and str([*each.get("lines", ())]).startswith(f"['{says}")
            }
            assert found == {*asked}
            line = soup_of(client, address(path)).select_one(f"#{asked[0]} .line")
            assert line is not None
            assert line.get_text().startswith(says)
        metrics = client.get("/metrics")
    assert metrics.status_code == 200
    comments = [line for line in metrics.text.splitlines() if line.startswith("# Not known: ")]
    assert len(comments) == 2
    for table, comment in zip(("gold.transactions", "silver.log_dirs"), comments, strict=True):
        assert says in comment
        assert table in comment


def test_pages_and_metrics_of_a_lake_without_incidents_say_to_upgrade_it(tmp_path: Path) -> None:
    lake = unpacked(store_lake.stored(10), tmp_path)
    with pages(config_of(tmp_path, lake)) as client:
        for path in (f"/api{address('/cluster')}", "/metrics"):
            answer = client.get(path)
            assert answer.status_code == 503
            assert f"{lake}: version 10 had no gold." in answer.text
            assert "`kafka-metadata-history upgrade` makes the lake one of" in answer.text


def test_grafana_reads_incidents_as_annotations(client: TestClient) -> None:
    ms = [str(int(at(each).timestamp() * 1000)) for each in (0, 120)]
    found = client.get("/api/annotations", params={"from": ms[0], "to": ms[1]}).json()
    assert "Broker 3 has been missing" in {each["title"] for each in found}
    assert all(int(ms[0]) <= each["time"] <= int(ms[1]) or each["timeEnd"] for each in found)
    for wrong in ("", "?from=soon&to=1", "?from=1"):
        answer = client.get(f"/api/annotations{wrong}")
        assert (answer.status_code, "not ms since 1970" in answer.text) == (400, True)


def test_pages_need_no_pyspark(folder: Path) -> None:
    """It would take seconds."""
    script = (
        "import sys\n"
        "from starlette.testclient import TestClient\n"
        "from jobs.configuration.config import load\n"
        "from kafka_metadata_history.web.access import Access\n"
        "from kafka_metadata_history.web.app import Pages, Serving, application\n"
        "serving = Serving(load(sys.argv[1]), sys.argv[1], Access(), False)\n"
        "with TestClient(application(Pages(serving)), base_url='http://127.0.0.1') as client:\n"
        "    assert client.get('/').status_code == 200\n"
        "    assert client.get('/figures').status_code == 200\n"
        "print(*(each for each in sys.modules if each.partition('.')[0] in {'pyspark', 'py4j'}))\n"
    )
    command = [sys.executable, "-c", script, str(folder / "kafka-metadata-history.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr

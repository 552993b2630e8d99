"""One page with all of an incident, whatever a cluster named its things."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report import queries
from kafka_metadata_history.report.make import make_report
from schemas.lake import VIEWS
from tests.support.duckdb_lake import duckdb_lake
from tests.support.incident_log import log_rows
from tests.support.known_rows import known_rows
from tests.support.report_pages import data_of, marks_of, rows_of
from tests.support.reports import HOSTILE, NOW, WINDOW, Lake, asking, page_of, renamed, text_of


def test_the_page_loads_nothing(page: str) -> None:
    soup = BeautifulSoup(page, "html.parser")
    named = {
        "src",
        "href",
        "srcset",
        "action",
        "data",
        "poster",
        "background",
        "ping",
        "formaction",
        "xlink:href",
    }
    assert [element for element in soup.find_all(True) if named & element.attrs.keys()] == []
    assert {
        element.name
        for element in soup.find_all(["link", "iframe", "object", "embed", "base", "img"])
    } == set()
    (style,) = soup.find_all("style")
    assert re.findall(r"url\(|@import", style.get_text()) == []
    own = (Path(queries.__file__).parent / "page.js").read_text()
    assert (
        re.findall(
            r"\bfetch\b|\bimport\b|XMLHttpRequest|WebSocket|https?:|innerHTML|insertAdjacent|\beval\b",
            own,
        )
        == []
    )


def test_the_page_allows_its_own_script_and_no_connection(page: str) -> None:
    soup = BeautifulSoup(page, "html.parser")
    (policy,) = soup.find_all("meta", {"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in policy["content"].split(";"))
    assert rules["default-src"] == "'none'"
    assert "connect-src" not in rules
    scripts = [
        element.get_text() for element in soup.find_all("script") if "type" not in element.attrs
    ]
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]


def test_the_head_says_which_cluster_how_much_happened_and_what_is_known(page: str) -> None:
    text = text_of(page)
    assert "The lake has this cluster alone. Its timeline has " in text
    for count in (
        "2 broker incidents",
        "14 ISR episodes",
        "10 leader changes",
        "11 rebalances",
        "10 coordinator moves",
    ):
        assert count in text
    assert "history of prod: 2026-11-01 12:00:00Z to 2026-11-01 12:02:00Z" in text
    assert "Made 2026-11-02 00:00:00Z" in text


def test_the_largest_things_are_in_a_table(page: str) -> None:
    table = BeautifulSoup(page, "html.parser").select_one(".largest table")
    assert table is not None
    things = [row.find("td").get_text() for row in table.select("tbody tr")]
    assert len(things) == 10
    assert things[0] == "broker 2 was missing from the ISRs of 4 partitions; worst: offline"
    assert "topic clicks: 3 leader changes, 1 unclean" in things
    assert "group billing: 8 rebalances" in things


def test_it_is_narrowed(lake: Lake) -> None:
    page = page_of(lake, topic="orders", broker=2)
    assert {row[1] for row in rows_of(page, "leaders")} == {"orders-1"}
    assert set(marks_of(page, "brokers")["lane"]) == {"broker 2"}
    assert "--topic does not narrow this figure." in text_of(page)
    assert "Narrowed to topic orders, broker 2" in text_of(page)
    page = page_of(lake, group="billing")
    assert set(marks_of(page, "groups")["lane"]) == {"billing"}
    with pytest.raises(
        QueryError, match="--group biling: history knows no such group; did you mean billing"
    ):
        page_of(lake, group="biling")


def test_rows_that_the_page_lacks_are_asked_for_by_a_command(lake: Lake) -> None:
    (section, *_) = data_of(page_of(lake, broker=2))["sections"]
    assert section["query"] == (
        "kafka-metadata-history query broker_incidents --since 2026-11-01T12:00:05+00:00 --until "
        "2026-11-01T12:01:40+00:00 --cluster prod --broker 2 --limit 0"
    )


def test_no_name_of_a_cluster_can_run(page: str) -> None:
    with duckdb_lake(renamed(known_rows()), VIEWS) as lake:
        hostile = page_of(lake)
        group = page_of(lake, group=HOSTILE[0])
    for made_of in (hostile, group):
        soup = BeautifulSoup(made_of, "html.parser")
        own = BeautifulSoup(page, "html.parser")
        # The same elements as of tame names: none came from a name.
        assert [
            each.name for each in soup.find_all(True) if each.name not in ("tr", "td", "li", "p")
        ].count("script") == len(own.find_all("script"))
        assert soup.find_all("img") == []
        assert not any(key.startswith("on") for each in soup.find_all(True) for key in each.attrs)
    element = BeautifulSoup(hostile, "html.parser").find(id="data")
    assert element is not None
    assert not set("<>&") & set(element.get_text())
    # Control characters are shown by their escapes, in the page and in its data.
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\u2028\u202e]", hostile.replace("\t", " ").replace("\n", " ")
    )
    shown = json.dumps(data_of(hostile), ensure_ascii=False)
    assert r"bell\\x07 escape\\x1b[31m line\\nend\\u202eright\\u2028to left" in shown
    assert "harmed" in shown
    assert "<script>window.harmed = 1</script>" in text_of(hostile)


def test_a_hostile_name_in_a_command_is_one_word(lake: Lake) -> None:
    with duckdb_lake(renamed(known_rows()), VIEWS) as hostile:
        (section,) = (
            each
            for each in data_of(page_of(hostile, group=HOSTILE[2]))["sections"]
            if each["name"] == "groups"
        )
    assert f"--group '{HOSTILE[2]}' --limit 0" in section["query"]


def test_a_window_without_events_says_so(lake: Lake) -> None:
    page = page_of(lake, "2026-11-01T12:01:50Z", "2026-11-01T12:01:55Z", broker=1)
    assert "Nothing happened in this window, as far as polls saw." in text_of(page)
    assert "history of prod: 2026-11-01 12:00:00Z to 2026-11-01 12:02:00Z" in text_of(page)
    assert "<script" not in page
    page = page_of(lake, "2026-10-01", "2026-10-02", broker=1)
    assert "Nothing is known of this window: history lies outside it." in text_of(page)
    assert "before history" in text_of(page)


def test_a_page_of_a_part_of_the_figures(lake: Lake) -> None:
    both = (queries.LEADERS, queries.BROKERS)
    page = make_report(asking(lake), *WINDOW, {}, NOW, sections=both).html
    assert [each["name"] for each in data_of(page)["sections"]] == ["leaders", "brokers"]
    assert [each["id"] for each in BeautifulSoup(page, "html.parser").select("section.drawn")] == [
        "leaders",
        "brokers",
    ]
    # At that time brokers alone came and went.
    quiet = ("2026-11-01T12:00:16Z", "2026-11-01T12:00:19Z")
    assert (
        "broker controlled shutdown"
        in marks_of(make_report(asking(lake), *quiet, {}, NOW).html, "brokers")["what"]
    )
    page = make_report(asking(lake), *quiet, {}, NOW, sections=[queries.LEADERS]).html
    assert "Nothing of this kind happened in this window, as far as polls saw." in text_of(page)


def test_nothing_is_drawn_of_a_controllers_log_that_nobody_reads(page: str) -> None:
    with duckdb_lake(known_rows() | dict.fromkeys(log_rows(), ()), VIEWS) as lake:
        polled = page_of(lake)
    assert queries.SETTINGS.title in text_of(page)
    assert queries.SETTINGS.title not in text_of(polled)
    assert "elections and settings" not in text_of(polled)

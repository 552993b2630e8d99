"""The report of a known incident, asked in DuckDB: one page with all of it, whatever a cluster
named its things, and however much happened.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from bs4 import BeautifulSoup

from kafka_metadata_history.answers import questions
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report import queries, styles
from kafka_metadata_history.report.figures import LABEL, labels
from kafka_metadata_history.report.make import make_report, write_report
from kafka_metadata_history.report.marks import Window, drawn_section
from kafka_metadata_history.report.moments import between
from schemas import gold, groups, silver
from schemas.gold import LEADER_CHANGES, LEVELS
from schemas.groups import REASONS
from schemas.in_duckdb import NoQueryError, in_duckdb
from schemas.lake import VIEWS
from schemas.table import Table
from tests.support.duckdb_lake import duckdb_lake
from tests.support.incident import NOON
from tests.support.incident_groups import known_rows
from tests.support.incident_log import log_rows
from tests.support.report_pages import columns_of, data_of, marks_of, rows_of

NOW = datetime(2026, 11, 2, tzinfo=UTC)
WINDOW = ("2026-11-01T12:00:05Z", "2026-11-01T12:01:40Z")
MOST_BYTES = 5_000_000
HOSTILE = (
    "<script>window.harmed = 1</script>",
    "</script><script>window.harmed = 1</script>",
    '"><img src=x onerror="window.harmed = 1">',
    "<!--<script>",
    "bell\x07 escape\x1b[31m line\nend\u202eright\u2028to left",
    r"$$\href{javascript:harm()}{x}$$ \(x\) @{lane} $name",
)

Lake = duckdb.DuckDBPyConnection


def asking(lake: Lake) -> Callable[[str], pa.Table]:
    """As kafka_metadata_history.opened does it, of tables in the database itself."""

    def ask(sql: str) -> pa.Table:
        try:
            return lake.sql(in_duckdb(sql)).to_arrow_table()
        except (duckdb.Error, NoQueryError) as error:
            raise QueryError(" ".join(str(error).split())) from error

    return ask


def page_of(lake: Lake, since: str = WINDOW[0], until: str = WINDOW[1], **filters: object) -> str:
    return make_report(asking(lake), since, until, filters, NOW).html


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with duckdb_lake(known_rows(), VIEWS) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(lake: Lake) -> str:
    return page_of(lake)


def text_of(page: str) -> str:
    """The texts of a page without its figures."""
    soup = BeautifulSoup(page, "html.parser")
    for element in soup(["script", "style"]):
        element.decompose()
    return " ".join(soup.get_text(" ").split())


# --- one file ---


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


# --- what happened ---


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


def test_each_event_of_the_incident_is_in_the_page(lake: Lake, page: str) -> None:
    """Each row of the timeline that a figure is about has a row behind a mark; times by their upper
    bounds.
    """
    window = f"began_before BETWEEN '{WINDOW[0]}' AND '{WINDOW[1]}'"
    timeline = lake.execute(
        "SELECT what, topic || '-' || partition, group_id, broker_id, epoch_ms(began_before), "
        "coalesce(topic, group_id, 'broker ' || broker_id, 'cluster') FROM gold.incident_timeline "
        f"WHERE {window}"
    ).fetchall()
    found = {
        (section, subject, round(end))
        for section in ("brokers", "isrs", "leaders", "groups", "coordinators", "settings")
        for _, subject, _, began, _, ended, *_ in rows_of(page, section)
        for end in (began, ended)
        if end is not None
    }
    subjects = {
        "isr_left": ("brokers", 1),
        "isr_rejoined": ("brokers", 1),
        "broker_gone": ("brokers", 3),
        "broker_listed": ("brokers", 3),
        "broker_stale": ("brokers", 3),
        "broker_stale_no_more": ("brokers", 3),
        "broker_controlled_shutdown": ("brokers", 3),
        "broker_fenced": ("brokers", 3),
        "broker_unfenced": ("brokers", 3),
        "broker_registered": ("brokers", 3),
        "broker_unregistered": ("brokers", 3),
        "controller_elected": ("settings", 5),
        "feature_level_changed": ("settings", 5),
        "config_set": ("settings", 5),
        "config_changed": ("settings", 5),
        "config_removed": ("settings", 5),
        "leader_changed": ("leaders", 1),
        "rebalance_began": ("groups", 2),
        "rebalance_ended": ("groups", 2),
        "storm": ("groups", 2),
        "crash_loop": ("groups", 2),
        "coordinator_moved": ("coordinators", 2),
    }
    happened = {row[0] for row in timeline}
    assert happened - subjects.keys() == {"group_static_restart", "group_created"}
    lost = [
        row
        for row in timeline
        if row[0] in subjects
        and (
            subjects[row[0]][0],
            f"broker {row[3]}" if subjects[row[0]][1] == 3 else row[subjects[row[0]][1]],
            row[4],
        )
        not in found
    ]
    assert lost == []


def test_a_bar_is_sure_between_the_inner_bounds(page: str) -> None:
    marks = marks_of(page, "brokers")
    incidents = {
        lane: [round((at - NOON.timestamp() * 1000) / 1000, 1) for at in times]
        for lane, what, *times in zip(
            marks["lane"], marks["what"], marks["maybe_from"], marks["sure_from"],
            marks["sure_until"], marks["maybe_until"], strict=True,
        )
        if "broker" not in what
    }  # fmt: skip
    # Clipped to the window, which begins at 5 s.
    assert incidents == {"broker 2": [5, 10.1, 30, 40.1], "broker 3": [10, 20.1, 50, 60.1]}
    assert "between 12:00:00.000 and 12:00:10.100" in marks["began"]
    assert set(marks["inferred"]) == {
        "broker_down",
        "broker_down; lagging; broker_down, lagging",
        "-",
    } or set(marks["inferred"]) >= {"-"}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((10, 20.1, 40, 50.1), (10, 20.1, 40, 50.1)),
        ((10, 20.1, None, None), (10, 20.1, 90, 100)),  # sure as far as polls go
        ((None, 20.1, 40, 50.1), (0, 20.1, 40, 50.1)),  # nobody looked before
        (
            (10, 20.1, 20, 30.1),
            (10, 20.1, 20.1, 30.1),
        ),  # one poll alone, sent before it was answered
        ((-50, -40, 10, 20), (0, 0, 10, 20)),
        ((80, 90, 140, 150), (80, 90, 100, 100)),
        ((80, 90, 95, 150), (80, 90, 95, 100)),  # may have ended within the window
    ],
)
def test_bounds_within_the_window(
    bounds: tuple[float | None, ...], expected: tuple[float, ...]
) -> None:
    ends = [None if second is None else NOON + timedelta(seconds=second) for second in bounds]
    times = dict(
        zip(("began_after", "began_before", "ended_after", "ended_before"), ends, strict=True)
    )
    row = {
        **dict.fromkeys(("id", "subject", "details", "inferred"), "a"), **times, "lane": "a",
        "kind": "offline", "lane_number": 1, "mark": 1, "mark_rows": 1, "mark_size": 1,
        "mark_last_before": times["began_before"], "rows_all": 1, "counted_all": 1, "lanes_all": 1,
        **{f"mark_{name}": at for name, at in times.items()},
    }  # fmt: skip
    noon = NOON.timestamp() * 1000
    (mark,) = drawn_section(
        queries.PARTITIONS, [row], (), Window(noon, noon + 100_000, noon + 90_000)
    ).marks
    found = (mark.maybe_from, mark.sure_from, mark.sure_until, mark.maybe_until)
    assert [round((at - noon) / 1000, 1) for at in found] == [*expected]


def test_what_lasts_is_sure_to_the_end_of_what_is_known(lake: Lake) -> None:
    page = page_of(lake, "2026-11-01T12:00:00Z", "2026-11-01T12:10:00Z")
    marks = marks_of(page, "groups")
    place = marks["lane"].index("shop")
    assert marks["ended"][place] == "not by the end of what is known"
    assert round(marks["sure_until"][place] / 1000 - NOON.timestamp(), 1) == 120.1
    assert round(marks["maybe_until"][place] / 1000 - NOON.timestamp()) == 600


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


@pytest.mark.parametrize(
    ("subscribed", "before", "after", "is_about_it"),
    [
        # Its subscription could not be read: what members had, or have, tells.
        (None, None, [("orders", [0])], True),
        (None, [("orders", [0])], [], True),
        (None, [("orders", [])], [("clicks", [1])], True),
        (None, None, None, False),
        # Nobody has a partition of what they subscribe to.
        (["orders"], None, None, True),
        (["orders"], [], [("clicks", [1])], True),
        (["clicks"], [("orders", [0])], [], True),
        (["clicks"], [("clicks", [0])], [("clicks", [0, 1])], False),
        (None, [(None, [0])], None, False),
    ],
)
def test_rebalances_of_a_topic_are_the_same_in_the_report_and_in_the_query(
    subscribed: list[str] | None,
    before: list[tuple[str | None, list[int]]] | None,
    after: list[tuple[str | None, list[int]]] | None,
    is_about_it: bool,
) -> None:
    def had(parts: list[tuple[str | None, list[int]]] | None) -> list[dict[str, Any]] | None:
        topics = [
            {"topic": topic, "topic_id": None, "partitions": numbers}
            for topic, numbers in parts or ()
        ]
        return None if parts is None else topics

    known = known_rows()
    (rebalance,) = (row for row in known[groups.REBALANCES] if row["id"] == "search-5")
    member = next(
        row for row in known[groups.REBALANCE_MEMBERS] if row["rebalance_id"] == "search-5"
    )
    told = {
        groups.REBALANCES: [rebalance | {"subscribed": subscribed}],
        groups.REBALANCE_MEMBERS: [member | {"before": had(before), "after": had(after)}],
        groups.REBALANCE_STORMS: [],
    }
    parameters = {
        "since": WINDOW[0],
        "until": WINDOW[1],
        "cluster": "prod",
        "topic": "orders",
        "broker": None,
    }
    expected = ["search"] if is_about_it else []
    with duckdb_lake(known | told, VIEWS) as made_of:
        asked = [
            asking(made_of)(
                with_values(queries.limited(sql), parameters | {"group": None})
            ).to_pylist()
            for sql in (
                questions.text_of("rebalances"),
                queries.query_of(queries.GROUPS),
                queries.LARGEST_OF_GROUPS,
            )
        ]
    rebalances, drawn, largest = asked
    assert [row["group_id"] for row in rebalances] == [row["lane"] for row in drawn] == expected
    assert [row["thing"] for row in largest] == [
        f"group {group}: 1 rebalance" for group in expected
    ]


def test_rows_that_the_page_lacks_are_asked_for_by_a_command(lake: Lake) -> None:
    (section, *_) = data_of(page_of(lake, broker=2))["sections"]
    assert section["query"] == (
        "kafka-metadata-history query broker_incidents --since 2026-11-01T12:00:05+00:00 --until "
        "2026-11-01T12:01:40+00:00 --cluster prod --broker 2 --limit 0"
    )


# --- hostile names ---


def renamed(rows: Mapping[Table, list[dict[str, Any]]]) -> dict[Table, list[dict[str, Any]]]:
    """The known rows, with hostile names for topics, groups and clients."""
    topics = dict(zip(("orders", "logs", "clicks"), HOSTILE, strict=False))
    named = dict(
        zip(("billing", "audit", "search", "shop", "reports", "fresh"), HOSTILE, strict=True)
    )
    client = {"client_id": HOSTILE[0], "client_host": HOSTILE[2]}

    def row_of(row: dict[str, Any]) -> dict[str, Any]:
        more = {key: value for key, value in client.items() if row.get(key) is not None}
        if "topic" in row:
            more["topic"] = topics.get(row["topic"], row["topic"])
        if "group_id" in row:
            more["group_id"] = named[row["group_id"]]
        return row | more

    return {table: [row_of(row) for row in own] for table, own in rows.items()}


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


def test_labels_of_lanes_are_short_and_each_is_there_once() -> None:
    names = ["a" * 40, "a" * 39 + "b", "a" * 20 + "c" * 7 + "a" * 13, "", " ", "short"]
    found = labels(names)
    assert len(set(found)) == len(names)
    assert max(map(len, found)) <= LABEL
    assert found[-1] == "short"
    assert all(each.strip() for each in found)


# --- little, and much ---


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


def test_a_lake_without_history_says_so() -> None:
    with duckdb_lake(dict.fromkeys(known_rows(), ()), VIEWS) as empty:
        text = text_of(page_of(empty))
    assert "Nothing is known: the lake has no history of any cluster yet." in text
    assert "history is empty" in text


def test_a_section_whose_tables_are_not_there_says_so() -> None:
    with duckdb_lake(known_rows(), VIEWS) as lake:
        lake.execute("DROP VIEW gold.rebalances CASCADE")
        text = text_of(page_of(lake, cluster="prod"))
    assert "Nothing is known of this: Catalog Error" in text
    assert "14 ISR episodes" in text


def test_a_window_that_cannot_be_meant(lake: Lake) -> None:
    with pytest.raises(QueryError, match="the window is empty"):
        page_of(lake, WINDOW[0], WINDOW[0])
    with pytest.raises(QueryError, match="is after --until"):
        page_of(lake, WINDOW[1], WINDOW[0])


def test_the_cluster_to_which_most_happened_is_chosen_and_the_others_are_named() -> None:
    known = known_rows()
    other = {
        table: [
            row | {"cluster": "other", "cluster_id": "id-other"} for row in rows if "cluster" in row
        ]
        for table, rows in known.items()
        if table in (silver.CLUSTER_SNAPSHOTS, silver.BROKER_SNAPSHOTS, gold.BROKER_INCIDENTS)
        or table.schema == "internal"
    }
    rows = {table: [*own, *other.get(table, ())] for table, own in known.items()}
    with duckdb_lake(rows, VIEWS) as lake:
        text = text_of(page_of(lake))
        assert "Kafka metadata history of prod" in text
        assert "Events of the others: other (" in text
        assert "No cluster was asked for" not in text_of(page_of(lake, cluster="other"))


def test_gaps_are_hatched_in_every_figure(lake: Lake) -> None:
    page = page_of(lake, "2026-11-01T11:59:50Z", "2026-11-01T12:02:10Z")
    columns = columns_of(page, "gaps")
    assert [
        round(at / 1000 - NOON.timestamp(), 1) for at in (*columns["begin"], *columns["end"])
    ] == [
        *(-10, 120.1),
        *(0.1, 130),
    ]


def test_nothing_is_drawn_of_a_controllers_log_that_nobody_reads(page: str) -> None:
    with duckdb_lake(known_rows() | dict.fromkeys(log_rows(), ()), VIEWS) as lake:
        polled = page_of(lake)
    assert queries.SETTINGS.title in text_of(page)
    assert queries.SETTINGS.title not in text_of(polled)
    assert "elections and settings" not in text_of(polled)


def test_a_gap_of_polls_in_which_the_controllers_log_told_is_no_gap_of_history() -> None:
    known = known_rows()
    gap = {"cluster_id": "id-prod", "cluster": "prod", "reason": "not_polled", "error_kinds": []}
    source = known[silver.HISTORY_SOURCES][0]
    times = {
        name: NOON + timedelta(seconds=seconds)
        for name, seconds in (("valid_from", 10), ("valid_to", 50))
    }
    by_log = source | times | {"source": "log", "last_seen_at": NOON + timedelta(seconds=40)}
    # The log was read up to 40 s, and polls told from 50 s on.
    gaps = [gap | {f"gap_{end}": NOON + timedelta(seconds=s) for end, s in ends} for ends in (
        (("start", 20), ("end", 30)), (("start", 32), ("end", 45)),
    )]  # fmt: skip
    rows = known | {silver.POLL_GAPS: gaps, silver.HISTORY_SOURCES: [by_log]}
    with duckdb_lake(rows, VIEWS) as lake:
        page = page_of(lake)
    columns = columns_of(page, "gaps")
    assert [round(at / 1000 - NOON.timestamp()) for at in columns["begin"]] == [32]
    told = "(not_polled; the controllers' log told meanwhile)"
    assert f"gap of prod: 2026-11-01 12:00:20Z to 2026-11-01 12:00:30Z {told}" in text_of(page)
    assert "gap of prod: 2026-11-01 12:00:32Z to 2026-11-01 12:00:45Z (not_polled)" in text_of(page)


def multiply(lake: Lake, table: Table, times: int, **columns: str) -> None:
    """Add so many rows like the first one; `columns`: expressions over `n`."""
    names = [each.name for each in table.columns if each.generated_as is None]
    values = ", ".join(
        f'{columns.get(name, chr(34) + name + chr(34))} AS "{name}"' for name in names
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    lake.execute(
        f"INSERT INTO {table.full_name} ({quoted}) SELECT {values} "
        f"FROM (SELECT * FROM {table.full_name} LIMIT 1), range({times}) AS numbers(n)"
    )


def large_lake() -> Lake:
    """A day in which a hundred thousand things happened to prod, and more to its rows."""
    lake = duckdb_lake(known_rows(), VIEWS)
    # A fixed disorder, in seconds of the day before noon.
    second = "TIMESTAMPTZ '2026-11-01 12:00:00+00' + to_milliseconds((n * 7919 * 1013) % 86400000)"
    later = f"{second} + to_seconds(5 + n % 600)"
    bounds = {"began_after": f"{second} - to_seconds(10)", "began_before": second}
    ends = {"ended_after": f"{later} - to_seconds(5)", "ended_before": later}
    topic = {"topic": "'a.topic.with.a.rather.long.name.' || (n % 300)", "partition": "n % 50"}
    multiply(lake, gold.LEADER_CHANGES, 40_000, id="'m' || n", **topic, **bounds)
    multiply(
        lake, gold.ISR_CHANGES, 20_000, id="'m' || n", broker_id="n % 60", **topic, **bounds, **ends
    )
    multiply(lake, gold.ISR_EPISODES, 20_000, id="'m' || n", **topic, **bounds, **ends)
    multiply(
        lake, gold.BROKER_INCIDENTS, 3_000, id="'m' || n", broker_id="n % 60", **bounds, **ends
    )
    multiply(
        lake, groups.REBALANCES, 25_000, id="'m' || n",
        group_id="'a-group-of-some-service-' || (n % 400)", **bounds, **ends,
    )  # fmt: skip
    return lake


DAY = ("2026-11-01T12:00:00Z", "2026-11-02T12:00:00Z")


@pytest.fixture(scope="module")
def large() -> Iterator[Lake]:
    with large_lake() as lake:
        # The year's state is that of the known incident: history ends at noon.
        yield lake


def test_a_hundred_thousand_events_are_a_small_page_that_says_what_it_leaves_out(
    large: Lake, tmp_path: Path
) -> None:
    ((events,),) = large.execute("SELECT count(*) FROM gold.incident_timeline").fetchall()
    assert events > 100_000
    report = make_report(asking(large), *DAY, {}, NOW)
    line = write_report(report, str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size < MOST_BYTES
    size = f"{len(report.html.encode()) / 1e6:.1f} MB"
    assert line == f"{tmp_path}/report.html: {size}, drawn from {report.rows:,} rows of history"
    assert report.rows > 80_000
    text = text_of(report.html)
    assert re.search(
        r"Left out: \d+ of 40\d groups have no lane: [\d,]+ of [\d,]+ rows are not drawn\.", text
    )
    assert "Narrow with --topic, --broker, --group or a shorter window." in text
    for section in data_of(report.html)["sections"]:
        marks = marks_of(report.html, section["name"])
        assert len(section["marks"]) == len(marks["y"]) <= queries.MOST_MARKS
        assert len(set(marks["lane"])) <= queries.MOST_LANES
        # Each mark has a row at least, and is the sum of no fewer than it shows.
        own = [[row for row in rows if row[8] == section["table"]] for _, rows in section["marks"]]
        assert all(
            1 <= len(rows) <= count for rows, (count, _) in zip(own, section["marks"], strict=True)
        )
        assert sum(count for count, _ in section["marks"]) >= sum(map(len, own))


def test_a_file_that_cannot_be_written_is_one_line(lake: Lake, tmp_path: Path) -> None:
    report = make_report(asking(lake), *WINDOW, {}, NOW)
    with pytest.raises(QueryError, match=r"--out .*/no/report.html: No such file or directory"):
        write_report(report, str(tmp_path / "no" / "report.html"))


# --- small things ---


def test_every_kind_has_a_look() -> None:
    known = LEADER_CHANGES.constraints["reason_known"]
    reasons = styles.REASONS.keys() - {"unclean"}
    assert tuple(styles.LEVELS) == LEVELS
    assert all(f"'{reason}'" in known for reason in reasons)
    # An epoch that rose under one leader is no change of it, and is not drawn.
    assert set(re.findall(r"'(\w+)'", known)) - reasons == {"isr_shrink"}
    assert tuple(styles.REBALANCES) == (*REASONS, "unknown", "storm", "crash_loop")


def rgb(colour: str) -> list[float]:
    return [part / 255 for part in bytes.fromhex(colour.removeprefix("#"))]


def apart(one: str, other: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(rgb(one), rgb(other), strict=True))


def test_one_colour_has_one_meaning() -> None:
    """Black alone is shared, without a leader, as a level and as a reason; and white, unknown."""
    reasons = {kind: own for kind, own in styles.REASONS.items() if kind != "unclean"}
    storms = {kind: styles.REBALANCES[kind] for kind in ("storm", "crash_loop")}
    rebalances = {kind: own for kind, own in styles.REBALANCES.items() if kind not in storms}
    groups = [
        {own.colour for own in group.values()}
        for group in (styles.LEVELS, reasons, rebalances, storms)
    ]
    assert [len(group) for group in groups] == [4, 6, 11, 2]
    own = [group - {styles.BLACK, styles.WHITE} for group in groups]
    for one, other in combinations(own, 2):
        assert min(apart(x, y) for x in one for y in other) > 0.015
    for group in own[2:]:
        assert min(apart(x, y) for x, y in combinations(group, 2)) > 0.03


def test_levels_darken() -> None:
    """So that they can be told apart without seeing their hue."""
    lightness = [
        sum(w * v for w, v in zip((0.3, 0.59, 0.11), rgb(own.colour), strict=True))
        for own in styles.LEVELS.values()
    ]
    assert all(milder - worse > 0.12 for milder, worse in pairwise(lightness))


def test_no_two_kinds_of_a_figure_differ_by_colour_alone() -> None:
    for kinds in styles.STYLES.values():
        shapes = [
            (own.marker, own.hatch, own.height, own.colour == styles.WHITE)
            for own in kinds.values()
        ]
        if kinds is not styles.OF_BROKERS:
            assert len(set(shapes)) == len(shapes)


@pytest.mark.parametrize(
    ("after", "before", "day", "says"),
    [
        (0.0, 1500.0, "", "between 1970-01-01 00:00:00.000 and 00:00:01.500"),
        (0.0, 1500.0, "1970-01-01", "between 00:00:00.000 and 00:00:01.500"),
        (0.0, 86_400_000.0, "", "between 1970-01-01 00:00:00.000 and 1970-01-02 00:00:00.000"),
        (0.0, 86_400_000.0, "1970-01-02", "between 1970-01-01 00:00:00.000 and 00:00:00.000"),
        (None, 0.0, "1970-01-01", "by 00:00:00.000"),
        (0.0, None, "1970-01-01", "after 00:00:00.000"),
        (5.0, 5.0, "1970-01-01", "at 00:00:00.005"),
        (None, None, "", ""),
    ],
)
def test_bounds_as_text(after: float | None, before: float | None, day: str, says: str) -> None:
    assert between(after, before, day) == says

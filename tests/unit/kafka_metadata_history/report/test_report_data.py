"""The data of a report: which cluster, which window, which gaps."""

from datetime import timedelta

import pytest
from bs4 import BeautifulSoup

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report.queries import MOST_GAPS
from kafka_metadata_history.report.report_data import read_report_data
from schemas import gold, incidents, internal, silver
from schemas.lake import VIEWS
from tests.support.duckdb_lake import duckdb_lake
from tests.support.incident import NOON
from tests.support.incident_rows import bounds, incident, incident_rows
from tests.support.known_rows import known_rows
from tests.support.report_pages import columns_of
from tests.support.reports import NOW, WINDOW, Lake, asking, page_of, text_of


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


@pytest.mark.parametrize("schema", ["silver", "gold"])
def test_history_begins_where_silver_and_gold_are_whole(schema: str) -> None:
    known = known_rows()
    dropped = {"history": f"retention of {schema}", "cluster": "", "round": 1, "memory": "{}"}
    dropped |= {"done_at": NOON + timedelta(seconds=20)}
    rows = known | {internal.STATE: [*known[internal.STATE], dropped]}
    with duckdb_lake(rows, VIEWS) as lake:
        page = page_of(lake, "2026-11-01T11:59:50Z", "2026-11-01T12:02:10Z")
    columns = columns_of(page, "gaps")
    assert (columns["begin"][0] / 1000, columns["end"][0] / 1000) == (
        NOON.timestamp() - 10,
        NOON.timestamp() + 20,
    )


def test_the_largest_thing_of_each_kind_comes_before_the_second_of_any(lake: Lake) -> None:
    """Of brokers and topics one query tells, of groups another one."""
    largest = read_report_data(asking(lake), *WINDOW, {}, NOW).largest
    ranks = [int(row["rank"]) for row in largest]
    assert ranks == sorted(ranks)
    assert [row["thing"].partition(" ")[0] for row in largest if row["rank"] == 1] == [
        "broker",
        "topic",
        "topic",
        "group",
    ]


def test_of_very_many_gaps_the_shorter_ones_are_counted() -> None:
    gap = {"cluster_id": "id-prod", "cluster": "prod", "reason": "not_polled", "error_kinds": []}
    gaps = [
        gap | {"gap_start": begin, "gap_end": begin + timedelta(milliseconds=1 + number % 7)}
        for number in range(MOST_GAPS + 5)
        for begin in [NOON + timedelta(seconds=10, milliseconds=10 * number)]
    ]
    with duckdb_lake(known_rows() | {silver.POLL_GAPS: gaps}, VIEWS) as made_of:
        page = page_of(made_of)
    assert "5 more gaps, the shorter ones, are not hatched below" in text_of(page)


def test_the_first_paragraph_has_the_incidents_of_the_window() -> None:
    """The worst first, three at most; made by hand beside what is known."""
    name = "<b>\x1b"
    made = incident_rows()
    made[incidents.INCIDENTS] += [
        incident(f"{number}", "stale_broker", bounds((9, 10), (12, 12)), brokers=[2], topics=[name])
        for number in range(3)
    ]
    with duckdb_lake(known_rows() | made, VIEWS) as lake:
        page, broker, group, before = (
            page_of(lake),
            page_of(lake, broker=2),
            page_of(lake, cluster="prod", group="shop"),
            page_of(lake, "2026-11-01T11:58:00Z", "2026-11-01T11:59:00Z"),
        )
    first = BeautifulSoup(page, "html.parser").find("header").find("p")
    assert first["class"] == ["incidents"]
    text = first.get_text()
    assert text.startswith("Broker 3 has been missing since 2026-11-01 12:00:10Z (page; cause: ")
    assert text.count("Broker 2 was answering from old metadata from ") == 2
    assert text.endswith("And 1 more incident: query incidents lists them.")
    assert "Broker 3 has been missing" not in text_of(broker)
    assert "Broker 2 was answering" not in text_of(group)
    assert "Broker 3 has been missing" in text_of(group)
    assert "1 partition of clicks was under min ISR from " in text_of(before)


def test_names_in_the_first_paragraph_are_no_markup() -> None:
    made = incident_rows()
    times = bounds((9, 10))
    made[incidents.INCIDENTS] = [incident("a", "group_stuck", times, group_ids=["<b>\x1b"])]
    with duckdb_lake(known_rows() | made, VIEWS) as lake:
        assert "Group &lt;b&gt;\\x1b has been stuck in a rebalance since " in page_of(lake)


def test_a_window_without_incidents_says_so(lake: Lake) -> None:
    assert "Incidents are not made yet." in text_of(page_of(lake))
    state = {"history": "incidents", "cluster": "prod", "round": 1, "memory": "{}"}
    rows = known_rows()
    rows[internal.STATE] = [*rows[internal.STATE], state]
    with duckdb_lake(rows, VIEWS) as of:
        assert "No incident in this window." in text_of(page_of(of))
        of.execute("DROP TABLE gold.incidents")
        assert "Incidents are not known: Catalog Error" in text_of(page_of(of))

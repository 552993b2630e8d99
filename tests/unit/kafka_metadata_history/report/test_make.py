"""A report of however much is one small file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report import queries
from kafka_metadata_history.report.make import make_report, write_report
from tests.support.report_pages import data_of, marks_of
from tests.support.reports import DAY, NOW, WINDOW, Lake, asking, large_lake, text_of

MOST_BYTES = 5_000_000


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

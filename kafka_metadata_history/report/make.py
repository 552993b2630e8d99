"""Make a report of a lake, and write it to a file."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report.queries import SECTIONS
from kafka_metadata_history.report.report_data import read_report_data
from kafka_metadata_history.report.week import of_cluster
from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from kafka_metadata_history.answers.questions import Ask
    from kafka_metadata_history.report.listings import Listing
    from kafka_metadata_history.report.queries import Section


class NoHomeError(KafkaMetadataHistoryError, RuntimeError):
    """Raised if Bokeh cannot be imported, as this user has no home folder. One line."""


try:
    from kafka_metadata_history.report.page import page
except RuntimeError as error:  # of Bokeh, which looks for settings of the user
    raise NoHomeError(
        "this user has no home folder, in which Bokeh looks for settings: set HOME"
    ) from error


@dataclass(frozen=True)
class Report:
    """A page, and how many rows of gold it sums up."""

    html: str
    rows: int

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for notebooks: its script and its looks touch
        nothing else there, and its policy lets it load nothing. All that it draws with is in it.
        """
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 1000px; border: '
            '0"></iframe>'
        )


def make_report(
    ask: Ask,
    since: str,
    until: str | None,
    filters: Mapping[str, object],
    now: datetime,
    *,
    sections: Sequence[Section] = SECTIONS,
    listings: Sequence[Listing] = (),
    week: pa.Table | None = None,
) -> Report:
    """Make a report. Times, filters and errors are those of `question` in answers/questions.py.
    `listings`: the tables below the figures. `week`: as `read_week` answers; the page has the rows
    of its cluster.
    """
    found = read_report_data(ask, since, until, filters, now, sections=sections, listings=listings)
    return Report(page(found, "" if week is None else of_cluster(week, found.cluster)), found.rows)


def write_report(report: Report, file: str) -> str:
    """Write a report to a file and return the line that says so. Raises QueryError if it fails."""
    try:
        size = Path(file).write_bytes(report.html.encode())
    except OSError as error:
        raise QueryError(f"--out {file}: {error.strerror}") from error
    return f"{file}: {size / 1e6:.1f} MB, drawn from {counted(report.rows, 'row')} of history"

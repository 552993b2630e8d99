"""Answers as text: a table for people, CSV and JSON for programs. Rows are Arrow's."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from textwrap import fill

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_metadata_history.answers.questions import QueryError
from metadata_source.text import LONGEST, escaped, printable

COLUMNS = 8
"""A table for people has so many columns at most, unless it is wide."""
WIDTH = 120
"""Of a table where no terminal says how wide it is."""
LISTED = 4
"""Of a list a table for people shows so many."""

Row = Mapping[str, object]


def few(items: Sequence[object], most: int = 3) -> str:
    """The first items of a list, and how many there are if these are not all."""
    more = f", ... ({len(items):,})" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


# --- for programs ---


def as_json(rows: pa.Table) -> str:
    """A JSON object a line, times in UTC to the millisecond, escaped for terminals."""
    return "".join(f"{_json(row)}\n" for row in plain_rows(rows))


def _json(value: object) -> str:
    return escaped(json.dumps(value, ensure_ascii=False))


def as_csv(rows: pa.Table) -> str:
    """The rows as CSV with a header, printable. A text that a spreadsheet would take for a formula
    begins with an apostrophe.
    """
    text = io.StringIO()
    lines = ([_cell(value) for value in row.values()] for row in plain_rows(rows))
    csv.writer(text, lineterminator="\n").writerows(
        [_no_formula(cell) for cell in each] for each in (rows.column_names, *lines)
    )
    return text.getvalue()


def plain_rows(rows: pa.Table) -> Iterator[dict[str, object]]:
    """Each row, with values as JSON has them."""
    for row in rows_of(rows):
        yield {name: _plain(value) for name, value in row.items()}


def _plain(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, datetime):
        return f"{_utc(value):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _utc(at: datetime) -> datetime:
    """A time in UTC. One without a zone is in that of the session, which is UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _cell(value: object) -> object:
    return _json(value) if isinstance(value, list | Mapping) else value


_FORMULA = re.compile(r"[=@]|[+-](?![\d.]+\Z)")


def _no_formula(cell: object) -> object:
    if isinstance(cell, bool):
        return str(cell).lower()
    if not isinstance(cell, str):
        return cell
    return f"'{printable(cell)}" if _FORMULA.match(cell) else printable(cell)


# --- for people ---


@dataclass(frozen=True)
class Shown:
    """A column of a table for people: its heading, and the cell of each row. `names`: the columns
    of the answer that it shows.
    """

    heading: str
    cell: Callable[[Row], str]
    is_number: bool = False
    names: tuple[str, ...] = ()


_Bounds = tuple[str, str, Callable[[str, str, str], Shown]]
"""Endings of two columns, and what makes one of them: of the rest of their names, and both
names.
"""


def as_table(rows: pa.Table, *, wide: bool = False, width: int | None = None) -> str:
    """The rows as a table of at most eight columns: what belongs together shares a cell, durations
    are seconds, and columns without a value are left out. `wide`: each column by itself. `width`:
    of the terminal, in characters.
    """
    columns = (
        [_alone(name, rows.schema.field(name).type) for name in rows.column_names]
        if wide
        else together(rows)
    )
    all_rows = list(rows_of(rows))
    cells = [[column.cell(row) for row in all_rows] for column in columns]
    has_value = [wide or not len(rows) or any(each) for each in cells]
    kept = [
        (column, each) for column, each, has in zip(columns, cells, has_value, strict=True) if has
    ]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    shown = kept if wide else kept[:COLUMNS]
    for column, _ in shown:
        table.add_column(
            Text(printable(column.heading)),
            justify="right" if column.is_number else "left",
            overflow="fold",
        )
    for line in zip(*(each for _, each in shown), strict=True):
        table.add_row(*(Text(_cut(printable(cell))) for cell in line))
    console = Console(
        file=io.StringIO(),
        width=10_000 if wide else width or WIDTH,
        color_system=None,
        legacy_windows=False,
    )
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)  # noqa: S101 - for mypy
    text = "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
    empty = [column.heading for column, has in zip(columns, has_value, strict=True) if not has]
    left = [column.heading for column, _ in kept[len(shown) :]]
    notes = [f"(without a value: {', '.join(empty)})"] if empty else []
    notes += [f"(not shown: {', '.join(left)}; --wide shows all columns)"] if left else []
    return text + "".join(f"{fill(printable(note), width or WIDTH)}\n" for note in notes)


def _cut(cell: str) -> str:
    """A group's id may have 20,000 characters and more."""
    return cell if len(cell) <= LONGEST else f"{cell[:LONGEST]}... ({len(cell):,} characters)"


def rows_of(rows: pa.Table) -> Iterator[Row]:
    """Each row, as Python has it. Raises QueryError for a value that Python has not."""
    try:
        for batch in rows.to_batches():
            yield from batch.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError, KeyError) as error:
        # Python's times end with the year 9999; a map may have a key twice.
        raise QueryError(f"a value of the answer cannot be shown: {error}") from error


def together(rows: pa.Table) -> list[Shown]:
    """The columns, those that are parts or bounds of one thing as one."""
    found: list[Shown] = []
    taken: set[str] = set()
    bounds: list[_Bounds] = [*_PAIRS, ("_after", "_before", partial(_times, rows))]
    for name in rows.column_names:
        if name in taken:
            continue
        for low, high, of in bounds:
            other = name.removesuffix(low) + high
            if (
                name.endswith(low)
                and other in rows.column_names
                and other not in taken
                and _fit(rows, name, low)
            ):
                taken |= {name, other}
                made = of(name.removesuffix(low), name, other)
                found.append(replace(made, names=(name, other)))
                break
        else:
            taken.add(name)
            made = _alone(name, rows.schema.field(name).type, in_seconds=True)
            found.append(replace(made, names=(name,)))
    return found


def _fit(rows: pa.Table, name: str, low: str) -> bool:
    """Whether a column's type is that of its ending: of times, after and before are bounds, of all
    else states.
    """
    is_time = bool(pa.types.is_timestamp(rows.schema.field(name).type))
    return {"_after": is_time, "before": not is_time}.get(low, True)


def _alone(name: str, type_: pa.DataType, *, in_seconds: bool = False) -> Shown:
    is_number = (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )
    if in_seconds and name.endswith("_ms"):
        return Shown(
            f"{_spaced(name.removesuffix('_ms'))} s",
            lambda row: _number(_thousandth(row[name])),
            True,
        )
    return Shown(_spaced(name) if in_seconds else name, lambda row: _text(row[name]), is_number)


def _times(rows: pa.Table, stem: str, after: str, before: str) -> Shown:
    """Between two times: the later one whole, of the earlier one what differs. One that is exact
    has milliseconds. If all are of one day, the heading has the day.
    """
    ends = (*rows[after].to_pylist(), *rows[before].to_pylist())
    days = {_text(at)[:10] for at in ends if isinstance(at, datetime)}
    begin_of_text = len("2026-11-01 ") if len(days) == 1 else 0

    def cell(row: Row) -> str:
        begin, end = (_text(row[name])[begin_of_text:] for name in (after, before))
        if not end:
            return f"after {begin}" if begin else ""
        if not begin:
            return f"by {end}"
        if isinstance(at := row[before], datetime) and row[after] == at:
            return f"{end}.{at.microsecond // 1000:03}"
        return end if begin == end else f"{begin} to {end[11:] if begin[:11] == end[:11] else end}"

    return Shown(" ".join((_spaced(stem), *(days if begin_of_text else ()))), cell)


def _numbers(
    stem: str, least: str, most: str, scale: Callable[[object], object] = lambda value: value
) -> Shown:
    """Between two numbers."""

    def cell(row: Row) -> str:
        low, high = _number(scale(row[least])), _number(scale(row[most]))
        if low == high:
            return low
        return f"{low} to {high}" if low and high else f"≥ {low}" if low else f"≤ {high}"

    return Shown(_spaced(stem), cell, True)


def _milliseconds(stem: str, least: str, most: str) -> Shown:
    return _numbers(f"{stem} s", least, most, _thousandth)


def _seconds(stem: str, least: str, most: str) -> Shown:
    return _numbers(f"{stem}seconds", least, most)


def _partitions(_: str, topic: str, partition: str) -> Shown:
    """A partition as Kafka's logs name it, or a topic."""
    names = (topic, partition)
    return Shown(
        "topic-partition",
        lambda row: "-".join(_text(row[name]) for name in names if row[name] is not None),
    )


def _states(stem: str, before: str, after: str) -> Shown:
    """The state before and after; an end without a state stays empty."""

    def cell(row: Row) -> str:
        ends = _text(row[before]), _text(row[after])
        return " → ".join(ends).strip() if any(ends) else ""

    return Shown(f"{_spaced(stem)}before → after", cell)


def _fenced(stem: str, brokers: str, fenced: str) -> Shown:
    """Brokers that are listed, and those that are fenced beside them."""

    def cell(row: Row) -> str:
        more = f" + {row[fenced]} fenced" if row[fenced] else ""
        return f"{_number(row[brokers])}{more}"

    return Shown(f"{_spaced(stem)}brokers", cell)


_PAIRS: Sequence[_Bounds] = (
    ("brokers", "fenced", _fenced),
    ("topic", "partition", _partitions),
    ("before", "after", _states),
    ("_ms_min", "_ms_max", _milliseconds),
    ("seconds_min", "seconds_max", _seconds),
    ("_min", "_max", _numbers),
)
"""Endings of two columns that are parts or bounds of one thing -> that thing as a column."""


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _thousandth(value: object) -> object:
    return value / 1000 if isinstance(value, int | float | Decimal) else None


def _number(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float | Decimal):
        return str(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3f}" if -1 < value < 1 else f"{value:,.1f}"


def _text(value: object) -> str:
    """A value for people. Times in UTC, to the second."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{_utc(value):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | Decimal):
        return _number(value)
    if isinstance(value, list):
        return few([_text(each) for each in value], LISTED)
    if isinstance(value, Mapping):
        return _json(_plain(value))
    return str(value)


FORMS = ("table", "csv", "json")


def written(rows: pa.Table, form: str, *, wide: bool = False, width: int | None = None) -> str:
    """The rows in one of FORMS."""
    if form == "json":
        return as_json(rows)
    return as_csv(rows) if form == "csv" else as_table(rows, wide=wide, width=width)

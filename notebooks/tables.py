"""Rows as people read them: both ends of what is bounded in one cell, times in UTC."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from metadata_source.text import printable
from schemas.gold import LEVELS

MOST_ROWS = 30

# Rows are left out by `readable`, which says so, and no rows or columns by pandas in the middle.
pd.set_option("display.max_rows", None)
pd.set_option("display.max_columns", None)


def sql(name: str) -> str:
    """A question of these notebooks alone, in SQL: a file of sql/."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def readable(answer: pa.Table | pd.DataFrame, most: int = MOST_ROWS) -> pd.DataFrame:
    """The first rows as text; says how many are left out, and when there are none."""
    rows = answer.to_pandas() if isinstance(answer, pa.Table) else answer
    if rows.empty:
        print("None in this window.")
    if len(rows) > most:
        print(f"The first {most} of {len(rows)} rows.")
    rows = rows.head(most)
    columns = {}
    for name in rows.columns:
        if pair := _partner(name, rows):
            low, high, together, text = pair
            if name == low:
                columns[together] = [
                    text(*ends) for ends in zip(rows[low], rows[high], strict=True)
                ]
        elif "_ms_" in name:
            seconds = (None if pd.isna(value) else value / 1000 for value in rows[name])
            columns[name.replace("_ms_", "_s_")] = [_text(value) for value in seconds]
        else:
            columns[name] = [_text(value) for value in rows[name]]
    return pd.DataFrame(columns, index=range(1, len(rows) + 1))


def worst_first(answer: pa.Table) -> pd.DataFrame:
    """Rows with level and seconds_min, the worst level and the longest first."""
    rows = answer.to_pandas()
    worse = rows.assign(level=pd.Categorical(rows["level"], LEVELS, ordered=True))
    return worse.sort_values(["level", "seconds_min"], ascending=False, kind="stable")


def _partner(name: str, rows: pd.DataFrame) -> tuple[str, str, str, Any] | None:
    """The two columns that `name` is one of, their name together, and how they are written."""
    ends = [(f"{what}_after", f"{what}_before", what, _between) for what in ("began", "ended")]
    ends += [
        (
            least,
            least.replace("_min", "_max"),
            least.replace("_ms_min", "_s").replace("_min", ""),
            write,
        )
        for least in rows.columns
        if "_min" in least
        for write in [_seconds if "_ms_" in least else number_range]
    ]
    return next(
        (pair for pair in ends if name in pair[:2] and set(pair[:2]) <= set(rows.columns)), None
    )


def _between(after: Any, by: Any) -> str:
    if pd.isna(by):
        return "goes on"
    return f"by {_time(by)}" if pd.isna(after) else f"{_time(after)} to {_time(by)}"


def _seconds(least: Any, most: Any) -> str:
    return number_range(*(None if pd.isna(value) else value / 1000 for value in (least, most)))


def number_range(least: Any, most: Any) -> str:
    """Both ends of a number, once where they are the same; without an upper one `or more`."""
    if pd.isna(least):
        return ""
    if pd.isna(most):
        return f"{_number(least)} or more"
    return _number(least) if least == most else f"{_number(least)} to {_number(most)}"


def _number(value: Any) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _time(at: pd.Timestamp) -> str:
    return f"{at:%m-%d %H:%M:%S}.{at.microsecond // 100_000}Z"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return printable(", ".join(map(str, value)))
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return _time(value)
    return _number(value) if isinstance(value, float) else printable(str(value))

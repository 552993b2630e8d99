"""Answers as text: tables for people, CSV and JSON for programs."""

import csv
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.answers.text import COLUMNS, LONGEST, as_csv, as_json, as_table

AT = datetime(2026, 11, 1, 12, 0, 3, 250_000, tzinfo=UTC)
EARLIER = datetime(2026, 11, 1, 11, 59, 58, tzinfo=UTC)
DAY_BEFORE = datetime(2026, 10, 31, 23, 0, tzinfo=UTC)


def lines(rows: pa.Table, **how: object) -> list[str]:
    heading, _, *cells = as_table(rows, **how).splitlines()  # type: ignore[arg-type]
    return [" ".join(line.split()) for line in (heading, *cells)]


@pytest.mark.parametrize(
    ("after", "before", "shown"),
    [
        (EARLIER, AT, "11:59:58 to 12:00:03"),
        (AT, AT, "12:00:03.250"),
        (AT - timedelta(milliseconds=1), AT, "12:00:03"),
        (None, AT, "by 12:00:03"),
        (AT, None, "after 12:00:03"),
    ],
)
def test_two_bounds_of_a_time_are_one_cell(
    after: datetime | None, before: datetime | None, shown: str
) -> None:
    type_ = pa.timestamp("us", "UTC")
    rows = pa.table(
        {
            "began_after": pa.array([after], type_),
            "began_before": pa.array([before], type_),
            "n": [7],
        }
    )
    assert lines(rows) == ["began 2026-11-01 n", f"{shown} 7"]


def test_times_of_several_days_have_their_days() -> None:
    times = {"began_after": [DAY_BEFORE, EARLIER], "began_before": [AT, AT]}
    rows = pa.table(
        {name: pa.array(each, pa.timestamp("us", "UTC")) for name, each in times.items()}
    )
    assert lines(rows) == [
        "began",
        "2026-10-31 23:00:00 to 2026-11-01 12:00:03",
        "2026-11-01 11:59:58 to 12:00:03",
    ]


def test_parts_of_one_thing_are_one_cell_and_columns_without_a_value_are_named_and_left_out() -> (
    None
):
    rows = pa.table(
        {
            "topic": ["orders", "clicks", None],
            "partition": [0, None, None],
            "group_id": pa.array([None] * 3, pa.string()),
            "before": ["{1,2}", None, None],
            "after": ["{1}", "3 partitions", None],
            "n": [1, 2, 3],
        }
    )
    assert lines(rows) == [
        "topic-partition before → after n",
        "orders-0 {1,2} → {1} 1",
        "clicks → 3 partitions 2",
        "3",
        "(without a value: group id)",
    ]
    assert lines(rows, wide=True)[0] == "topic partition group_id before after n"
    assert lines(rows.slice(0, 0)) == ["topic-partition group id before → after n"]


@pytest.mark.parametrize(
    ("least", "most", "shown"),
    [(1_500, 2_500, "1.5 to 2.5"), (2_000, 2_000, "2"), (2_000, None, "≥ 2"), (None, 2_000, "≤ 2")],
)
def test_two_bounds_of_a_duration_are_one_cell_in_seconds(
    least: int | None, most: int | None, shown: str
) -> None:
    type_ = pa.int64()
    rows = pa.table(
        {
            "topic": ["orders"],
            "took_ms_min": pa.array([least], type_),
            "took_ms_max": pa.array([most], type_),
        }
    )
    assert lines(rows) == ["topic took s", f"orders {shown}"]


def test_numbers_before_and_after_are_no_bounds() -> None:
    rows = pa.table({"member": ["a"], "partitions_before": [0], "partitions_after": [3]})
    assert lines(rows) == ["member partitions before → after", "a 0 → 3"]
    assert lines(rows.select(["partitions_after", "partitions_before"])) == [
        "partitions after partitions before",
        "3 0",
    ]


def test_parts_in_another_order_are_columns_of_their_own() -> None:
    assert lines(pa.table({"partition": [0], "topic": ["orders"]})) == [
        "partition topic",
        "0 orders",
    ]
    type_ = pa.timestamp("us", "UTC")
    rows = pa.table(
        {"began_before": pa.array([AT], type_), "began_after": pa.array([EARLIER], type_)}
    )
    assert lines(rows) == ["began before began after", "2026-11-01 12:00:03 2026-11-01 11:59:58"]


def test_a_table_names_the_columns_that_it_leaves_out() -> None:
    rows = pa.table({f"c{n}": [n] for n in range(COLUMNS + 2)})
    *table, left = lines(rows)
    assert table == ["c0 c1 c2 c3 c4 c5 c6 c7", "0 1 2 3 4 5 6 7"]
    assert left == "(not shown: c8, c9; --wide shows all columns)"
    assert lines(rows, wide=True) == [" ".join(rows.column_names), "0 1 2 3 4 5 6 7 8 9"]
    assert max(map(len, as_table(rows, width=40).splitlines())) <= 40


def test_a_table_is_as_wide_as_the_terminal_and_no_name_writes_to_it() -> None:
    rows = pa.table(
        {"group_id": ["a\x1b[2Jb [red]x[/red]", "x" * 300], "topics": [list("abcdef"), []]}
    )
    text = as_table(rows, width=100)
    assert max(map(len, text.splitlines())) <= 100
    assert r"a\x1b[2Jb [red]x[/red]" in text
    assert "a, b, c, d, ... (6)" in text


def test_programs_get_every_column_and_type() -> None:
    rows = pa.table(
        {
            "at": pa.array([AT], pa.timestamp("us", "UTC")),
            "n": pa.array([Decimal(3)], pa.decimal128(38, 0)),
            "part": pa.array([Decimal("0.5")], pa.decimal128(10, 3)),
            "is_open": [True],
            "isr": [[1, 2]],
            "left": pa.array([{"a": 1}], pa.map_(pa.string(), pa.int32())),
            "nothing": pa.nulls(1),
        }
    )
    assert json.loads(as_json(rows)) == {
        "at": "2026-11-01T12:00:03.250Z",
        "n": 3,
        "part": 0.5,
        "is_open": True,
        "isr": [1, 2],
        "left": {"a": 1},
        "nothing": None,
    }
    assert (
        as_csv(rows).splitlines()[1] == '2026-11-01T12:00:03.250Z,3,0.5,true,"[1, 2]","{""a"": 1}",'
    )


def test_no_cell_of_csv_is_a_formula() -> None:
    texts = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "-cmd", "\t=1", "\r=1", "a=1", "", "-1", "+1.5"]
    header, *rows = csv.reader(as_csv(pa.table({"=header": texts})).splitlines())
    assert header == ["'=header"]
    assert [cell for row in rows for cell in row or [""]] == [
        *(f"'{text}" for text in texts[:5]),
        r"\t=1",
        r"\r=1",
        *texts[7:],
    ]
    assert as_csv(pa.table({"n": [-1], "part": [-1.5]})) == "n,part\n-1,-1.5\n"


def test_json_escapes_what_a_terminal_would_obey_and_says_the_same() -> None:
    rows = pa.table({"group_id": ["a\x9b2J\u202eb\U000e0041", "ä→"], "of": [{"k": "\x85"}, None]})
    text = as_json(rows)
    assert (
        text.splitlines()[0]
        == r'{"group_id": "a\u009b2J\u202eb\udb40\udc41", "of": {"k": "\u0085"}}'
    )
    assert [json.loads(line) for line in text.splitlines()] == rows.to_pylist()
    assert "ä→" in text


def test_a_table_cuts_a_long_cell_and_programs_get_it_whole() -> None:
    rows = pa.table({"group_id": ["g" * 20_000]})
    assert as_table(rows, wide=True).splitlines()[-1] == f"{'g' * LONGEST}... (20,000 characters)"
    assert json.loads(as_json(rows))["group_id"] == "g" * 20_000
    longest = as_table(pa.table({"group_id": ["g" * LONGEST]}), wide=True)
    assert longest.splitlines()[-1] == "g" * LONGEST


def test_a_time_without_a_zone_is_utc_wherever_this_runs() -> None:
    rows = pa.table({"at": pa.array([AT.replace(tzinfo=None)], pa.timestamp("us"))})
    assert json.loads(as_json(rows))["at"] == "2026-11-01T12:00:03.250Z"
    assert lines(rows) == ["at", "2026-11-01 12:00:03"]


def test_a_value_that_cannot_be_shown_is_one_line() -> None:
    rows = pa.table({"at": pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))})
    for written in (as_json, as_table):
        with pytest.raises(QueryError, match=r"^a value of the answer cannot be shown: [^\n]+$"):
            written(rows)


def test_a_duration_is_text() -> None:
    assert json.loads(as_json(pa.table({"took": [timedelta(seconds=90)]})))["took"] == "0:01:30"


def test_brokers_that_are_fenced_share_the_cell_of_those_that_are_listed() -> None:
    rows = pa.table({"brokers": [3, 2, 3], "fenced": [0, 1, None]})
    cells = [line.strip() for line in as_table(rows).splitlines()[2:]]
    assert cells == ["3", "2 + 1 fenced", "3"]

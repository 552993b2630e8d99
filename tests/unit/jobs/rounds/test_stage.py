"""Rows of several tables side by side; and errors of folds, which name their cluster."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from jobs.rounds.stage import (
    FoldError,
    arrow_schema,
    broken_cluster,
    column_of,
    failing_as,
    packed_ddl,
    packed_in_arrow,
    struct_of,
    tables_of,
)
from jobs.rules.arrow import rows_of
from schemas.internal import LAG_STATES
from schemas.silver import POLL_GAPS

AT = datetime(2026, 11, 1, tzinfo=UTC)
GAPS = pa.Table.from_pylist(
    [{"cluster": each, "gap_end": AT} for each in ("a", "b")], arrow_schema(POLL_GAPS)
)
STATES = pa.Table.from_pylist(
    [{"cluster": "a", "group_id": "g", "memory": "{}"}], arrow_schema(LAG_STATES)
)


def test_rows_of_tables_that_lie_side_by_side_are_found_again() -> None:
    packed = packed_in_arrow(
        {POLL_GAPS: GAPS, LAG_STATES: STATES}, "key", lambda _, rows: rows["cluster"]
    )
    assert packed["key"].to_pylist() == ["a", "b", "a"]
    lists = [packed[column_of(each)].to_pylist() for each in (POLL_GAPS, LAG_STATES)]
    assert [[each is None for each in column] for column in lists] == [
        [False, False, True],
        [True, True, False],
    ]
    found = {name: rows_of(rows) for name, rows in tables_of(packed).items()}
    assert found == {"silver.poll_gaps": rows_of(GAPS), "internal.lag_states": rows_of(STATES)}


def test_columns_that_are_not_asked_for_are_left_out() -> None:
    names = ("cluster", "gap_end")
    types = {column_of(POLL_GAPS): struct_of(POLL_GAPS, names)}
    packed = packed_in_arrow({POLL_GAPS: GAPS}, "key", lambda *_: "x", types)
    assert packed["key"].to_pylist() == ["x", "x"]
    (rows,) = tables_of(packed).values()
    assert rows.column_names == [*names]
    assert packed_ddl(POLL_GAPS, names) == (
        "`silver__poll_gaps` array<struct<`cluster` string, `gap_end` timestamp>>"
    )


def test_without_tables_there_is_the_key_alone() -> None:
    packed = packed_in_arrow({}, "key", lambda *_: "x")
    assert (packed.column_names, len(packed), tables_of(packed)) == (["key"], 0, {})


def test_an_error_of_a_fold_names_its_cluster_wherever_its_text_ends_up() -> None:
    with pytest.raises(FoldError) as raised, failing_as("eu-west.1_a"):
        {}["leader\nepoch"]
    text = (
        f"[STREAM_FAILED] at org.apache.spark\njobs.rounds.stage.FoldError: {raised.value}\n  at "
        "java.base\n"
    )
    cluster, why = broken_cluster(RuntimeError(text)) or ("", "")
    assert cluster == "eu-west.1_a"
    assert why.startswith(r"KeyError: 'leader\nepoch' (test_an_error_of_a_fold_names_its_cluster")
    assert broken_cluster(RuntimeError("Python worker exited")) is None


def test_what_an_error_says_is_cut() -> None:
    with pytest.raises(FoldError) as raised, failing_as("orders"):
        raise ValueError("x" * 10_000)
    assert len(str(raised.value)) < 700

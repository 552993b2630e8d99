"""Rows of several tables side by side; and errors of folds, which name their cluster."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from jobs.rounds import stage
from jobs.rounds.stage import (
    FoldError,
    arrow_schema,
    broken_cluster,
    column_of,
    failing_as,
    folded_here,
    is_few,
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


def packed_gaps(*keys: str) -> pa.Table:
    """A gap of each key, packed; the rows of one key do not lie together."""
    rows = [{"cluster": key, "gap_end": AT, "failed_polls": n} for n, key in enumerate(keys)]
    of_table = pa.Table.from_pylist(rows, arrow_schema(POLL_GAPS))
    return packed_in_arrow({POLL_GAPS: of_table}, "key", lambda _, rows: rows["cluster"])


def test_few_rows_are_folded_here_key_by_key() -> None:
    seen = []

    def fold(
        name: str, news: Mapping[str, pa.Table], live: Mapping[str, pa.Table]
    ) -> dict[str, list[dict[str, object]]]:
        of_both = [
            [row["failed_polls"] for row in rows_of(rows["silver.poll_gaps"])]
            for rows in (news, live)
        ]
        seen.append((name, *of_both))
        return {"silver.poll_gaps": [*rows_of(live["silver.poll_gaps"])]}

    news, live = packed_gaps("b/1", "a/0", "b/1"), packed_gaps("a/1", "b/1")
    made = folded_here(news, live, [POLL_GAPS, LAG_STATES], fold, "key")
    assert seen == [("a/0", [1], []), ("a/1", [], [0]), ("b/1", [0, 2], [1])]
    (rows,) = made.values()
    assert rows.schema == arrow_schema(POLL_GAPS)
    assert [row["cluster"] for row in rows_of(rows)] == ["a/1", "b/1"]
    assert folded_here(news[:0], live[:0], [POLL_GAPS], fold, "key") == {}


def test_the_cluster_whose_fold_fails_here_is_named() -> None:
    def fold(*_: object) -> dict[str, list[dict[str, object]]]:
        raise KeyError("leader_epoch")

    with pytest.raises(FoldError) as raised:
        folded_here(packed_gaps("a/0"), packed_gaps("b/1"), [POLL_GAPS], fold, "key")
    assert (broken_cluster(raised.value) or ("",))[0] == "a"


def test_few_rows_are_small_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = packed_gaps("a", "b")
    assert is_few(rows)
    monkeypatch.setattr(stage, "FEW_ROWS", 1)
    assert not is_few(rows)
    monkeypatch.setattr(stage, "FEW_ROWS", 2)
    monkeypatch.setattr(stage, "SENT_BYTES", rows.nbytes - 1)
    assert not is_few(rows)

"""How a round writes a table; Delta's own part of it is proven in tests/spark."""

from types import SimpleNamespace
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException
from pyspark.errors import AnalysisException

from jobs.rounds import commit
from jobs.rounds.commit import TRIES, Commit, append_rows, can_replace, replace_rows
from schemas import silver
from schemas.lake import Lake

TABLE, LAKE = silver.TOPIC_SNAPSHOTS, Lake(root="/lake")


class Written:
    """Frames that say how they are written, and a session that says what it is asked."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.saved: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.sparkSession = self.write = self.conf = self
        self.sleeps: list[float] = []

    def format(self, name: str) -> "Written":
        self.now: dict[str, Any] = {"format": name}
        return self

    def options(self, **options: str) -> "Written":
        self.now |= options
        return self

    def option(self, name: str, value: str) -> "Written":
        self.now[name] = value
        return self

    def mode(self, mode: str) -> "Written":
        self.now["mode"] = mode
        return self

    def save(self, path: str) -> None:
        self._end(self.now | {"path": path})

    def saveAsTable(self, name: str) -> None:  # noqa: N802
        self._end(self.now | {"name": name})

    def sql(self, query: str, **_: object) -> "Written":
        self.asked.append(query)
        return self

    def _end(self, told: dict[str, Any]) -> None:
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.saved.append(told)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a commit has waited before it was tried again."""
    found: list[float] = []
    monkeypatch.setattr(commit, "time", SimpleNamespace(sleep=found.append))
    return found


@pytest.fixture(autouse=True)
def _frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "frame", lambda spark, *_: spark)


def conflict() -> Exception:
    return ConcurrentAppendException("a file was added")


ROUND = {"userMetadata": "round 7", "txnAppId": f"round {TABLE.full_name}", "txnVersion": "7"}


@pytest.mark.parametrize(
    ("where", "more"),
    [
        (None, {"mode": "append"}),
        ("part IN (1)", {"mode": "overwrite", "replaceWhere": "is_current AND part IN (1)"}),
    ],
)
def test_a_commit_replaces_live_rows_of_its_parts_or_appends(
    where: str | None, more: dict[str, str]
) -> None:
    rows: Any = Written()
    Commit(TABLE, rows, where).write(LAKE, 7, replacing=True)
    path = "/lake/silver/topic_snapshots"
    assert rows.saved == [{"format": "delta", "path": path} | ROUND | more]


def test_a_lake_in_a_catalog_is_written_by_name() -> None:
    rows: Any = Written()
    Commit(TABLE, rows).write(Lake(catalog="main"), 7, replacing=True)
    assert rows.saved[0]["name"] == "`main`.`silver`.`topic_snapshots`"


@pytest.mark.parametrize(("had", "merged"), [(None, True), (3, False)])
def test_where_nothing_can_be_replaced_rows_are_merged_once(
    monkeypatch: pytest.MonkeyPatch, had: int | None, merged: bool
) -> None:
    monkeypatch.setattr(commit, "version_of", lambda *_: had)
    rows: Any = Written()
    Commit(TABLE, rows, "part IN (1)").write(LAKE, 7, replacing=False)
    assert (rows.saved, len(rows.asked)) == ([], int(merged))
    for query in rows.asked:
        assert "AND NOT (s.cluster <=> ' round 7.')" in query, "so the round is found again"
        live = "t.is_current AND t.part IN (1)"
        assert query.endswith(f"WHEN NOT MATCHED BY SOURCE AND {live} THEN DELETE")
        assert f"AND {live} WHEN MATCHED THEN UPDATE" in query
    appended: Any = Written()
    Commit(TABLE, appended).write(LAKE, 7, replacing=False)
    assert len(appended.saved) == 1, "what is appended needs no MERGE"


@pytest.mark.parametrize("lost", [0, 1, TRIES - 1])
def test_a_commit_that_lost_against_another_is_tried_again(lost: int, pauses: list[float]) -> None:
    rows: Any = Written(*(conflict() for _ in range(lost)))
    Commit(TABLE, rows).write(LAKE, 7, replacing=True)
    assert len(rows.saved) == 1
    assert pauses == pytest.approx([0.1 * tried for tried in range(1, lost + 1)])


def test_a_commit_is_tried_so_often_and_no_other_error_is(pauses: list[float]) -> None:
    rows: Any = Written(*(conflict() for _ in range(TRIES)))
    with pytest.raises(ConcurrentAppendException):
        Commit(TABLE, rows).write(LAKE, 7, replacing=True)
    assert (len(rows.saved), len(pauses)) == (0, TRIES - 1)
    full: Any = Written(OSError(28, "no space left"))
    with pytest.raises(OSError, match="28"):
        Commit(TABLE, full).write(LAKE, 7, replacing=True)


def test_a_plan_that_another_run_was_first_with_is_not_tried_again() -> None:
    rows: Any = Written(conflict())
    with pytest.raises(ConcurrentAppendException):
        append_rows(rows, LAKE, TABLE, [], 7)


def test_each_kind_of_commit_of_a_table_has_numbers_of_its_own() -> None:
    rows: Any = Written()
    append_rows(rows, LAKE, TABLE, [])
    append_rows(rows, LAKE, TABLE, [], metadata="round 7 wrote nothing")
    append_rows(rows, LAKE, TABLE, [], 7)
    replace_rows(rows, LAKE, TABLE, [], "history = 'silver'", number=7, metadata="x")
    names = ("userMetadata", "txnAppId", "txnVersion", "replaceWhere")
    assert [tuple(map(each.get, names)) for each in rows.saved] == [
        (None, None, None, None),
        ("round 7 wrote nothing", None, None, None),
        ("round 7", f"round {TABLE.full_name}", "7", None),
        ("x", f"round {TABLE.full_name} history = 'silver'", "7", "history = 'silver'"),
    ]


@pytest.mark.parametrize("refuses", [False, True])
def test_a_session_may_refuse_to_append_where_it_replaces(refuses: bool) -> None:
    asked: list[tuple[str, str]] = []

    def set_(name: str, value: str) -> None:
        asked.append((name, value))
        if refuses:
            raise AnalysisException("CANNOT_MODIFY_CONFIG")

    spark: Any = SimpleNamespace(conf=SimpleNamespace(set=set_))
    assert can_replace(spark) is not refuses
    assert asked == [("spark.databricks.delta.replaceWhere.constraintCheck.enabled", "false")]

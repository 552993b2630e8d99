"""What lies in log directories, by day: answers cut anywhere, against a plain sum of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from jobs.rounds.stage import arrow_schema
from jobs.rules.storage.fold import INPUT, LAST, fold
from schemas.bronze import METADATA_POLLS
from schemas.storage import STORAGE

Row = dict[str, Any]

BEGIN = datetime(2026, 1, 1, 20, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("is_whole", pa.bool_()),
        *(each for each in arrow_schema(STORAGE) if each.name in INPUT),
    ]
)


def answered(at: datetime, *sizes: Row) -> list[Row]:
    """The sizes that one answer tells."""
    of = dict.fromkeys(INPUT) | {"cluster_id": "id", "cluster": "c", "at": at, "broker_id": 1}
    return [of | {"log_dir": "/d", "level": "log_dir", "replicas": 1} | size for size in sizes]


class Lake:
    """The rows of gold.storage, round by round."""

    def __init__(self) -> None:
        self._live = arrow_schema(STORAGE).empty_table()
        self._over: list[Row] = []

    def take(self, answers: Iterable[Sequence[Row]]) -> None:
        rows = pa.Table.from_pylist([row for answer in answers for row in answer], SCHEMA)
        made = fold(
            "c", {METADATA_POLLS.full_name: rows}, {STORAGE.full_name: self._live}, at=BEGIN
        )[STORAGE.full_name]
        if made:
            self._over += [row for row in made if not row["is_live"]]
            live = [row for row in made if row["is_live"]]
            self._live = pa.Table.from_pylist(live, arrow_schema(STORAGE))

    @property
    def rows(self) -> dict[tuple[Any, ...], Row]:
        rows = [*self._over, *self._live.to_pylist()]
        found = {tuple(row[name] for name in STORAGE.key): row for row in rows}
        assert len(found) == len(rows), "no row is there twice"
        return found


def expected(answers: Iterable[Sequence[Row]]) -> Mapping[tuple[Any, ...], Row]:
    found: dict[tuple[Any, ...], Row] = {}
    for row in (row for answer in answers for row in answer):
        of = row | {"day": row["at"].date()}
        key = tuple(of[name] for name in STORAGE.key)
        seen = found.setdefault(key, {"sizes": [], "first_at": row["at"]})
        seen["sizes"] += [] if row["size_bytes"] is None else [row["size_bytes"]]
        seen |= {name: row[name] for name in LAST} | {"last_at": row["at"]}
        seen["whole_at"] = row["at"] if row["is_whole"] else seen.get("whole_at")
    for seen in found.values():
        sizes = seen.pop("sizes")
        seen |= {"min_bytes": min(sizes, default=None), "max_bytes": max(sizes, default=None)}
    return found


def random_answers(random: Random) -> list[list[Row]]:
    """A day and a half, asked every two hours. Things come and go, and sizes are unknown."""
    answers = []
    for number in range(18):
        sizes = [
            {
                "log_dir": log_dir,
                "level": level,
                "topic": topic,
                "partition": partition,
                "size_bytes": random.choice((None, random.randrange(100))),
                "replicas": random.randrange(3),
                "usable_bytes": random.choice((None, 7)) if level == "log_dir" else None,
                "is_whole": random.random() < 0.2 if level == "log_dir" else None,
            }
            for log_dir in ("/d", "/e")
            for level, topic, partition in (
                *(("log_dir", None, None), ("topic", "t", None)),
                *(("partition", "t", 0), ("partition", "t", 1), ("future", "t", 1)),
            )
            if random.random() < 0.7
        ]
        answers.append(answered(BEGIN + timedelta(hours=2 * number), *sizes))
    return answers


@pytest.mark.parametrize("seed", range(20))
def test_answers_cut_anywhere_are_the_same_days(seed: int) -> None:
    random = Random(seed)
    answers, lake = random_answers(random), Lake()
    cuts = sorted({0, len(answers), *random.sample(range(1, len(answers)), random.randrange(9))})
    for since, until in pairwise(cuts):
        lake.take(answers[since:until])
    wanted = expected(answers)
    assert lake.rows.keys() == wanted.keys()
    for key, row in lake.rows.items():
        assert {name: row[name] for name in wanted[key]} == wanted[key], key


def test_rows_of_the_newest_day_alone_are_live() -> None:
    lake = Lake()
    lake.take([answered(BEGIN, {"size_bytes": 5})])
    assert [row["is_live"] for row in lake.rows.values()] == [True]
    lake.take([answered(BEGIN + timedelta(hours=5), {"size_bytes": 4, "log_dir": "/e"})])
    found = {row["log_dir"]: (str(row["day"]), row["is_live"]) for row in lake.rows.values()}
    assert found == {"/d": ("2026-01-01", False), "/e": ("2026-01-02", True)}


def test_a_round_without_sizes_changes_nothing() -> None:
    assert fold("c", {}, {}, at=BEGIN) == {STORAGE.full_name: []}


def test_its_rows_are_those_of_the_table() -> None:
    lake = Lake()
    lake.take([answered(BEGIN, {"size_bytes": 5})])
    (row,) = lake.rows.values()
    assert {*row} == {*STORAGE.column_names}

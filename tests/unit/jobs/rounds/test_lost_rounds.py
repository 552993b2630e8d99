"""Rounds that are noted as done, held against Delta's logs; what is made of them again is in
tests/spark.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.rounds.lost_rounds import LostRound, done_metadata, lost_rounds
from schemas import gold, silver
from schemas.internal import STATE
from schemas.lake import Lake
from schemas.table import Table

TOPICS, ISRS = silver.TOPIC_SNAPSHOTS, gold.ISR_EPISODES
START = {"operation": "CREATE TABLE"}


def write(lake: Lake, table: Table, *infos: dict[str, Any], first: int = 0) -> None:
    """The commits of a table; their times are as they are given, else of long ago."""
    log = Path(lake.path(table)) / "_delta_log"
    log.mkdir(parents=True)
    for version, info in enumerate(infos, first):
        (log / f"{version:020}.json").write_text(
            json.dumps({"commitInfo": {"timestamp": 0} | info}) + "\n"
        )


def of(number: int) -> dict[str, Any]:
    return {"userMetadata": f"round {number}", "timestamp": 10 * number}


def merged(number: int) -> dict[str, Any]:
    return {
        "operation": "MERGE",
        "operationParameters": {"predicate": f"[... (s.cluster <=>  round {number}.)]"},
    }


def done(number: int, *tables: Table) -> dict[str, Any]:
    return {"userMetadata": done_metadata(number, tables), "timestamp": 10 * number + 1}


LOST, UPKEEP = {"operation": "LOST", "timestamp": 1_000}, {"operation": "OPTIMIZE"}
BOTH = [done(1, TOPICS, ISRS), done(2, ISRS), done(3, TOPICS, ISRS)]


@pytest.mark.parametrize(
    ("states", "topics", "isrs", "lost"),
    [
        (BOTH, [of(1), of(3)], [of(1), of(2), of(3)], []),
        (BOTH, [of(1), UPKEEP, merged(3)], [of(1), of(2), of(3), UPKEEP, UPKEEP], []),
        (BOTH, [of(1), LOST], [of(1), of(2), of(3)],
         [LostRound(3, 3, ("silver.topic_snapshots",), True)]),
        (BOTH, [of(1)], [of(1), of(2), of(3)],
         [LostRound(3, 3, ("silver.topic_snapshots",), True)]),
        (
            BOTH,
            [of(1), LOST],
            [of(1), LOST, LOST],
            [
                LostRound(2, 2, ("gold.isr_episodes",), True),
                LostRound(3, 3, ("gold.isr_episodes", "silver.topic_snapshots"), True),
            ],
        ),
        (BOTH, [of(1), of(3)], [of(1), LOST, of(3)],
         [LostRound(2, 2, ("gold.isr_episodes",), False)]),
        (BOTH, [of(1), of(3), of(4)], [of(1), of(2), LOST, of(4)],
         [LostRound(3, 3, ("gold.isr_episodes",), False)]),
        # planned, committed in part, and not noted: not done
        (BOTH, [of(1), of(3), of(4)], [of(1), of(2), of(3), LOST], []),
        # made again: noted twice, as before the first time
        ([*BOTH, BOTH[-1]], [of(1), LOST], [of(1), of(2), of(3)],
         [LostRound(3, 3, ("silver.topic_snapshots",), True)]),
        ([done(1)], [], [], []),
        ([{"userMetadata": "round 20"}, {"operation": "DELETE"}], [LOST], [LOST], []),
    ],
)  # fmt: skip
def test_a_round_is_lost_where_a_table_that_it_wrote_has_no_commit_of_it(
    tmp_path: Path, states: list[Any], topics: list[Any], isrs: list[Any], lost: list[LostRound]
) -> None:
    lake = Lake(root=str(tmp_path))
    write(lake, STATE, START, *states)
    write(lake, TOPICS, START, *topics)
    write(lake, ISRS, START, *isrs)
    assert lost_rounds(lake) == lost


def test_commits_that_delta_has_forgotten_are_not_lost(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path))
    write(lake, STATE, START, done(1, TOPICS), done(5, TOPICS, ISRS))
    write(lake, TOPICS, of(4), of(5), first=7)
    assert lost_rounds(lake) == [], "of a table that is not there nobody knows anything"


@pytest.mark.parametrize("lake", [Lake(catalog="main"), Lake(root="s3a://bucket/lake")])
def test_lakes_elsewhere_are_not_looked_at(lake: Lake) -> None:
    assert lost_rounds(lake) == []

"""A lake held against what its own bronze gives."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import itemgetter

from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from tests.support import stored
from tests.support.lakes import rows_of
from tests.support.large_rounds import OF_A_RUN, in_memory
from tests.support.recorders import GAPS, check_numbers

TABLES = {table.full_name: table for table in (*silver.TABLES, *gold.TABLES)}


def check_lake(lake: Lake, dropped: Sequence[stored.Row] = ()) -> None:
    """No poll twice, no hole in a stream's numbers; silver is what the rules make of its bronze in
    one process, and gold what they make of that.

    `dropped`: rows that bronze has had.
    """
    polls = [*stored.rows_of(lake, bronze.METADATA_POLLS), *dropped]
    keys = Counter(tuple(row[name] for name in bronze.METADATA_POLLS.key) for row in polls)
    assert max(keys.values()) == 1
    numbers = defaultdict(list)
    for row in polls:
        if row["record"] == "poll":
            numbers[row["cluster"], row["stream"]].append(row["n"])
    assert {stream: sorted(found) for stream, found in numbers.items()} == {
        stream: list(range(len(found))) for stream, found in numbers.items()
    }
    for table, rows in in_memory(polls).items():
        assert rows_of(lake, TABLES[table], without=OF_A_RUN) == rows, table
    assert {row["kind"] for row in stored.rows_of(lake, silver.CLUSTER_SNAPSHOTS)} <= {"kafka"}
    steps = stored.rows_of(lake, internal.ROUNDS)
    assert max(Counter(row["round"] for row in steps).values()) == 1
    done = {
        row["history"]: row["round"]
        for row in sorted(stored.newest_states(lake), key=itemgetter("round"))
    }
    for row in (each for each in steps if each["step"] == "planned"):
        assert any(done.get(of, 0) >= row["round"] for of in row["histories"]), (
            f"round {row['round']} is not done"
        )


def check_polls(lake: Lake) -> None:
    """Each poll that was made is there, once, however often what polls and what commits was
    killed.
    """
    polls = [row for row in stored.rows_of(lake, bronze.METADATA_POLLS) if row["record"] == "poll"]
    assert not {row["error_kind"] for row in polls} & GAPS
    check_numbers(polls)

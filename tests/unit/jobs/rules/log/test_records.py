"""Rows of bronze.cluster_log as steps of a replay: a table of what was read, and its steps."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from jobs.rules.log.records import Break, Change, Open, Snapshot, in_order, since_truncation, steps

Row = dict[str, Any]

SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN, END, ABORT, HEADER, FOOTER = 23, 24, 25, 3, 4
"""Types: of transactions, and of control records of a snapshot."""
NOTHING: Row = dict.fromkeys(
    (
        *("went", "next_offset", "snapshot_offset", "snapshot_epoch", "timestamp", "leader_epoch"),
        *("type", "is_control", "last_contained_log_timestamp_ms"),
    )
)


def at(second: float) -> datetime:
    return EPOCH + second * SECOND


def rec(offset: int, kind: int = 2, second: float | None = None, epoch: int = 1) -> Row:
    """A record of the log, written at the second of its offset unless another is said."""
    return NOTHING | {
        "record": "record",
        "offset": offset,
        "type": kind,
        "is_control": False,
        "timestamp": at(offset if second is None else second),
        "leader_epoch": epoch,
        "read_at": at(100),
    }


def span(went: str, offset: int, end: int, read: float = 100, last: float | None = None) -> Row:
    """What was read, or could not be. `last`: when its last record was written."""
    return NOTHING | {
        "record": "span",
        "went": went,
        "offset": offset,
        "next_offset": end,
        "read_at": at(read),
        "timestamp": None if last is None else at(last),
        "leader_epoch": 7,
    }


def snap(offset: int, place: int, kind: int = 2, *, epoch: int = 5, ms: int | None = None) -> Row:
    """A record of a snapshot of what was before an offset."""
    return NOTHING | {
        "record": "snapshot",
        "offset": place,
        "snapshot_offset": offset,
        "snapshot_epoch": epoch,
        "type": kind,
        "is_control": kind in (HEADER, FOOTER),
        "timestamp": at(50),
        "last_contained_log_timestamp_ms": ms,
        "read_at": at(100),
    }


def snapshot(offset: int, *, ms: int | None = 9_000, epoch: int = 5) -> list[Row]:
    return [
        snap(offset, 0, HEADER, ms=ms, epoch=epoch),
        snap(offset, 1, epoch=epoch),
        snap(offset, 2, FOOTER, epoch=epoch),
    ]


def told(rows: Sequence[Row], *, is_cut: bool = False) -> list[Any]:
    """Steps in short: of a change its offset and second; of a snapshot its offset, its epoch, its
    second and how many records it has; of a break its offset, and the second of a truncation.
    """

    def seconds(time: datetime | None) -> float | None:
        return None if time is None else (time - EPOCH) / SECOND

    found: list[Any] = []
    for step in steps(rows, is_cut=is_cut):
        match step:
            case Change(record, when):
                found.append((record["offset"], seconds(when)))
            case Snapshot(records, offset, epoch, when):
                found.append(("snapshot", offset, epoch, seconds(when), len(records)))
            case Break(offset, truncated_at):
                found.append(("break", offset, seconds(truncated_at)))
            case Open():
                found.append("open")
    return found


TAKEN = ("snapshot", 6, 5, 9, 3)
"""The step of a whole snapshot of offset 6."""
LOST, CUT = span("lost", 3, 6), span("truncated", 9, 4, read=200)
AGAIN = [rec(0), rec(1), rec(2)]
READ = span("read", 0, 3, last=2)
"""What was read of a log from its beginning on."""
BEGUN = ("snapshot", 3, 7, 2, 3)
"""Its step, after a truncation."""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([rec(0), rec(1, second=9)], [(0, 0), (1, 9)], id="records at their times"),
        pytest.param([rec(4, second=0) | {"timestamp": None}], [(4, 0)], id="no time"),
        pytest.param([rec(0), span("read", 0, 1), rec(1)], [(0, 0), (1, 1)], id="read in two"),
        # Transactions (KIP-866).
        pytest.param(
            [rec(0, BEGIN), rec(1), rec(2, END), rec(3)],
            [(0, 2), (1, 2), (2, 2), (3, 3)],
            id="a transaction is in effect at its end",
        ),
        pytest.param(
            [rec(0, BEGIN), rec(1), rec(2, ABORT), rec(3)],
            [(0, 2), (2, 2), (3, 3)],
            id="an aborted one never",
        ),
        pytest.param([rec(0, BEGIN), rec(1, END)], [(0, 1), (1, 1)], id="an empty one"),
        pytest.param(
            [rec(0, BEGIN), rec(1), span("read", 0, 2), rec(2), rec(3, END)],
            [(0, 3), (1, 3), (2, 3), (3, 3)],
            id="one that was read in two",
        ),
        pytest.param(
            [rec(0, BEGIN), rec(1, END) | {"timestamp": None}], [(0, 0), (1, 0)], id="no end time"
        ),
        pytest.param([rec(0), rec(1, BEGIN), rec(2)], [(0, 0), "open"], id="an open one"),
        pytest.param(
            [rec(0, BEGIN), rec(1), span("read", 0, 2)], ["open"], id="an open one that was read"
        ),
        pytest.param(
            [rec(0, BEGIN), rec(1), LOST, rec(6)],
            [("break", 6, None), (6, 6)],
            id="one whose end was lost never ends",
        ),
        pytest.param(
            [rec(0, BEGIN), *snapshot(6), rec(6)], [TAKEN, (6, 6)], id="nor before a snapshot"
        ),
        # Snapshots.
        pytest.param([*snapshot(6), rec(6)], [TAKEN, (6, 6)], id="a snapshot, and what follows"),
        pytest.param(
            snapshot(6, ms=None), [("snapshot", 6, 5, 50, 3)], id="a bootstrap snapshot has no time"
        ),
        pytest.param(snapshot(6, ms=0), [("snapshot", 6, 5, 50, 3)], id="nor one that says 0"),
        pytest.param(snapshot(6)[:-1], ["open"], id="a snapshot without its footer"),
        pytest.param(
            [*snapshot(6)[:-1], *snapshot(8)],
            [("snapshot", 8, 5, 9, 3)],
            id="the footer will never come: another follows",
        ),
        pytest.param(
            [*snapshot(6)[:-1], *snapshot(6, epoch=6)],
            [("snapshot", 6, 6, 9, 3)],
            id="the same offset of another epoch is another one",
        ),
        pytest.param([*snapshot(6)[:-1], rec(7)], [(7, 7)], id="a record follows"),
        pytest.param([*snapshot(6), *snapshot(6)], [TAKEN, TAKEN], id="the same one twice"),
        # Breaks.
        pytest.param([LOST], [("break", 6, None)], id="lost"),
        pytest.param([CUT], [("break", 4, 200)], id="truncated"),
        pytest.param([CUT, *snapshot(6)], [("break", 4, 200), TAKEN], id="then its snapshot"),
        pytest.param(
            [CUT, *AGAIN, READ, rec(3)],
            [("break", 4, 200), BEGUN, (3, 3)],
            id="then the log from its beginning on: all of it is a snapshot",
        ),
        pytest.param(
            [CUT, *AGAIN, READ, rec(3), span("read", 3, 4), rec(4)],
            [("break", 4, 200), BEGUN, (3, 3), (4, 4)],
            id="what was read next follows it",
        ),
        pytest.param([CUT, *AGAIN], [("break", 4, 200), "open"], id="it is not said what was read"),
        pytest.param(
            [CUT, span("lost", 0, 1), *AGAIN[1:], span("read", 1, 3, last=2)],
            [("break", 4, 200), ("snapshot", 3, 7, 2, 2)],
            id="offset 0 cannot be read once there is a snapshot",
        ),
        pytest.param(
            [CUT, span("lost", 0, 5), rec(5), span("read", 5, 6)],
            [("break", 4, 200), ("break", 5, None), (5, 5)],
            id="its beginning is lost",
        ),
        pytest.param(
            [CUT, rec(5), rec(6), span("read", 5, 7)],
            [("break", 4, 200), (5, 5), (6, 6)],
            id="what was read does not begin where logs do",
        ),
        pytest.param(
            [CUT, rec(0), rec(1, BEGIN), rec(2), READ, rec(3, END)],
            [("break", 4, 200), ("snapshot", 1, 1, 1, 1), (1, 3), (2, 3), (3, 3)],
            id="a transaction that was open there is in effect at its end",
        ),
        pytest.param(
            [CUT, *AGAIN, READ | {"timestamp": None}],
            [("break", 4, 200), ("snapshot", 3, 7, 0, 3)],
            id="no time of the last record",
        ),
        pytest.param(
            [CUT, CUT | {"read_at": at(300)}, *AGAIN, READ],
            [("break", 4, 200), ("break", 4, 300), BEGUN],
            id="truncated twice",
        ),
    ],
)
def test_steps(rows: list[Row], expected: list[Any]) -> None:
    assert told(rows) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*AGAIN, READ], [BEGUN]),
        (AGAIN, ["open"]),
        ([], []),
        (snapshot(6), [TAKEN]),
        ([span("lost", 0, 5), *snapshot(6)], [("break", 5, None), TAKEN]),
        ([rec(5), span("read", 5, 6)], [(5, 5)]),
    ],
)
def test_after_a_truncation_that_was_taken_a_log_from_its_beginning_is_a_snapshot(
    rows: list[Row], expected: list[Any]
) -> None:
    assert told(rows, is_cut=True) == expected


@pytest.mark.parametrize(("found", "left"), [(99, 6), (200, 4), (299, 4), (300, 1)])
def test_rows_before_a_truncation_that_was_taken_are_left_out(found: float, left: int) -> None:
    rows = [rec(0), rec(1), CUT, rec(0), rec(1), CUT | {"read_at": at(300)}]
    assert since_truncation(rows, at(found)) == rows[-left:]


def shuffled(rows: Iterable[Row]) -> list[Row]:
    """In an order that is no rows' own."""
    return sorted(rows, key=repr)


def test_rows_are_in_the_order_in_which_they_were_read() -> None:
    """At one offset: what was read up to there, what was lost, the snapshot, the record."""
    of_snapshot = [
        snap(6, 0, HEADER),
        snap(6, 10),
        snap(6, 11, FOOTER),
        span("read", 0, 3) | {"snapshot_offset": 6, "snapshot_epoch": 5},
    ]
    rows = [
        *(rec(1), rec(2), span("read", 1, 3), span("lost", 3, 6), *of_snapshot),
        *(rec(6), rec(7), span("read", 6, 8), span("truncated", 8, 8)),
    ]
    later = [row | {"read_at": at(101)} for row in (rec(0), rec(1), span("read", 0, 2))]
    table = in_order(pa.Table.from_pylist(shuffled([*rows, *later])))
    assert table.to_pylist() == [*rows, *later]

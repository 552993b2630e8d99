"""Positions in the controllers' log: where the next batch ends, and where two logs parted, as
tables.
"""

import json

import pytest

from metadata_source.lineage import OPEN, Lineage
from metadata_source.logs.cluster.positions import (
    LogExtent,
    LogPosition,
    SnapshotId,
    Span,
    agreed,
    following,
)

NEWEST = LogPosition("c", 90, ((8, 90),), SnapshotId(90, 8))
"""Where a log is read from of which nothing is known."""
OURS = ((5, 60), (7, 100))


def extent(end: int, epochs: Lineage, before: tuple[int, int] | None = None) -> LogExtent:
    return LogExtent(NEWEST, end, epochs, before)


@pytest.mark.parametrize(
    ("ours", "seen", "offset"),
    [
        pytest.param(OURS, extent(120, ((7, OPEN),)), 100, id="the leader leads on"),
        pytest.param(OURS, extent(100, ((7, OPEN),)), 100, id="nothing came"),
        pytest.param(OURS, extent(120, ((7, 100), (8, OPEN))), 100, id="another leads"),
        pytest.param(OURS, extent(120, ((7, 80), (8, OPEN))), 80, id="its epoch ended before"),
        pytest.param(OURS, extent(70, ((7, OPEN),)), 70, id="the log ends before"),
        pytest.param(
            OURS, extent(120, ((5, 70), (8, OPEN))), 60, id="of epoch 5 it has more: cut at its end"
        ),
        pytest.param((), extent(120, ((8, OPEN),)), 100, id="we know no epoch"),
        pytest.param(OURS, extent(120, ((8, OPEN),)), 100, id="none is known to both"),
        pytest.param(
            OURS, extent(120, ((8, OPEN),), (7, 100)), 100, id="the record before is the same"
        ),
        pytest.param(
            OURS, extent(120, ((8, OPEN),), (6, 100)), 0, id="the record before is of another epoch"
        ),
        pytest.param(
            OURS, extent(120, ((8, OPEN),), (6, 99)), 100, id="what is known is of another record"
        ),
        pytest.param(
            OURS, extent(120, ((7, OPEN),), (6, 100)), 100, id="an epoch that both have decides"
        ),
    ],
)
def test_up_to_where_what_was_read_is_the_log_s(
    ours: Lineage, seen: LogExtent, offset: int
) -> None:
    assert agreed(LogPosition("c", 100, ours), seen) == offset


SNAPSHOT = SnapshotId(100, 7)


@pytest.mark.parametrize(
    ("position", "seen", "expected"),
    [
        pytest.param(
            LogPosition("c", 100, OURS),
            extent(120, ((7, OPEN),)),
            LogPosition("c", 120, ((5, 60), (7, 120))),
            id="all that is committed",
        ),
        pytest.param(
            LogPosition("c", 100, OURS),
            extent(120, ((7, 110), (8, OPEN))),
            LogPosition("c", 120, ((5, 60), (7, 110), (8, 120))),
            id="with the epochs of its records",
        ),
        pytest.param(
            LogPosition("c", 100, OURS),
            extent(100, ((7, OPEN),)),
            LogPosition("c", 100, OURS),
            id="nothing came",
        ),
        pytest.param(
            LogPosition("c", 100, OURS, SNAPSHOT),
            extent(100, ((7, OPEN),)),
            LogPosition("c", 100, OURS),
            id="a snapshot is to be read, and no record",
        ),
        pytest.param(
            LogPosition("c", 100, OURS, SNAPSHOT, cut=80),
            extent(120, ((7, OPEN),)),
            LogPosition("c", 120, ((5, 60), (7, 120))),
            id="after it was cut off",
        ),
        pytest.param(
            LogPosition("c", 100, OURS),
            extent(120, ((7, 80), (8, OPEN))),
            LogPosition("c", 90, ((8, 90),), SnapshotId(90, 8), cut=80),
            id="cut off: from its begin",
        ),
    ],
)
def test_the_end_of_the_next_batch(
    position: LogPosition, seen: LogExtent, expected: LogPosition
) -> None:
    assert following(position, seen) == expected


@pytest.mark.parametrize(
    ("before", "now", "spans"),
    [
        pytest.param(LogPosition("c", 7), LogPosition("c", 7), [], id="nothing came"),
        pytest.param(
            LogPosition("c", 7), LogPosition("c", 9, ((4, 9),)), [(7, 9, None, 4, False)], id="new"
        ),
        pytest.param(
            LogPosition("c", 7, (), SnapshotId(7, 3)),
            LogPosition("c", 9),
            [(7, 9, SnapshotId(7, 3), -1, False)],
            id="after a snapshot",
        ),
        pytest.param(
            LogPosition("c", 7, (), SnapshotId(7, 3)),
            LogPosition("c", 7),
            [(7, 7, SnapshotId(7, 3), -1, False)],
            id="a snapshot alone",
        ),
        pytest.param(
            LogPosition("c", 7),
            LogPosition("c", 9, ((8, 9),), SnapshotId(9, 8), cut=5),
            [(7, 5, None, 8, True)],
            id="cut off, and its begin is after",
        ),
        pytest.param(
            LogPosition("c", 7), LogPosition("c", 0, cut=0), [(7, 0, None, -1, True)], id="cut at 0"
        ),
    ],
)
def test_what_lies_between_two_positions(
    before: LogPosition, now: LogPosition, spans: list[tuple[int, int, SnapshotId, int, bool]]
) -> None:
    found = list(now.since(before, "alias"))
    assert [
        (span.start, span.end, span.snapshot, span.epoch, span.truncated) for span in found
    ] == spans
    assert {(span.cluster, span.cluster_id) for span in found} <= {("alias", "c")}


def test_a_span_of_nothing_is_not_truncated() -> None:
    assert not Span("c", "id", 5, 5).truncated


@pytest.mark.parametrize(
    "position",
    [
        LogPosition("c", 7, ((1, 3), (4, 7)), SnapshotId(7, 4), 5),
        LogPosition("c", 0),
        LogPosition("c", 0, cut=0),
    ],
)
def test_a_place_survives_its_json(position: LogPosition) -> None:
    assert LogPosition.from_json(json.loads(json.dumps(position.to_json()))) == position

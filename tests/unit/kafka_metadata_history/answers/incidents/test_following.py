"""Events that were not returned before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_metadata_history.answers.incidents.following import Following, as_text, version
from kafka_metadata_history.answers.questions import Ask
from schemas.in_duckdb import in_duckdb
from schemas.incidents import EVENTS
from schemas.lake import Lake
from tests.support import stored
from tests.support.duckdb_lake import Row, duckdb_lake
from tests.support.incident import at
from tests.support.incident_rows import event
from tests.support.made_lakes import make_table


@contextmanager
def asking(*rows: Row) -> Iterator[Ask]:
    with duckdb_lake({EVENTS: rows}, []) as lake:
        yield lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table()


def test_each_event_is_returned_once_also_one_that_came_late() -> None:
    follow = Following(at(0), None)
    early, first, second = (
        event(number, "opened", "a", known) for number, known in ((1, -1), (2, 10), (3, 2_000))
    )
    late, too_late = event(4, "worse", "a", 1_500), event(5, "worse", "a", 100)
    with asking(early, first) as ask:
        assert [each.id for each in follow.new(ask)] == ["event-002"]
        assert follow.new(ask) == []
    with asking(early, first, second) as ask:
        assert [each.id for each in follow.new(ask)] == ["event-003"]
    with asking(early, first, second, late, too_late) as ask:
        assert [each.id for each in follow.new(ask)] == ["event-004"], "of the last ten minutes"
        assert follow.new(ask) == []


def test_a_cluster_alone() -> None:
    with asking(event(1, "opened", "a", 1), event(2, "opened", "b", 1, cluster="east")) as ask:
        assert [each.cluster for each in Following(at(0), "east").new(ask)] == ["east"]


def test_a_line_is_printable() -> None:
    more = {"what": "\x1b[2J\n", "detail": "\u202e", "happened_after": None, "kind": "new_kind"}
    with asking(event(1, "opened", None, 1, **more)) as ask:
        (line,) = as_text(Following(at(0), None).new(ask))
    assert line.isprintable()
    assert line.startswith("2026-11-01 12:00:01Z  prod  page    opened     new kind: \\x1b")


def test_the_version_is_that_of_the_newest_commit(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path))
    assert version(lake) is None
    make_table(lake, EVENTS)
    assert version(lake) == 0
    stored.append(lake, EVENTS, [event(1, "opened", "a", 1)])
    assert version(lake) == 1

"""The quorum two hours before the known incident, as polls told it until they ended: rows that were
made by hand, and what questions answer of them.
"""

from datetime import datetime, timedelta
from typing import Any

from schemas import gold, silver
from schemas.table import Table
from tests.support.incident_questions import Ask, columns
from tests.support.timeline_rows import CLUSTER, STREAM, at, log_id, polled

Row = dict[str, Any]
_BEFORE = timedelta(hours=2)
_VOTERS, _MORE = [7, 8], [7, 8, 9]


def _state(controller: int, epoch: int, voters: list[int], *behind: Row) -> Row:
    """Of a quorum. `behind`: who of it is."""
    ids = {
        of: [each["replica_id"] for each in behind if each["is_voter"] is votes]
        for of, votes in (("voters_behind", True), ("observers_behind", False))
    }
    told = {"controller_id": controller, "quorum_epoch": epoch, "voters": voters, "observers": [1]}
    return told | ids | {"behind": [*behind]}


def _far(replica: int, offsets: int, caught_up: float | None) -> Row:
    last = None if caught_up is None else at(caught_up)
    told = {"replica_id": replica, "is_voter": replica > 1, "offsets": offsets}
    return told | {"caught_up_at": last}


def controllers_rows() -> dict[Table, list[Row]]:
    """Observer 1 is behind from 100 s to 200 s, voter 8 meanwhile, and again at the end."""
    quorum: dict[float, Row | None] = {
        0: _state(7, 0, _VOTERS),
        100: _state(7, 0, _VOTERS, _far(1, 40, 85)),
        120: _state(7, 0, _VOTERS, _far(1, 90, 85), _far(8, 5, None)),
        200: _state(7, 0, _MORE),
        300: _state(8, 3, _MORE),
        400: _state(8, 3, [8, 9], _far(8, 3, 390)),
        700: None,
    }
    added = {"id": "added", "prev_voters": _VOTERS, "voters": _MORE, "source": "log"}
    added |= {"poll": log_id(STREAM, 9), "began_after": at(195), "began_before": at(195)}
    found = {silver.QUORUM: polled(silver.QUORUM, quorum), gold.VOTER_CHANGES: [CLUSTER | added]}
    return {table: [_earlier(row) for row in rows] for table, rows in found.items()}


def _earlier(row: Any) -> Any:
    """The same, two hours before: polls of an earlier stream."""
    if isinstance(row, dict):
        return {name: _earlier(value) for name, value in row.items()}
    if isinstance(row, list):
        return [_earlier(each) for each in row]
    if isinstance(row, str):
        return row.replace(STREAM, f"0{STREAM}", 1)
    return row - _BEFORE if isinstance(row, datetime) else row


_WINDOW = {"since": "2026-11-01T10:00:00Z", "until": "2026-11-01T10:10:00Z"}


def _seconds(row: Row) -> Row:
    """Times as seconds after ten."""
    times = {*("began_after", "began_before", "ended_after", "ended_before", "caught_up_at")}
    return {
        name: value + _BEFORE.total_seconds() if name in times and value is not None else value
        for name, value in row.items()
    }


class Controllers:
    def test_controllers(self, ask: Ask) -> None:
        told = (
            *("controller_id", "controller_epoch", "prev_controller_id", "began_after"),
            *("began_before", "ended_before", "end_reason", "times_active", "source"),
        )
        first = (3001, 4, None, None, -3600.0, 62.0, "another_elected", 2, "log")
        second = (3002, 5, 3001, 62.0, 62.0, 93.0, "another_elected", 1, "log")
        third = (3001, 8, None, 93.0, 93.0, None, None, 2, "log")
        assert columns(ask("controllers", cluster="prod"), *told) == [first, second, third]
        later = ask("controllers", cluster="prod", since="2026-11-01T12:01:10Z")
        assert columns(later, "controller_id", "times_active") == [(3002, 1), (3001, 1)]
        as_of = ask("controllers", cluster="prod", until="2026-11-01T12:01:10Z")
        ends = ("controller_id", "ended_after", "ended_before", "end_reason")
        assert columns(as_of, *ends) == [
            (3001, 62.0, 62.0, "another_elected"),
            (3002, None, None, None),
        ]
        assert ask("controllers", cluster="other") == []

    def test_controllers_by_polls(self, ask: Ask) -> None:
        told = (
            *("controller_id", "prev_controller_id", "epochs_raised", "began_after"),
            *("began_before", "ended_after", "ended_before", "end_reason", "source"),
        )
        rows = [_seconds(row) for row in ask("controllers", cluster="prod", **_WINDOW)]
        assert columns(rows, *told) == [
            (7, None, None, None, 0, 290, 300, "another_elected", "polls"),
            (8, 7, 3, 290, 300, None, None, None, "polls"),
        ]

    def test_quorum(self, ask: Ask) -> None:
        told = (
            *("replica_id", "role", "what", "began_after", "began_before", "ended_after"),
            *("ended_before", "seconds_min", "seconds_max", "offsets_behind", "caught_up_at"),
        )
        rows = [_seconds(row) for row in ask("quorum", cluster="prod", **_WINDOW)]
        nothing = (None,) * 6
        assert columns(rows, *told) == [
            (1, "observer", "behind", 90, 100, 190, 200, 0, 110, 40, 85),
            (8, "voter", "behind", 110, 120, 190, 200, 0, 90, 5, None),
            (9, "voter", "voter_added", 195, 195, *nothing),
            (7, "voter", "voter_removed", 390, 400, *nothing),
            (8, "voter", "behind", 390, 400, None, None, 0, 210, 3, 390),
        ]
        # Nothing else is known of that time.
        lasted = [row for row in rows if row["what"] == "behind"]
        assert all(row["not_observed_s"] == row["seconds_max"] for row in lasted)
        assert [row["source"] for row in rows if row["what"] != "behind"] == ["log", "polls"]
        early = ask("quorum", cluster="prod", **_WINDOW | {"until": "2026-11-01T10:02:30Z"})
        ends = ("replica_id", "ended_before", "seconds_max")
        assert columns(early, *ends) == [(1, None, 60), (8, None, 40)], "as of then"
        late = ask("quorum", cluster="prod", **_WINDOW | {"since": "2026-11-01T10:03:20Z"})
        assert _seconds(late[0])["began_before"] == 100, "it began before the window"
        assert ask("quorum", cluster="prod") == ask("quorum", cluster="other", **_WINDOW) == []

"""Questions about log directories, asked of rows that were made by hand."""

import pytest

from tests.support.incident_questions import Ask, columns
from tests.support.incident_storage import GB

YESTERDAY = "2026-10-31T11:00:00Z"
"""Between the first and the last answer of its day."""
ANSWERED_AT, DAY = -300, 86_400
"""Times are in seconds since noon."""


class Storage:
    """Of a cluster of their own: tests/support/incident_storage.py."""

    def test_storage(self, ask: Ask) -> None:
        rows = [row for row in ask("storage", cluster="disks") if row["level"] == "log_dir"]
        told = ("broker_id", "log_dir", "state", "size_bytes", "usable", "futures")
        assert columns(rows, *told) == [
            (2, "/d2", "failed", None, None, None),
            (1, "/d1", "online", 155 * GB, 0.1, 0),
            (2, "/d1", "online", 100 * GB, 0.9, 0),
            (1, "/d2", "online", 6 * GB, 0.994, 1),
            (3, "/d1", "online", 50 * GB, None, 0),
        ]
        # The median of 6, 50, 100 and 155.
        assert [row["skew"] for row in rows] == [
            None,
            *map(pytest.approx, (155 / 75, 100 / 75, 0.08, 50 / 75)),
        ]
        assert ask("storage", cluster="prod") == []

    def test_storage_of_what_fills_a_directory(self, ask: Ask) -> None:
        rows = [row for row in ask("storage", broker=1) if row["level"] != "log_dir"]
        told = ("level", "log_dir", "topic", "partition", "size_bytes", "offset_lag")
        assert columns(rows, *told)[:3] == [
            ("future", "/d2", "orders", 1, 2 * GB, 70),
            ("topic", "/d1", "orders", None, 93 * GB, None),
            ("topic", "/d1", "t00", None, GB, None),
        ]
        assert columns(rows, *told)[-1] == ("partition", "/d1", "orders", 0, 60 * GB, None)
        assert (len(rows), rows[1]["share"]) == (1 + 10 + 1, pytest.approx(0.6))
        of_topic = ask("storage", topic="orders")
        assert [row["level"] for row in of_topic] == ["future", "topic", "partition"]
        assert ask("storage", broker=3, topic="orders") == []
        # Nothing was told since.
        late = ask("storage", cluster="disks", since="2026-11-02", until="2026-11-02T12:00:00Z")
        told = ("level", "state", "size_bytes", "answered_at")
        assert {*columns(late, *told)} == {
            ("log_dir", "failed", None, None),
            ("log_dir", None, None, None),
        }

    def test_storage_at_a_past_time_is_what_was_known_then(self, ask: Ask) -> None:
        """Its day went on: what the day told last is of the future."""
        rows = ask("storage", cluster="disks", broker=1, since="2026-10-30", until=YESTERDAY)
        told = ("level", "log_dir", "size_bytes", "min_bytes", "max_bytes", "answered_at")
        assert columns(rows, *told) == [
            ("log_dir", "/d1", 140 * GB, 150 * GB, 150 * GB, ANSWERED_AT - 2 * DAY),
            ("log_dir", "/d2", None, 5 * GB, 5 * GB, None),
        ]
        now = ask("storage", cluster="disks", broker=3)
        assert columns(now, *told) == [("log_dir", "/d1", *[50 * GB] * 3, ANSWERED_AT)]

    def test_growth(self, ask: Ask) -> None:
        rows = ask("growth", cluster="disks")
        told = ("broker_id", "log_dir", "days", "last_bytes", "unknown")
        assert columns(rows, *told) == [
            # The day that is not over counts where it reached more than all before.
            (1, "/d1", 6, 155 * GB, None),
            (1, "/d2", 2, 6 * GB, "few_days"),
            (2, "/d1", 4, 100 * GB, "levelled_off"),
            (2, "/d2", 5, 99 * GB, "failed"),
            (3, "/d1", 5, 50 * GB, "no_volume"),
        ]
        # The least: from the day before. The greatest: from four before.
        full = rows[0]
        assert (full["bytes_a_day_min"], full["bytes_a_day_max"]) == (5 * GB, 45 * GB // 4)
        assert full["days_until_full_min"] == pytest.approx(100 * 4 / 45)
        assert full["days_until_full_max"] == pytest.approx(20)
        assert {row["days_until_full_min"] for row in rows[1:]} == {None}
        assert columns(ask("growth", broker=3), *told[:2]) == [(3, "/d1")]
        assert {row["not_answered_since"] for row in rows} == {None}

    def test_growth_of_brokers_that_do_not_answer(self, ask: Ask) -> None:
        rows = ask("growth", cluster="late")
        told = ("broker_id", "not_answered_since", "days_until_full_min", "unknown")
        assert columns(rows, *told) == [
            (11, None, pytest.approx(10), None),
            (12, ANSWERED_AT - 1_200, pytest.approx(10), None),
            (13, ANSWERED_AT - 2 * DAY, None, "not_answered"),
            (14, None, None, "error"),
        ]

    def test_growth_up_to_a_past_time(self, ask: Ask) -> None:
        """Of the day that went on nothing counts."""
        rows = ask("growth", cluster="disks", broker=1, until=YESTERDAY)
        told = ("log_dir", "days", "last_bytes", "usable_bytes")
        assert columns(rows, *told)[0] == ("/d1", 4, 140 * GB, 100 * GB)

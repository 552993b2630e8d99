"""Questions about log directories, asked of rows that were made by hand."""

import pytest

from tests.support.incident_questions import Ask, columns
from tests.support.incident_storage import GB


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
        assert {(row["level"], row["size_bytes"]) for row in late} == {("log_dir", None)}

    def test_growth(self, ask: Ask) -> None:
        rows = ask("growth", cluster="disks")
        told = ("broker_id", "log_dir", "days", "last_bytes", "unknown")
        assert columns(rows, *told) == [
            (1, "/d1", 5, 150 * GB, None),
            (1, "/d2", 1, 5 * GB, "few_days"),
            (2, "/d1", 4, 100 * GB, "levelled_off"),
            (2, "/d2", 4, 95 * GB, "failed"),
            (3, "/d1", 4, 40 * GB, "no_volume"),
        ]
        # The least: from the day before, or two before. The greatest: from three before.
        full = rows[0]
        assert (full["bytes_a_day_min"], full["bytes_a_day_max"]) == (10 * GB, 40 * GB // 3)
        assert full["days_until_full_min"] == pytest.approx(7.5)
        assert full["days_until_full_max"] == pytest.approx(10)
        assert {row["days_until_full_min"] for row in rows[1:]} == {None}
        assert columns(ask("growth", broker=3), *told[:2]) == [(3, "/d1")]

"""Two bounds of a time as text."""

import pytest

from kafka_metadata_history.report.moments import between


@pytest.mark.parametrize(
    ("after", "before", "day", "says"),
    [
        (0.0, 1500.0, "", "between 1970-01-01 00:00:00.000 and 00:00:01.500"),
        (0.0, 1500.0, "1970-01-01", "between 00:00:00.000 and 00:00:01.500"),
        (0.0, 86_400_000.0, "", "between 1970-01-01 00:00:00.000 and 1970-01-02 00:00:00.000"),
        (0.0, 86_400_000.0, "1970-01-02", "between 1970-01-01 00:00:00.000 and 00:00:00.000"),
        (None, 0.0, "1970-01-01", "by 00:00:00.000"),
        (0.0, None, "1970-01-01", "after 00:00:00.000"),
        (5.0, 5.0, "1970-01-01", "at 00:00:00.005"),
        (None, None, "", ""),
    ],
)
def test_bounds_as_text(after: float | None, before: float | None, day: str, says: str) -> None:
    assert between(after, before, day) == says

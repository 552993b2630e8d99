"""Which polls are on time. Nothing is timed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.results import Measured
from benchmarks.rounds.beat import lateness_of, polls_on_time

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def header(
    due: float, late: float | None = 0.0, *, attempts: int = 1, error_kind: str | None = None
) -> dict[str, Any]:
    at = BEGIN + timedelta(seconds=due)
    sent = None if late is None else at + timedelta(seconds=late)
    told = {"scheduled_at": at, "sent_at": sent, "interval_ms": 2_000}
    return told | {"attempts": None if late is None else attempts, "error_kind": error_kind}


def test_polls_on_time_are_a_share_of_those_that_could_be() -> None:
    well = [header(2 * n, 0.5) for n in range(7)]
    assert polls_on_time(well) == Measured(1.0, (0.5,) * 7)
    assert polls_on_time([*well, header(14, 0.6)]).value == 7 / 8
    assert polls_on_time([*well, header(16)]).value == 8 / 9, "nobody polled at 14"
    assert polls_on_time([*well, header(14, 1.9, attempts=2)]).value == 1, "a broker did not answer"
    assert polls_on_time([*well, header(14, None, error_kind="overlapped")]).value == 1, (
        "a broker hangs"
    )
    assert polls_on_time([*well, header(14, None, error_kind="lost")]).value == 7 / 8, (
        "it was made, and is gone"
    )
    assert lateness_of([header(0, 0.25), header(2, None)]) == (0.25,)

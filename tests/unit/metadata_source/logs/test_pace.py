"""The pace of whoever has no quota, and how often batches begin: by a clock that waiting alone
moves.
"""

import pytest

from metadata_source.logs.pace import Begins, Pace


def test_whoever_reads_keeps_to_the_pace_and_waits_no_longer_than_that() -> None:
    now, waits = [0.0], list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    pace = Pace(100, wait, lambda: now[0])
    assert pace.hold() == 0
    pace.took(50)
    pace.took(100)
    now[0] = 0.25
    assert pace.hold() == 1.25
    assert pace.hold() == 0
    now[0] = 60
    pace.took(10)  # The time in which nothing came is nobody's to make up for.
    assert (pace.hold(), waits) == (pytest.approx(0.1), [1.25, pytest.approx(0.1)])


@pytest.mark.parametrize(
    ("took_s", "next_s"),
    [
        pytest.param(0.2, 1.0, id="no more often than once a second"),
        pytest.param(0.5, 1.0, id="it took half of that"),
        pytest.param(0.7, 1.4, id="as much time again, for others of the machine"),
        pytest.param(4, 8, id="and of a longer one"),
        pytest.param(60, 10, id="ten seconds at most"),
    ],
)
def test_when_the_next_batch_begins(took_s: float, next_s: float) -> None:
    now = [100.0]
    begins = Begins(1.0, lambda: now[0])
    assert begins.next_at() <= 100, "the first one at once"
    begins.note()
    now[0] += took_s
    assert begins.next_at() == pytest.approx(100 + next_s)

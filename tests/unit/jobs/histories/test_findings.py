"""Which sources of incidents are looked at before a round."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.histories import findings
from jobs.histories.findings import SOURCES, Findings
from jobs.rounds.history import Run
from schemas.table import Table


def test_all_sources_are_looked_at_unless_this_run_makes_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round notes how far each history was. So it has to have all that was written by then."""
    looked_at: list[Table] = []

    def newest(_spark: Any, _lake: Any, table: Table) -> int:
        looked_at.append(table)
        return 7

    monkeypatch.setattr(findings, "newest_version", newest)
    run = Run(makes={"silver"})
    context: Any = SimpleNamespace(spark=None, lake=None, run=run)
    of_run = Findings()

    def looks(*changed: str) -> set[Table]:
        looked_at.clear()
        assert of_run.versions(context, changed).keys() == {each.full_name for each in SOURCES}
        return {*looked_at}

    assert looks("silver") == {*SOURCES}
    assert looks("silver") == set()
    run.writes[SOURCES[0]] += 1
    assert looks("silver") == {SOURCES[0]}
    assert looks("silver", "rebalance_history") == {*SOURCES}
    assert looks() == set()

"""Which clusters a round of incidents folds: those of which gold has something new."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.histories import incidents
from jobs.histories.incidents import JOB, Incidents, Memory
from jobs.rounds.history import Context, News, Run
from jobs.rounds.left_out import LeftOut
from jobs.rounds.plan import States, state_of
from jobs.rules.round import SILVER

AT = datetime(2026, 1, 1, tzinfo=UTC)
LAG = "group_lag"


class Lake:
    """Its states and the versions of its tables, as rounds have left them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.version = 1
        self.states = States()
        self.history = Incidents()
        of_spark: Any = None
        config: Any = type("Config", (), {"severities": {}, "lake": None})
        newest: Any = self
        run = Run(states=newest)
        self.context = Context(of_spark, config, of_spark, self.states, run, LeftOut())
        monkeypatch.setattr(self.history, "_findings", self)
        monkeypatch.setattr(incidents, "_news", lambda _, plan, __: News(plan=plan))

    def read(self, *_: object) -> States:
        return self.states

    def versions(self, *_: object) -> dict[str, int]:
        return {"gold.group_lag": self.version}

    def note(self, history: str, number: int, **columns: Any) -> None:
        row = state_of(history, "prod", Memory(), cluster_id="c", done_at=AT) | columns
        self.states[history, "prod"] = row | {"round": number}

    def round(self) -> bool:
        """Make a round; whether there was one."""
        news = self.history.due(self.context, AT)
        if news is None:
            return False
        self.history.done(self.context, news)
        for row in self.history.note(self.context, news, None):
            self.states[JOB, row["cluster"]] = row
        return True


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    found = Lake(monkeypatch)
    found.note(SILVER, 1, changed_poll="s/1", done_poll="s/1")
    found.note(LAG, 2)
    assert found.round()
    assert not found.round()
    return found


def test_a_round_that_wrote_no_row_changes_no_incident(lake: Lake) -> None:
    lake.note(LAG, 3)
    lake.note(SILVER, 4, changed_poll="s/1", done_poll="s/2")
    assert not lake.round()


def test_rows_of_gold_are_folded(lake: Lake) -> None:
    lake.note(LAG, 3)
    lake.version += 1
    assert lake.round()


def test_changes_of_silver_are_folded_whatever_tables_have_them(lake: Lake) -> None:
    """Else `status` would call incidents late."""
    lake.note(SILVER, 4, changed_poll="s/2", done_poll="s/2")
    assert lake.round()


def test_a_deadline_is_folded(lake: Lake) -> None:
    lake.states[JOB, "prod"] |= {"deadline": AT + timedelta(seconds=1)}
    assert not lake.round()
    lake.note(SILVER, 4, changed_poll="s/1", done_at=AT + timedelta(seconds=1))
    assert lake.round()


def test_another_process_folds_once_to_know(lake: Lake) -> None:
    lake.note(LAG, 3)
    lake.history._folded.clear()
    assert lake.round()


def test_a_cluster_that_was_forgotten_is_folded(lake: Lake) -> None:
    lake.note(LAG, 3)
    lake.history.forget("prod")
    assert lake.round()

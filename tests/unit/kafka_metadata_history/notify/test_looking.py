"""The state of now, as a lake in a folder has it, without a JVM."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jobs.configuration.config import Config, load
from jobs.configuration.severities import NOTHING_RECORDED, Severity
from kafka_metadata_history.notify import looking as looking_module
from kafka_metadata_history.notify.due import Seen, Sent
from kafka_metadata_history.notify.looking import Looking
from kafka_metadata_history.notify.state import State
from kafka_metadata_history.notify.wanted import Window
from schemas import gold, incidents
from schemas.lake import Lake, LakeError
from tests.support import stored
from tests.support.alerts import alert
from tests.support.incident import at
from tests.support.incident_rows import (
    OPEN,
    RESTART,
    UNKNOWN,
    bounds,
    event,
    incident,
    incident_rows,
    recorded_rows,
)
from tests.support.made_lakes import made_lake


def noon(seconds: float) -> datetime:
    found = at(seconds)
    assert found is not None
    return found


@dataclass
class Place:
    """A lake that may be there, and what is remembered of it."""

    lake: Lake
    config: Config
    state: State
    said: list[str] = field(default_factory=list)

    def looking(self) -> Looking:
        return Looking(self.config, self.state, self.said.append)

    def make(self) -> None:
        made_lake(Path(str(self.lake.root)), incident_rows() | recorded_rows())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"lake: {tmp_path / 'lake'}\n"
        "clusters: {prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}\n"
        "notify: {pages: 'https://pages/', targets: {a: {webhook: {url: 'https://x'}}}}\n"
    )
    config = load(str(file))
    state = State(tmp_path)
    state.since("a", noon(4000))
    yield Place(config.lake, config, state)
    state.close()


def keys(seen: Seen) -> list[str]:
    return [each.key for each in seen.alerts]


def test_incidents_are_alerts_with_the_words_of_explain(place: Place) -> None:
    place.make()
    seen = place.looking().look(noon(300))
    assert (keys(seen), seen.is_known) == ([OPEN], True), "nothing was known of others of late"
    (of,) = seen.alerts
    assert (of.kind, of.severity, of.level, of.brokers) == (
        "broker_missing",
        "page",
        "offline",
        (3,),
    )
    assert of.headline == "OPEN page: broker 3 has been missing, in prod"
    assert of.text.startswith("Broker 3 has been missing since 2026-11-01 12:00:10Z (page; cause:")
    assert of.link == f"https://pages/incident/{OPEN}"


def test_what_ended_since_the_targets_have_all_is_read_and_what_is_open_there(place: Place) -> None:
    place.make()
    place.state.advance("a", noon(0))
    assert keys(place.looking().look(noon(300))) == [OPEN, RESTART], "known within the hour before"
    place.state.advance("a", noon(10_000))
    place.state.record("a", {UNKNOWN: Sent(alert(UNKNOWN), 1, is_open=True, at=noon(0))})
    seen = place.looking().look(noon(300))
    assert keys(seen) == [OPEN, UNKNOWN]
    assert (seen.alerts[1].end_reason, seen.alerts[1].state) == ("recovered", "OVER")


def test_a_week_is_the_longest_that_is_made_up_for(place: Place) -> None:
    place.make()
    place.state.advance("a", noon(0))
    late = noon(-298) + timedelta(days=7)
    assert RESTART in keys(place.looking().look(late))
    assert RESTART not in keys(place.looking().look(late + timedelta(seconds=1)))


def test_a_new_commit_is_seen_at_once(place: Place) -> None:
    place.make()
    looking = place.looking()
    looking.look(noon(300))
    new = incident("d0", "group_stuck", bounds((299, 300)), group_ids=["shop"])
    stored.append(place.lake, incidents.INCIDENTS, [new])
    assert keys(looking.look(noon(301))) == [OPEN, "d0"]
    over = incident("e0", "group_stuck", bounds((200, 201), (210, 211)))
    stored.append(place.lake, incidents.INCIDENTS, [over])
    assert "e0" not in keys(looking.look(noon(302)))
    stored.append(place.lake, incidents.EVENTS, [event(9, "ended", "e0", 500)])
    assert "e0" in keys(looking.look(noon(303)))


def test_windows_of_marks(place: Place) -> None:
    place.make()
    whole = {"text": "x", "made_at": noon(0), "made_by": "me", "since": noon(0)}
    rows = [
        {"id": "1", "cluster": "prod", "until": noon(600), **whole},
        {"id": "2", "cluster": None, "until": noon(600), **whole},
        {"id": "3", "cluster": None, "until": None, **whole},
        {"id": "4", "cluster": None, "until": noon(-10_000), **(whole | {"since": noon(-20_000)})},
    ]
    stored.append(place.lake, gold.MARKS, rows)
    assert place.looking().look(noon(300)).windows == [
        Window("prod", noon(0), noon(600)),
        Window(None, noon(0), noon(600)),
    ]


def test_a_cluster_that_nothing_is_recorded_of(place: Place) -> None:
    place.make()
    looking = place.looking()
    recorded = noon(297)
    assert keys(looking.look(recorded + timedelta(minutes=5))) == [OPEN]
    seen = looking.look(recorded + timedelta(minutes=5, seconds=1))
    silent, _ = seen.alerts
    assert (silent.key, silent.severity) == ("nothing_recorded-prod", "page")
    assert (silent.began, silent.link) == (recorded, None)
    assert silent.headline == "OPEN page: nothing is recorded of prod"
    assert "since 2026-11-01 12:04:57Z" in silent.text


def test_a_cluster_that_was_never_recorded_may_begin_late(place: Place) -> None:
    place.make()
    clusters = {**place.config.clusters, "new": place.config.clusters["prod"]}
    object.__setattr__(place.config, "clusters", clusters)
    assert keys(place.looking().look(noon(200))) == [OPEN]
    assert keys(place.looking().look(noon(500))) == [OPEN], "since a restart, too"
    assert keys(place.looking().look(noon(501))) == ["nothing_recorded-new", OPEN]


def test_a_lake_that_cannot_be_read_is_an_alert_once_it_lasts(place: Place) -> None:
    looking = place.looking()
    assert looking.look(noon(0)) == Seen(noon(0), [], is_known=False)
    assert looking.look(noon(300)).alerts == []
    seen = place.looking().look(noon(301))
    assert (keys(seen), seen.is_known) == (["lake_unreadable"], False)
    assert "no lake there" in seen.alerts[0].text
    assert len(place.said) == 2, "said once by each of the two"
    place.make()
    assert keys(looking.look(noon(302))) == [OPEN]
    shutil.rmtree(str(place.lake.root))
    assert looking.look(noon(303)) == Seen(noon(303), [], is_known=False)


def test_a_lake_that_is_replaced_meanwhile(place: Place) -> None:
    place.make()
    looking = place.looking()
    assert keys(looking.look(noon(300))) == [OPEN]
    shutil.rmtree(str(place.lake.root))
    rows = incident_rows()
    made_lake(
        Path(str(place.lake.root)),
        recorded_rows() | {incidents.INCIDENTS: rows[incidents.INCIDENTS][1:]},
    )
    assert keys(looking.look(noon(301))) == []


def test_a_read_that_breaks_off_is_a_lake_that_cannot_be_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.make()

    def breaks(*_: object) -> None:
        raise RuntimeError("a file is gone")

    monkeypatch.setattr(looking_module, "read_newest", breaks)
    looking = place.looking()
    assert not looking.look(noon(300)).is_known
    assert not looking.look(noon(301)).is_known
    assert place.said == ["RuntimeError: a file is gone; waiting for it"]
    monkeypatch.undo()
    assert keys(looking.look(noon(302))) == [OPEN]


def test_an_empty_history_is_not_known(place: Place) -> None:
    made_lake(Path(str(place.lake.root)), {})
    assert not place.looking().look(noon(0)).is_known
    assert place.said == [
        "history is empty: no cluster had a good poll that became history; waiting for it"
    ]


def test_incidents_that_are_not_made_are_said_so(place: Place) -> None:
    ((states, of), *others) = recorded_rows().items()
    made_lake(Path(str(place.lake.root)), {states: of[:1], **dict(others)})
    looking = place.looking()
    for seconds in (0, 1):
        assert looking.look(noon(seconds)).is_known
    (line,) = place.said
    assert line.startswith("incidents of prod are not made yet")


def test_a_lake_that_only_spark_reads(place: Place) -> None:
    object.__setattr__(place.config, "lake", Lake(catalog="main"))
    with pytest.raises(LakeError, match="is neither a folder of this machine nor"):
        place.looking()


def test_nobody_is_paged_for_a_silence_that_is_worth_none(place: Place) -> None:
    severities = {**place.config.severities, NOTHING_RECORDED: Severity()}
    object.__setattr__(place.config, "severities", severities)
    looking = place.looking()
    looking.look(noon(0))
    assert looking.look(noon(10_000)).alerts == []

"""A lake in a bucket that programs ask for long: how they see commits, and by which requests. None
of them writes there.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from jobs.configuration.config import Config, load
from kafka_metadata_history import events, live
from kafka_metadata_history.agents.tools import tools
from kafka_metadata_history.command import app, exit_status
from kafka_metadata_history.live import LiveLake
from kafka_metadata_history.notify.looking import Looking
from kafka_metadata_history.notify.state import State
from kafka_metadata_history.web.app import PAGES
from schemas.lake import LakeError
from schemas.table import LAKE_VERSION
from tests.support.object_store import (
    BUCKET,
    SECRET,
    client,
    configured,
    object_store,
    put,
    requests_of,
)
from tests.support.store_lake import stored, unpacked
from tests.support.web_lakes import pages

FOUND = "SELECT count(*) AS n FROM gold.events"
LAST = [f"gold/events/_delta_log/00000000000000000001.{end}" for end in ("json", "crc")]
"""The commit that has all events of the lake, and its checksum."""
WRITING = {"demo", "export", "import", "maintain", "mark", "run", "upgrade", "validate"}
WITHOUT_LAKE = {"init", "pack"}
SINCE = ("--since", "2020-01-01")


@dataclass
class Place:
    """A lake in a bucket, without the commit LAST, and its configuration."""

    address: str
    folder: Path
    config_file: str

    @property
    def config(self) -> Config:
        return load(self.config_file)

    def commit(self) -> None:
        of = client(self.address)
        for each in LAST:
            of.upload_file(str(self.folder / each), BUCKET, f"kmh/{each}")
        of.close()

    def take_back(self) -> None:
        of = client(self.address)
        for each in reversed(LAST):
            of.delete_object(Bucket=BUCKET, Key=f"kmh/{each}")
        of.close()
        requests_of(self.address)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = unpacked(stored(LAKE_VERSION), tmp_path_factory.mktemp("whole"))
    with object_store() as address:
        put(address, folder, "kmh")
        file = tmp_path_factory.mktemp("config") / "config.yaml"
        yield Place(address, folder, configured(file, address, f"s3a://{BUCKET}/kmh"))


@pytest.fixture
def place(made: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("KAFKA_STORE_SECRET", SECRET)
    made.take_back()
    return made


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let time pass for whoever looks at a store."""
    clock = [960_000.0]
    monkeypatch.setattr(live, "monotonic", lambda: clock[0])
    return lambda seconds: clock.append(clock.pop() + seconds)


def test_a_look_is_one_request_a_table_and_only_commits_are_read(
    place: Place, later: Callable[[float], None]
) -> None:
    lake = LiveLake(place.config.lake)
    first = lake.now()
    assert first.ask(FOUND).to_pylist() == [{"n": 0}]
    assert {*requests_of(place.address)} == {"GET", "LIST"}
    later(59)
    lake.now().ask(FOUND)
    assert not requests_of(place.address)
    later(60)
    assert lake.now() is first
    assert requests_of(place.address) == {"GET": 2}  # internal.states and gold.events
    place.commit()
    requests_of(place.address)
    assert lake.now() is first
    assert first.ask(FOUND).to_pylist() == [{"n": 0}]
    later(60)
    newer = lake.now()
    assert newer.name != first.name
    assert newer.ask(FOUND).to_pylist()[0]["n"] > 0
    counted = requests_of(place.address)
    assert counted["LIST"] == 1
    assert counted["GET"] <= 6  # two looks; the commit; its file
    assert first.ask(FOUND).to_pylist() == [{"n": 0}]


def test_a_lake_that_is_made_again_in_its_place_is_seen_within_an_hour(
    place: Place, later: Callable[[float], None]
) -> None:
    place.commit()
    lake = LiveLake(place.config.lake)
    assert lake.now().ask(FOUND).to_pylist()[0]["n"] > 0
    place.take_back()
    later(3601)
    assert lake.now().ask(FOUND).to_pylist() == [{"n": 0}]


def test_other_credentials_are_taken_with_the_next_look(
    place: Place, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LiveLake(place.config.lake)
    first = lake.now()
    first.ask(FOUND)
    monkeypatch.setenv("KAFKA_STORE_SECRET", "another")
    later(60)
    assert lake.now() is not first
    monkeypatch.delenv("KAFKA_STORE_SECRET")
    later(60)
    with pytest.raises(LakeError, match="KAFKA_STORE_SECRET"):
        lake.now()
    monkeypatch.setenv("KAFKA_STORE_SECRET", SECRET)
    assert lake.now().ask(FOUND).num_rows == 1


def test_events_are_followed_once_a_minute(
    place: Place,
    later: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts: list[int] = []

    def sleep(seconds: float) -> None:
        assert seconds == live.LOOK_S
        later(seconds)
        counts.append(requests_of(place.address).total())
        if len(counts) == 3:
            place.commit()
            requests_of(place.address)
        if len(counts) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(events.time, "sleep", sleep)
    assert exit_status(["events", "--follow", *SINCE, "--config", place.config_file]) == 130
    followed = capsys.readouterr().out
    assert exit_status(["events", *SINCE, "--config", place.config_file]) == 0
    assert followed == capsys.readouterr().out
    assert followed
    assert counts[1:3] == [2, 2]


def test_no_command_that_reads_writes_to_the_bucket(place: Place, tmp_path: Path) -> None:
    """A name of a command that is neither here nor above fails."""
    place.commit()
    given = {
        "query": ["overview"],
        "status": [],
        "explain": [],
        "events": [*SINCE],
        "report": ["--since", "2020-01-01", "--out", str(tmp_path / "report.html")],
        "availability": [],
        "whatif": ["--lose", "broker", "1"],
        "show": [],
        "diff": ["2026-11-01T12:00:05Z"],
        "may-stop": ["1", "--by-record", "--cluster", "prod"],
        "check": [],
        "serve": None,
        "notify": None,
        "mcp": None,
    }
    assert given.keys() | WRITING | WITHOUT_LAKE == {*app.commands}
    requests_of(place.address)
    for name, more in given.items():
        if more is not None:
            assert exit_status([name, *more, "--config", place.config_file]) in {0, 3, 4}, name
            assert {*requests_of(place.address)} <= {"GET", "LIST"}, name
    with pages(place.config_file) as asking:
        _ask_all(asking)
    with closing(State(tmp_path)) as state:
        assert Looking(place.config, state, print).look(datetime.now(UTC)).is_known
    asked = LiveLake(place.config.lake).now()
    for name in ("overview", "explain", "show"):
        tool = tools()[name]
        tool.call(asked, place.config, tool.arguments.model_validate({}))
    counted = requests_of(place.address)
    assert counted["GET"] > 0
    assert {*counted} == {"GET", "LIST"}


def _ask_all(asking: TestClient) -> None:
    for path in (*PAGES, "/metrics", "/ask/overview"):
        asking.get(path.replace("{id}", "none"), params={"cluster": "prod"})
    assert json.loads(asking.get("/api/openapi.json").text)

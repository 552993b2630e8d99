"""The sender: whether all is well, and what it does if it cannot keep what it sends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.configuration.config import Config, load
from kafka_metadata_history.notify import sending
from kafka_metadata_history.notify.sending import Sender
from kafka_metadata_history.notify.state import State, StateError
from tests.support.http_receiver import Answer, HttpReceiver
from tests.support.incident_rows import OPEN, incident_rows, recorded_rows
from tests.support.made_lakes import made_lake


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    found = State(tmp_path)
    yield found
    found.close()


@pytest.fixture
def config(tmp_path: Path, receiver: HttpReceiver) -> Config:
    made_lake(tmp_path / "lake", incident_rows() | recorded_rows())
    file = tmp_path / "config.yaml"
    file.write_text(
        f"lake: {tmp_path / 'lake'}\n"
        "clusters: {prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}\n"
        "notify:\n"
        f"  heartbeat: {{url: '{receiver.url}/beat'}}\n"
        f"  targets: {{a: {{webhook: {{url: '{receiver.url}'}}, kinds: broker_missing}}}}\n"
    )
    return load(str(file))


def test_it_is_well_once_all_has_arrived_and_as_long_as_the_lake_is_read(
    config: Config,
    state: State,
    receiver: HttpReceiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender = Sender(config, state, print)
    (delivery,) = sender.deliveries
    assert not sender.is_well(), "nothing was read yet"
    seen = sender.look()
    assert not sender.is_well(), "nothing was sent yet"
    delivery.deliver(seen)
    assert sender.is_well()
    now = sending.time.monotonic()
    with monkeypatch.context() as patched:
        patched.setattr(sending.time, "monotonic", lambda: now + 1000)
        assert not sender.is_well(), "nobody looks any more"
    (tmp_path / "lake").rename(tmp_path / "gone")
    sender.look()
    assert not sender.is_well()
    (tmp_path / "gone").rename(tmp_path / "lake")
    receiver.answers = [Answer(500)]
    state.record("a", {})
    delivery._sent = {}
    delivery.deliver(sender.look())
    assert not sender.is_well()
    assert [each["incident"] for each in receiver.bodies] == [OPEN, OPEN]


def test_if_nothing_can_be_kept_nothing_is_known(
    config: Config, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    sender = Sender(config, state, said.append)

    def full(*_: object, **__: object) -> None:
        raise StateError("the disk is full")

    monkeypatch.setattr(State, "trouble", full)
    assert [(each.is_known, each.alerts) for each in (sender.look(), sender.look())] == [
        (False, []),
        (False, []),
    ]
    assert said == ["the disk is full"]


def test_once_does_not_wait_for_ever(
    config: Config, state: State, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "DEADLINE_S", 0.5)
    receiver.answers = [Answer(hangs=True)]
    said: list[str] = []
    assert not Sender(config, state, said.append).once()
    assert said == ["a: it hangs for 0 s"]

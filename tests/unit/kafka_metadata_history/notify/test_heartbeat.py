"""The sign of life for a dead man's switch."""

from threading import Thread

import pytest

from jobs.configuration.notify import Heartbeat
from kafka_metadata_history.notify import heartbeat
from kafka_metadata_history.notify.heartbeat import Beats
from tests.support.http_receiver import Answer, HttpReceiver
from tests.support.waiting import eventually


def test_it_beats_as_long_as_all_is_well(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(heartbeat.time, "sleep", waited.append)
    wells = iter([True, False, True])
    beats = Beats(Heartbeat(f"{receiver.url}/beat"), lambda: next(wells), print)

    def until_they_end() -> None:
        with pytest.raises(StopIteration):
            beats.run()

    thread = Thread(target=until_they_end)
    thread.start()
    thread.join()
    assert [(each.method, each.path) for each in receiver.got] == [("GET", "/beat")] * 2
    assert waited == [60.0] * 4


def test_a_url_that_fails_is_said_once(receiver: HttpReceiver) -> None:
    said: list[str] = []
    beats = Beats(Heartbeat(receiver.url), lambda: True, said.append)
    receiver.answers = [Answer(500), Answer(500), Answer(), Answer(500)]
    assert [beats.beat() for _ in range(4)] == [False, False, True, False]
    assert said == ["heartbeat: HTTP 500: {}"] * 2


def test_a_secret_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BEAT", raising=False)
    said: list[str] = []
    assert not Beats(Heartbeat("env:KAFKA_BEAT"), lambda: True, said.append).beat()
    assert eventually(lambda: "KAFKA_BEAT is not set" in said[0])

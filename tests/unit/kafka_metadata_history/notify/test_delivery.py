"""A target that fails, hangs, or asks to wait gets its messages once it can."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from jobs.configuration.notify import Silence, Target
from kafka_metadata_history.notify import delivery as module
from kafka_metadata_history.notify import http
from kafka_metadata_history.notify.delivery import Delivery
from kafka_metadata_history.notify.due import Message
from kafka_metadata_history.notify.receivers import RECEIVERS, Receiver
from kafka_metadata_history.notify.state import State, StateError
from tests.support.alerts import EVERYTHING, alert, ended, seen
from tests.support.http_receiver import Answer, HttpReceiver, receiving
from tests.support.waiting import eventually


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    found = State(tmp_path)
    yield found
    found.close()


class To:
    """A delivery to a receiver, and what it says."""

    def __init__(
        self, state: State, url: str, name: str = "hook", receiver: Receiver | None = None
    ) -> None:
        self.said: list[str] = []
        target = replace(EVERYTHING, url=url)
        made = receiver or RECEIVERS[target.to](name, target)
        silences: list[Silence] = []
        self.delivery = Delivery(name, target, made, silences, state=state, say=self.said.append)


def keys(receiver: HttpReceiver) -> list[str]:
    return [each["key"] for each in receiver.bodies]


def test_a_receiver_that_fails_gets_it_once_it_can(state: State, receiver: HttpReceiver) -> None:
    receiver.answers = [Answer(500), Answer(502), Answer(202)]
    to = To(state, receiver.url)
    for is_well in (False, False, True):
        to.delivery.deliver(seen(alert()))
        assert to.delivery.is_well is is_well
    assert keys(receiver) == ["a-opened-1"] * 3
    assert to.said == [
        "hook: HTTP 500: {}; trying again",
        "hook: HTTP 502: {}; trying again",
        "hook: messages arrive again",
    ]
    to.delivery.deliver(seen(alert()))
    assert len(receiver.got) == 3


def test_after_a_failure_it_pauses_for_longer_each_time_or_as_it_is_asked(
    state: State, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []
    clock = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: clock)
    to = To(state, receiver.url)
    receiver.answers = [*[Answer(500)] * 8, Answer(429, {"Retry-After": "600"})]
    for _ in range(9):
        to.delivery.deliver(seen(alert()))
        pauses.append(to.delivery._not_before - clock)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60, 600]


def test_one_that_is_refused_does_not_hold_up_the_others(
    state: State, receiver: HttpReceiver
) -> None:
    receiver.answers = [Answer(400), Answer(202)]
    to = To(state, receiver.url)
    now = seen(alert("a"), alert("b"))
    to.delivery.deliver(now)
    assert (keys(receiver), to.delivery.is_well) == (["a-opened-1", "b-opened-1"], False)
    to.delivery.deliver(now)
    assert (keys(receiver)[2:], to.delivery.is_well) == (["a-opened-1"], True)


def test_while_it_is_asked_to_wait_nothing_else_is_sent(
    state: State, receiver: HttpReceiver
) -> None:
    receiver.answers = [Answer(429, {"Retry-After": "3"})]
    to = To(state, receiver.url)
    to.delivery.deliver(seen(alert("a"), alert("b")))
    assert keys(receiver) == ["a-opened-1"]


def test_a_receiver_that_is_gone_for_long_gets_the_newest_state_and_one_summary(
    state: State, receiver: HttpReceiver
) -> None:
    to = To(state, receiver.url)
    since = to.delivery._since
    receiver.answers = [Answer(503)]
    over = []
    for number in range(50):
        began = since + timedelta(minutes=number)
        one = alert(f"a{number}", began=began)
        to.delivery.deliver(seen(one, *over))
        over.append(replace(ended(one), ended=began + timedelta(seconds=30)))
    receiver.answers, receiver.got[:] = [Answer()], []
    lasting = alert("b", severity="page")
    to.delivery.deliver(seen(lasting, *over))
    opened, summary = receiver.bodies
    assert (opened["key"], summary["action"]) == ("b-opened-1", "summary")
    assert len(summary["incidents"]) == 50
    to.delivery.deliver(seen(lasting, *over))
    assert len(receiver.got) == 2


def test_after_a_kill_between_send_and_record_it_is_sent_again_with_its_key(
    state: State, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        record = State.record
        calls = []

        def dies(self: State, *given: object) -> None:
            calls.append(given)
            if len(calls) > 1:
                raise StateError("killed")
            record(self, *given)  # type: ignore[arg-type]

        patched.setattr(State, "record", dies)
        To(state, receiver.url).delivery.deliver(seen(alert()))
    To(state, receiver.url).delivery.deliver(seen(alert()))
    assert keys(receiver) == ["a-opened-1", "a-opened-1"]
    To(state, receiver.url).delivery.deliver(seen(alert()))
    assert len(receiver.got) == 2


def test_if_what_was_sent_cannot_be_kept_it_is_not_sent_again_and_again(
    state: State, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = To(state, receiver.url)
    to.delivery.deliver(seen(alert("a")))
    over = seen(ended(alert("a")))

    def full(*_: object) -> None:
        raise StateError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(State, "record", full)
        for _ in range(3):
            to.delivery.deliver(over)
        assert keys(receiver) == ["a-opened-1", "a-ended-1"]
        assert not to.delivery.is_well
    to.delivery.deliver(over)
    assert (len(receiver.got), to.delivery.is_well) == (2, True)
    assert not state.sent("hook")["a"].is_open


def test_a_target_that_hangs_delays_no_other(
    state: State, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.0)
    with receiving() as hanging:
        hanging.answers = [Answer(hangs=True)]
        slow, fast = To(state, hanging.url, "slow"), To(state, receiver.url, "fast")
        for each in (slow, fast):
            each.delivery.offer(seen(alert()))
            Thread(target=each.delivery.run, daemon=True).start()
        eventually(lambda: receiver.got and fast.delivery.is_well, "the other target")
        eventually(lambda: slow.delivery.hangs_s, "the target that hangs")
        assert not slow.delivery.is_well
        with monkeypatch.context() as patched:
            patched.setattr(http, "TIMEOUT_S", 0.1)
            slow.delivery.deliver(seen(alert()))
        assert slow.said == ["slow: timed out; trying again"]


class Stumbling:
    """A receiver whose code is wrong."""

    again = None

    def send(self, message: Message, now: datetime) -> None:
        raise KeyError("hunter2")

    def keep(self, alerts: object, now: datetime) -> None: ...


def test_a_mistake_of_this_program_is_a_failure_and_no_silence(state: State) -> None:
    to = To(state, "https://x", receiver=Stumbling())
    to.delivery.deliver(seen(alert()))
    assert to.said == ["hook: this program stumbled over it (KeyError); trying again"]
    assert not to.delivery.is_well


def test_a_secret_that_is_gone_is_a_failure(
    state: State, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_HOOK", raising=False)
    to = To(state, "env:KAFKA_HOOK")
    to.delivery.deliver(seen(alert()))
    assert "KAFKA_HOOK is not set" in to.said[0]
    monkeypatch.setenv("KAFKA_HOOK", receiver.url)
    to.delivery.deliver(seen(alert()))
    assert to.delivery.is_well


def test_what_is_open_is_sent_again_where_that_is_needed(
    state: State, receiver: HttpReceiver
) -> None:
    made = RECEIVERS["alertmanager"]("am", Target("alertmanager", receiver.url))
    to = To(state, receiver.url, "am", made)
    to.delivery.deliver(seen(alert()))
    assert len(receiver.got) == 2, "opened, and what is open"
    to.delivery.deliver(seen(alert()))
    assert len(receiver.got) == 2, "a minute has not passed"
    to.delivery._kept_at = None
    to.delivery.deliver(seen(is_known=False))
    assert receiver.bodies[-1][0]["labels"]["incident"] == "a", "also if the lake cannot be read"
    to.delivery.deliver(seen(ended(alert())))
    to.delivery._kept_at = None
    count = len(receiver.got)
    to.delivery.deliver(seen(ended(alert())))
    assert len(receiver.got) == count

"""One driver at a time: numbers of objects in memory, by a clock of the test."""

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace

import pytest

from schemas import one_driver
from schemas.lake import LakeError
from tests.support.s3a import Session

ROOT = "s3a://bucket/lake"


class Files:
    """Objects of a store; `knows`: conditional puts."""

    def __init__(self, knows: bool = True) -> None:
        self.objects: dict[str, tuple[str, int]] = {}
        self._knows, self._puts = knows, 0

    def names(self) -> dict[str, int]:
        return {name: at for name, (_, at) in self.objects.items()}

    def put_new(self, name: str, text: str) -> bool:
        if self._knows and name in self.objects:
            return False
        self.put(name, text)
        return True

    def put(self, name: str, text: str) -> None:
        self._puts += 1
        self.objects[name] = (text, self._puts)

    def text(self, name: str) -> str:
        return self.objects[name][0]

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


class Clock:
    """Seconds that pass when somebody sleeps; `then`: what happens meanwhile."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.now, self.then = 0.0, then

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(lambda: None)
    monkeypatch.setattr(
        one_driver, "time", SimpleNamespace(sleep=clock.sleep, monotonic=lambda: clock.now)
    )
    return clock


def taken(files: Files) -> str:
    return one_driver._taken(files, ROOT)


def test_the_first_driver_takes_a_number_at_once(slept: Clock) -> None:
    files = Files()
    assert taken(files) == "00000001"
    assert {*files.objects} == {"00000001", "00000001.beat"}
    assert slept.now == 0


def test_a_driver_that_is_there_is_named_and_not_disturbed(slept: Clock) -> None:
    files = Files()
    taken(files)
    slept.then = lambda: files.put("00000001.beat", "")
    with pytest.raises(LakeError, match=rf"^{ROOT}: another driver writes it \(.*process \d+\)"):
        taken(files)
    assert {*files.objects} == {"00000001", "00000001.beat"}


def test_one_that_has_ended_is_followed_at_once_and_one_that_is_dead_after_a_while(
    slept: Clock,
) -> None:
    files = Files()
    taken(files)
    files.delete("00000001.beat")
    assert (taken(files), slept.now) == ("00000002", 0)
    assert (taken(files), slept.now) == ("00000003", one_driver.DEAD_AFTER_S)
    assert {*files.objects} == {"00000003", "00000003.beat"}


def test_of_two_that_follow_one_wins(slept: Clock) -> None:
    files = Files()
    taken(files)
    files.delete("00000001.beat")
    before = files.names

    def names() -> dict[str, int]:
        files.names = before  # type: ignore[method-assign]
        found = before()
        taken(files)  # between the look and the put of the first
        slept.then = lambda: files.put("00000002.beat", "")
        return found

    files.names = names  # type: ignore[method-assign]
    with pytest.raises(LakeError, match="another driver writes it"):
        taken(files)
    assert {*files.objects} == {"00000002", "00000002.beat"}


@pytest.mark.usefixtures("slept")
def test_a_store_that_replaces_is_refused() -> None:
    with pytest.raises(LakeError, match="knows no conditional puts"):
        taken(Files(knows=False))


@pytest.mark.parametrize(("later", "ends"), [("00000002", True), ("00000001", False)])
def test_a_driver_that_was_taken_for_dead_ends(
    monkeypatch: pytest.MonkeyPatch, later: str, ends: bool
) -> None:
    files, stop = Files(), Event()
    files.put(later, "")
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)
        stop.set()

    monkeypatch.setattr(one_driver.os, "_exit", end)
    beats = iter([False, not ends, True])
    monkeypatch.setattr(stop, "wait", lambda _: next(beats))
    monkeypatch.setattr(one_driver.logging, "shutdown", lambda: None)
    one_driver._renew(files, ROOT, "00000001", stop)
    assert ended == ([1] if ends else [])


def test_a_session_asks_once_and_lets_go_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    files, at_exit = Files(), list[Callable[[], None]]()
    monkeypatch.setattr(one_driver, "_Files", lambda *_: files)
    monkeypatch.setattr(one_driver.atexit, "register", at_exit.append)
    session = Session()
    for _ in range(2):
        one_driver.hold(session, ROOT)
    assert {*files.objects} == {"00000001", "00000001.beat"}
    (release,) = at_exit
    release()
    assert {*files.objects} == {"00000001"}

"""One driver at a time: numbers of objects in memory, by a clock of the test."""

from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.run import one_driver
from jobs.run import session as sessions
from jobs.run.one_driver import SINGLE_DRIVER, hold
from jobs.run.session import writing_session
from schemas.lake import Lake, LakeError
from tests.support.s3a import Session

ROOT = "s3a://bucket/lake"
LAKE = Lake(root=ROOT)
SETTING = "spark.delta.logStore.s3a.impl"


class Files:
    """Objects of a store; `knows`: conditional puts."""

    def __init__(self, knows: bool = True) -> None:
        self.objects: dict[str, tuple[str, int]] = {}
        self._knows, self._puts = knows, 0

    def names(self) -> list[str]:
        return [*self.objects]

    def changed_at(self, name: str) -> int | None:
        return self.objects[name][1] if name in self.objects else None

    def put_new(self, name: str, text: str) -> bool:
        if self._knows and name in self.objects:
            return False
        self.write(name, text, replacing=True)
        return True

    def write(self, name: str, text: str, *, replacing: bool = False) -> None:
        assert replacing or name not in self.objects
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
    slept.then = lambda: files.write("00000001.beat", "", replacing=True)
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

    def names() -> list[str]:
        files.names = before  # type: ignore[method-assign]
        found = before()
        taken(files)  # between the look and the put of the first
        slept.then = lambda: files.write("00000002.beat", "", replacing=True)
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
    files.write(later, "", replacing=True)
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


def found_in(monkeypatch: pytest.MonkeyPatch, files: Files) -> list[str]:
    """The folders that drivers look into; each has these files."""
    looked: list[str] = []

    def of(_: object, folder: str) -> Files:
        looked.append(folder)
        return files

    monkeypatch.setattr(one_driver.Folder, "of", of)
    return looked


def test_a_session_asks_once_and_lets_go_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    files, at_exit = Files(), list[Callable[[], None]]()
    looked = found_in(monkeypatch, files)
    monkeypatch.setattr(one_driver.atexit, "register", at_exit.append)
    session = Session()
    for _ in range(2):
        hold(session, LAKE)
    assert looked == [f"{ROOT}/_driver"]
    assert {*files.objects} == {"00000001", "00000001.beat"}
    (release,) = at_exit
    release()
    assert {*files.objects} == {"00000001"}


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_lake_that_another_driver_writes_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, slept: Clock, scheme: str
) -> None:
    files, lake = Files(), Lake(root=f"{scheme}://bucket/lake")
    taken(files)
    slept.then = lambda: files.write("00000001.beat", "", replacing=True)
    looked, session, config = found_in(monkeypatch, files), Session(), SimpleNamespace(lake=lake)
    monkeypatch.setattr(sessions, "reading_session", lambda *_: session)
    with pytest.raises(LakeError, match=rf"^{lake.root}: another driver"):
        writing_session("job", config)
    assert looked == [f"{lake.root}/_driver"]


def test_whoever_names_another_log_store_has_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = found_in(monkeypatch, Files(knows=False))
    hold(Session({SETTING: "com.example.LogStore"}), LAKE)
    assert not looked
    for settings in (
        {},
        {SETTING: SINGLE_DRIVER},
        {"spark.delta.logStore.s3.impl": "com.example.LogStore"},
    ):
        with pytest.raises(LakeError, match=rf"^{ROOT}: the store knows no conditional puts"):
            hold(Session(settings), LAKE)


@pytest.mark.parametrize(
    "lake", [Lake(root="/data/lake"), Lake(root="abfss://a@b/lake"), Lake(catalog="main")]
)
def test_other_lakes_are_not_asked(lake: Lake) -> None:
    session: Any = SimpleNamespace()  # Whatever is looked at is an AttributeError.
    hold(session, lake)

"""Notes of what was sent are in a file, and one process alone sends."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_metadata_history.notify.due import Sent
from kafka_metadata_history.notify.state import State, StateError, only_sender
from tests.support.alerts import NOON, after, alert, ended

SENT = Sent(alert(level="offline", link="https://x"), 2, is_open=True, at=NOON, is_sure=False)


def test_it_is_all_there_after_a_restart(tmp_path: Path) -> None:
    over = replace(SENT, alert=ended(alert("b")), is_open=False, is_sure=True)
    state = State(tmp_path)
    assert state.since("mail", NOON) == NOON
    state.record("mail", {"a": SENT, "b": over})
    state.close()
    again = State(tmp_path)
    assert again.since("mail", after(60)) == NOON
    assert (again.sent("mail"), again.sent("other")) == ({"a": SENT, "b": over}, {})
    again.close()
    assert (tmp_path / "sent.sqlite").stat().st_mode & 0o777 == 0o600


def test_what_was_over_long_before_is_forgotten(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.since("mail", NOON)
    state.record("mail", {"a": SENT, "b": replace(SENT, is_open=False)})
    state.advance("mail", NOON + timedelta(days=1))
    assert {*state.sent("mail")} == {"a", "b"}
    state.advance("mail", NOON + timedelta(days=1, seconds=1))
    assert {*state.sent("mail")} == {"a"}, "what is open stays"
    state.close()


def test_the_target_that_is_furthest_behind_counts(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert state.done(["a", "b"]) is None
    state.since("a", NOON)
    state.since("b", NOON)
    state.since("removed", after(-1000))
    state.advance("a", after(100))
    assert state.done(["a", "b"]) == NOON
    state.advance("b", after(50))
    assert state.done(["a", "b"]) == after(50)
    state.close()


def test_since_when_trouble_lasts(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert state.trouble("lake", NOON, lasts=True) == NOON
    assert state.trouble("lake", after(10), lasts=True) == NOON
    assert state.trouble("lake", after(20), lasts=False) == after(20)
    assert state.trouble("lake", after(30), lasts=True) == after(30)
    state.close()


def test_a_file_that_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "sent.sqlite").write_text("no database" * 100)
    with pytest.raises(StateError, match=r"sent\.sqlite: file is not a database: .* remove the"):
        State(tmp_path)


def test_a_second_sender_says_who_sends(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "notify"
    with only_sender(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        with pytest.raises(StateError, match=r"notify: process \d+ on \S+ sends messages already"):
            only_sender(folder).__enter__()
    with only_sender(folder):
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="Not a directory"):
        only_sender(tmp_path / "file" / "notify").__enter__()

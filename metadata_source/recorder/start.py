"""Starting the recorder of a spool, and a reader's hold on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from metadata_source.backoff import backoff_s
from metadata_source.errors import OptionsError
from metadata_source.options.table import BY_NAME
from metadata_source.recorder.folder import (
    SpoolError,
    TakenOverError,
    is_held,
    owner_of,
    prepare,
    read_json,
    replaced_in,
    write_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from metadata_source.recorder.folder import Owner

_ENDS_WITHIN_S: Final = 15.0
"""A recorder that is asked to end finishes the polls that are under way, for some seconds."""
_KILLED_WITHIN_S: Final = 5.0
_LOOK_S: Final = 0.05
_AGAIN_AFTER_S: Final = 1.0
_AGAIN_AT_MOST_S: Final = 30.0
"""How long after a recorder has died another one is started; longer each time."""
REFUSED: Final = 78
"""The exit status of a recorder with options that are wrong here: another one would end, too."""
_LOCKS_WITHIN_S: Final = 30.0
"""A recorder that runs for so long without the lock never gets it."""
_STEADY_S: Final = 60.0
"""A recorder that ran for so long did not die of its start."""


def start(
    options: Mapping[str, str],
    spool: Path,
    token: str,
    driver: tuple[int, float],
    *,
    once: bool = False,
) -> subprocess.Popen[bytes]:
    """Start the recorder of a spool, by the options of a stream, for the run `token`; another run's
    ends first.

    It ends with `driver`, a process's id and when that began (`began_s`). With `once` it polls each
    cluster once. Raises SpoolError where the folder cannot be used.
    """
    prepare(spool)
    _end_of_another(spool, token)
    if (read_json(spool / "facts.json") or {"token": token}).get("token") != token:
        # Those are of a run before: the lake may say something else by now.
        (spool / "facts.json").unlink(missing_ok=True)
    given = {
        "options": {name: text for name, text in options.items() if not _is_by_jobs(name)},
        "spool": str(spool),
        "token": token,
        "driver": driver,
        "once": once,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", str(__package__)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Wherever this process found the package.
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        # Whoever interrupts a run in a terminal asks the run to end, which asks the recorder.
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - a pipe
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps(given).encode())
    return process


def write_facts(
    spool: Path,
    token: str,
    cluster_ids: Mapping[str, str],
    doubted_clock: tuple[float, float] | None,
) -> None:
    """Tell the recorder of a run facts of the lake, in place of those of before. Raises OSError."""
    doubted = None if doubted_clock is None else list(doubted_clock)
    facts = {"token": token, "cluster_ids": dict(cluster_ids), "doubted_clock": doubted}
    write_json(spool / "facts.json", facts)


class Hold:
    """A reader's hold on the recorder of its spool, which runs or is started."""

    def __init__(
        self, options: Mapping[str, str], spool: Path, token: str, driver: tuple[int, float]
    ) -> None:
        """Start nothing yet."""
        self._options, self._spool, self._token, self._driver = options, spool, token, driver
        self._process: subprocess.Popen[bytes] | None = None
        self._has_held = self._has_locked = False
        """Whether a recorder of this run has had the lock; whether the one started last has."""
        self._tried, self._started_at, self._next_at = 0, 0.0, 0.0

    def attach(self) -> None:
        """See that a recorder of this run records, and start one where none does.

        Raises TakenOverError where another run's does, after this one's did; SpoolError where the
        folder cannot be used; OptionsError where the recorder refuses its options.
        """
        owner = owner_of(self._spool)
        if owner is not None and owner.token == self._token:
            self._has_held = True
            self._has_locked |= self._process is not None and owner.pid == self._process.pid
            return
        self._check_replaced(owner)
        if self._process is not None and self._process.poll() is None:
            if not self._has_locked and time.monotonic() - self._started_at < _LOCKS_WITHIN_S:
                return  # it has not got the lock yet
            end(self._process)  # somebody has removed the folder, and it writes where nobody reads
        if self._process is not None and self._process.returncode == REFUSED:
            raise OptionsError(
                f"the recorder of the spool {self._spool} refuses its options: its last line says "
                "why"
            )
        now = time.monotonic()
        if now < self._next_at:
            return
        self._tried = 1 if now - self._started_at > _STEADY_S else self._tried + 1
        self._process = start(self._options, self._spool, self._token, self._driver)
        self._started_at, self._has_locked = time.monotonic(), False
        self._next_at = self._started_at + backoff_s(_AGAIN_AFTER_S, self._tried, _AGAIN_AT_MOST_S)

    def record_once(self) -> subprocess.Popen[bytes]:
        """Start a recorder that polls each cluster once, and ends. Raises as `attach`."""
        self._check_replaced(owner_of(self._spool))
        self._process = start(self._options, self._spool, self._token, self._driver, once=True)
        return self._process

    def _check_replaced(self, owner: Owner | None) -> None:
        """End this run where another one records after it; by the spool, too: a query that begins
        again has a new reader. Else two runs would replace each other for ever.
        """
        is_others = owner is not None and owner.token != self._token
        if is_others and (self._has_held or self._token in replaced_in(self._spool)):
            raise TakenOverError(
                f"another run has taken over the spool {self._spool}; nothing is lost, this one "
                "ends"
            )

    def end(self) -> None:
        """End the recorder that was started here."""
        if self._process is not None and self._process.poll() is None:
            end(self._process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a recorder that was started here: as it would itself, or else at once."""
    process.terminate()
    try:
        process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_by_jobs(name: str) -> bool:
    option = BY_NAME.get(name.lower())
    return option is not None and option.by_jobs


def _end_of_another(spool: Path, token: str) -> None:
    """End another run's recorder: as it would itself, or else at once."""
    owner = owner_of(spool)
    if owner is None or owner.token == token:
        return
    if not owner.is_alive():
        raise SpoolError(
            f"{spool}: a recorder of another machine, or container, writes this spool: name "
            "another folder"
        )
    for number, within_s in ((signal.SIGTERM, _ENDS_WITHIN_S), (signal.SIGKILL, _KILLED_WITHIN_S)):
        try:
            os.kill(owner.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            raise SpoolError(
                f"{spool}: the recorder of another user writes this spool (process {owner.pid}): "
                "end it, or name another folder"
            ) from None
        until = time.monotonic() + within_s
        while is_held(spool):
            if time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        else:
            return
    raise SpoolError(
        f"{spool}: the recorder {owner.pid} does not end: end it, or name another folder"
    )

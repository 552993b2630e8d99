"""The folder of a spool: who records into it, which spool it is, and files written in one step."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import psutil

from metadata_source.errors import KafkaMetadataHistoryError

if TYPE_CHECKING:
    import threading
    from pathlib import Path

SPOOL_VERSION: Final = 3
"""Of the files, and of the columns of polls in them."""
_LOCK_WAIT_S: Final = 1.0
"""Whoever only looks whether the lock is held has it for a moment."""
_OWNER_WAIT_S: Final = 2.0
"""A recorder that has just got the lock says so soon."""
_OWN: Final = re.compile(
    r"\d{8}\.(arrows|index)(\.new)?|lock|attended|temporary|(owner|spool|facts|committed|pipeline|broken)\.json(\.new)?"
)
SAME_WITHIN_S: Final = 2.0
"""How far two readings of a process's begin may differ: the system rounds its own to seconds."""
_TEMPORARY: Final = "temporary"
ATTENDED: Final = "attended"
"""The file that is touched as long as somebody commits what is recorded."""
ATTENDED_EVERY_S: Final = 60.0
"""A recorder ends that nobody attends to for ten minutes."""
_ROOM: Final = "make room on its disk, or name a folder of another one (spool)"
_REMEDIES: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EIO: "its disk fails: name a folder of another one (spool)",
}
"""The remedy, by error number, where the system refuses for another reason than a missing right."""
_REPLACED: Final = 100
"""So many runs that were replaced are remembered."""


class SpoolError(KafkaMetadataHistoryError, RuntimeError):
    """A spool that cannot be used. One line: the folder, what is wrong and what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{self.mark()} {problem}")
        self.problem = problem

    @classmethod
    def mark(cls) -> str:
        """Return how each message begins, also once Spark has wrapped the error."""
        return "[KAFKA_METADATA_SPOOL]"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problem,)


class GoneError(KafkaMetadataHistoryError, RuntimeError):
    """Bytes of the spool that were there when the batch was planned. One line, without a code: the
    batch, made again, says what is lost.
    """


class SpoiltError(GoneError):
    """Bytes of the spool that are not as they were written."""


class TakenOverError(SpoolError):
    """Another run records into the spool now."""


def began_s(pid: int) -> float:
    """Return when a process began, s since the machine did: setting the clock does not change it.
    Raises psutil.NoSuchProcess.
    """
    machine = psutil.boot_time()  # which moves with the clock, as the other one does
    return float(psutil.Process(pid).create_time() - machine)


@dataclass(frozen=True, slots=True)
class Owner:
    """The recorder that writes a spool: the run that it belongs to, its process, when that began (s
    since the machine did), and a name of its own.
    """

    token: str
    pid: int
    started: float
    run: str

    @classmethod
    def here(cls, token: str) -> Self:
        """Return this process as the recorder of a run."""
        pid = os.getpid()
        return cls(token, pid, began_s(pid), secrets.token_hex(8))

    def is_alive(self) -> bool:
        """Whether the process is there; another one may have its id by now."""
        with suppress(psutil.Error):
            is_it = abs(began_s(self.pid) - self.started) < SAME_WITHIN_S
            return bool(is_it and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE)
        return False


def prepare(folder: Path) -> None:
    """Make the folder of a spool, or see that the one that is there can be written and is of this
    version. Raises SpoolError.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if foreign := sorted(
            path.name for path in folder.iterdir() if not _OWN.fullmatch(path.name)
        ):
            raise SpoolError(
                f"{folder}: it holds other files ({foreign[0]}): name a folder that is for the "
                "spool alone"
            )
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with suppress(PermissionError):  # the folder of a volume may be another user's
            folder.chmod(0o700)
        os.close(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise unusable(folder, error) from None
    version = (read_json(folder / "spool.json") or {}).get("version", SPOOL_VERSION)
    if version != SPOOL_VERSION:
        raise SpoolError(
            f"{folder}: a spool of version {version!r}, and this is version {SPOOL_VERSION}: let "
            "the version that wrote it commit what is in it (--once), or remove the folder, and "
            "with it polls that were not committed"
        )


def claim(folder: Path, checkpoints: str) -> None:
    """Note that a spool has the polls of the pipeline with these checkpoints: they are history of
    its lake alone. Raises SpoolError where it has another one's.
    """
    prepare(folder)
    path = folder / "pipeline.json"
    try:
        found = (read_json(path) or {}).get("checkpoints")
        if found is None:
            write_json(path, {"checkpoints": checkpoints})
    except OSError as error:
        raise unusable(folder, error) from None
    if found not in {None, checkpoints}:
        raise SpoolError(
            f"{folder}: another pipeline's polls are in this spool (its checkpoints: {found}): "
            "name another folder (spool); if the checkpoints of that pipeline are here now, "
            f"remove {path}"
        )


def attend(folder: Path, is_over: threading.Event) -> None:
    """Let a spool's recorder know, until `is_over`, that somebody commits what it records."""
    while not is_over.is_set():
        with suppress(OSError):  # the recorder says what is wrong with the folder
            (folder / ATTENDED).touch(mode=0o600)
        is_over.wait(ATTENDED_EVERY_S)


def make_temporary(folder: Path) -> None:
    """Have a spool removed as soon as its recorder ends."""
    (folder / _TEMPORARY).touch(mode=0o600)


def is_temporary(folder: Path) -> bool:
    """Whether a spool is removed as soon as its recorder ends."""
    return (folder / _TEMPORARY).exists()


def spool_id(folder: Path) -> str | None:
    """Return the name that a spool was given when it was made; None where there is none."""
    found = (read_json(folder / "spool.json") or {}).get("id")
    return found if isinstance(found, str) else None


def owner_of(folder: Path) -> Owner | None:
    """Return the recorder that writes a spool; None where none does. Raises SpoolError where none
    says who it is.
    """
    until = time.monotonic() + _OWNER_WAIT_S
    while is_held(folder):
        owner = last_owner(folder)
        if owner is not None and (owner.is_alive() or time.monotonic() > until):
            return owner
        if time.monotonic() > until:
            raise SpoolError(
                f"{folder}: a process holds the lock of the spool that is no recorder: end it"
            )
        time.sleep(0.02)
    return None


def last_owner(folder: Path) -> Owner | None:
    """Return the recorder that writes a spool, or that did so last."""
    found = read_json(folder / "owner.json") or {}
    with suppress(TypeError):
        return Owner(
            **{name: value for name, value in found.items() if name not in {"version", "replaced"}}
        )
    return None


def replaced_in(folder: Path) -> list[str]:
    """Return the tokens of runs whose recorder another run's has replaced; the last ones."""
    found = (read_json(folder / "owner.json") or {}).get("replaced")
    return found if isinstance(found, list) else []


def write_owner(folder: Path, owner: Owner) -> None:
    """Note who writes a spool now, and which runs it replaces. The lock is held. Raises OSError."""
    before = last_owner(folder)
    replaced = [*replaced_in(folder), *([] if before is None else [before.token])]
    others = dict.fromkeys(token for token in replaced if token != owner.token)
    about = {"version": SPOOL_VERSION, **asdict(owner), "replaced": [*others][-_REPLACED:]}
    write_json(folder / "owner.json", about)


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock. Raises SpoolError where that cannot be seen."""
    try:
        lock = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(folder, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def hold_lock(folder: Path) -> int:
    """Return the open lock of a folder, held. Raises SpoolError where another process holds it."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(lock)
                raise SpoolError(f"{folder}: another recorder writes this spool") from None
            time.sleep(0.02)
        else:
            return lock


def is_lock_of(held: int, folder: Path) -> bool:
    """Whether an open lock is the folder's: not once somebody removed the folder, or the lock."""
    try:
        return os.path.samestat(os.fstat(held), (folder / "lock").stat())
    except FileNotFoundError:
        return False


def as_line(value: Any) -> bytes:
    """Return a line of JSON."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object; None where there is none, or no whole one."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, value: Any, *, is_lasting: bool = False) -> None:
    """Put a JSON file into the folder of a spool, as `replace_file` does."""
    replace_file(path, as_line(value), is_lasting=is_lasting)


def replace_file(path: Path, content: bytes, *, is_lasting: bool) -> None:
    """Put a file into the folder of a spool, or in place of the one that is there, in one step.
    `is_lasting`: so that a power cut does not take it.
    """
    new = path.with_name(f"{path.name}.new")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write_all(file, content)
        if is_lasting:
            os.fsync(file)
    finally:
        os.close(file)
    new.replace(path)
    if is_lasting:
        sync_file(path.parent)


def write_all(file: int, data: bytes) -> None:
    """Write bytes to an open file."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def sync_file(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def unusable(folder: Path, error: OSError) -> SpoolError:
    """Return the error of a folder in which the system refuses something, with its remedy."""
    remedy = _REMEDIES.get(
        error.errno or 0, "name another folder (spool), or give this user the right to write there"
    )
    return SpoolError(
        f"{folder}: the spool cannot be written or read ({error.strerror or error}): {remedy}"
    )

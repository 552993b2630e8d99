"""Object stores without a JVM: delta-rs reads them, for itself and for DuckDB.

One reader has the credentials and speaks to the store, so both see one lake. DuckDB's own extension
would be a download, and would need the same settings under other names.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from fsspec import AbstractFileSystem

from metadata_source.errors import OptionsError
from metadata_source.references import REFERENCE, resolve_secret
from schemas.lake import LakeError

if TYPE_CHECKING:
    import duckdb

    from schemas.lake import Lake

LIMITS: Final = {"timeout": "30s", "connect_timeout": "5s", "max_retries": "6"}
"""Of a request to a store, unless the configuration says otherwise: a command ends some day."""

_S3: Final = re.compile(r"^s3[an]:", re.IGNORECASE)
_REASONS: Final = (
    (
        re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist"),
        "the bucket is not there",
    ),
    (
        re.compile(r"ExpiredToken|TokenRefreshRequired|token.{0,20}expired", re.IGNORECASE),
        "the credentials have expired: give new ones, or an identity of the machine",
    ),
    (
        re.compile(r"RequestTimeTooSkewed|RequestExpired"),
        "this machine's clock is too far from the store's: set it",
    ),
    (
        re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed"),
        "the store does not know these credentials: see `storage` of the configuration",
    ),
    (
        re.compile(r"AccessDenied|Forbidden|\b403\b"),
        "access denied: these credentials may not read it, or are missing",
    ),
    (
        re.compile(r"169\.254\.|metadata/instance|credential", re.IGNORECASE),
        "no credentials: give them under `storage`, in the environment, or to the machine",
    ),
    (
        re.compile(r"error sending request|connection refused|timed out|dns error", re.IGNORECASE),
        "the store does not answer: is the endpoint right, and can this machine reach it",
    ),
)
"""What delta-rs or a store says, and what that means for whoever asks."""


def address(root: str) -> str:
    """Return a lake's URI as delta-rs has it: `s3a:` and `s3n:` are Hadoop's names of S3."""
    return _S3.sub("s3:", root, count=1)


def options_of(lake: Lake) -> dict[str, str] | None:
    """Return what delta-rs needs for the store of a lake, secrets resolved; None for a folder.
    Raises LakeError for a reference that cannot be followed.
    """
    if lake.is_folder:
        return None
    try:
        given = {
            key: resolve_secret(f"storage.{key}", value) if REFERENCE.fullmatch(value) else value
            for key, value in lake.storage
        }
    except OptionsError as error:
        raise LakeError(f"{lake}: {error}") from error
    return LIMITS | given


def reason(problem: str) -> str | None:
    """Return why a store does not give a lake, by an error of delta-rs; None where it is of
    something else.
    """
    return next((why for pattern, why in _REASONS if pattern.search(problem)), None)


def register(database: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    """Let a database read the files of a lake in an object store, and no others."""
    database.register_filesystem(_Files(address(lake.root or ""), options_of(lake) or {}))


def sizes_below(lake: Lake, folder: str) -> dict[str, int]:
    """Return the bytes of each file below a folder of the lake, by path, in one listing. Raises
    LakeError.
    """
    try:
        files = _system(address(lake.root or ""), options_of(lake) or {})
        found = files.get_file_info(
            pa_fs.FileSelector(folder, allow_not_found=True, recursive=True)
        )
    except (DeltaError, OSError) as error:
        why = reason(str(error)) or " ".join(str(error).split())[:500]
        raise LakeError(f"{lake}: {folder} cannot be listed: {why}") from error
    return {each.path: each.size for each in found if each.is_file}


def _system(root: str, options: dict[str, str]) -> pa_fs.FileSystem:
    return pa_fs.PyFileSystem(DeltaStorageHandler(root, options))


class _Files(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files of a lake, as DuckDB asks for them: by whole names, which Delta's log has. A file
    of a lake never changes.
    """

    cachable = False

    def __init__(self, root: str, options: dict[str, str]) -> None:
        super().__init__()
        self.protocol = root.partition(":")[0]
        self._root = f"{root.rstrip('/')}/"
        self._files = _system(root, options)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            raise PermissionError(f"{path}: only reads")
        return self._files.open_input_file(self._within(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        found = self._files.get_file_info(self._within(path))
        if not found.is_file:
            raise FileNotFoundError(path)
        return {"name": path, "size": found.size, "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path]

    def modified(self, path: str) -> datetime:
        del path
        return datetime.fromtimestamp(0, UTC)

    def _within(self, path: str) -> str:
        if not path.startswith(self._root):
            raise PermissionError(f"{path}: not of this lake")
        return path.removeprefix(self._root)

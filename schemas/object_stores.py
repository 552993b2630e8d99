"""Object stores without a JVM: delta-rs reads them, for itself and for DuckDB.

One reader has the credentials and speaks to the store, so both see one lake. DuckDB's own extension
would be a download, and would need the same settings under other names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from metadata_source.errors import OptionsError
from metadata_source.references import REFERENCE, resolve_secret
from schemas.lake import LakeError

if TYPE_CHECKING:
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
        # S3 answers HEAD without a body, so S3A knows the number alone.
        re.compile(r"AWSBadRequestException"),
        (
            "the store answers 400 without a reason, as S3 does if a session token has expired: "
            "give new credentials, or an identity of the machine; else correct `storage`"
        ),
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
"""What delta-rs, S3A or a store says, and what that means for whoever asks."""


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
    """Return why a store does not give a lake, by an error of delta-rs or S3A; None where it is of
    something else.
    """
    return next((why for pattern, why in _REASONS if pattern.search(problem)), None)

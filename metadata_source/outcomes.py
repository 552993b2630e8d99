"""The outcome of a question beside metadata, in one stable word, which a line may follow: of answer
rows in bronze.

`ok`: all was told. `ok: ...`: all that there is was listed, and the line says what could not be
told of it; of transactions also what may be missing. `not_allowed`, `not_supported`,
`failed: ...`: nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from metadata_source.text import printable

if TYPE_CHECKING:
    from metadata_source.errors import PollError

OK: Final = "ok"
NOT_ALLOWED: Final = "not_allowed"
NOT_SUPPORTED: Final = "not_supported"
FAILED: Final = "failed: "
PUT_OFF: Final = "failed: put off: "
"""How the outcome of a question begins that was due and was not asked."""


def answered(missing: str | None = None) -> str:
    """Return the outcome of what got an answer; `missing`: what could not be told."""
    return OK if missing is None else f"{OK}: {_line(missing)}"


def is_answered(outcome: str) -> bool:
    """Whether all that there is was listed."""
    return outcome.partition(":")[0] == OK


def failed(problem: str) -> str:
    """Return the outcome of what got no answer, as one line."""
    return f"{FAILED}{_line(problem)}"


def put_off(reason: str) -> str:
    """Return the outcome of what was due and was not asked."""
    return f"{PUT_OFF}{_line(reason)}"


def outcome_of(error: PollError) -> str:
    """Return what an error came to."""
    return {"authorization": NOT_ALLOWED, "unsupported_version": NOT_SUPPORTED}.get(
        error.kind
    ) or failed(error.problem)


def _line(text: str) -> str:
    return " ".join(text.split())


TO_DO: Final = {
    "authentication": (
        "correct the credentials that the configuration names; the next poll reads them again"
    ),
    "authorization": "grant the user DESCRIBE on the topics (docs/permissions.md)",
    "options": "correct the options of this cluster in the configuration",
    "tls": "check kafka.ssl.* of this cluster, and its brokers' certificates",
    "too_large": "raise maxResponseBytes",
    "too_many_files": "raise the limit of open files (ulimit -n; LimitNOFILE of a systemd unit)",
    "unsupported_version": "remove metadataVersion from the configuration, or upgrade the brokers",
    "no_cluster_id": "nothing of this cluster is recorded before",
    "wrong_cluster": (
        "correct kafka.bootstrap.servers; a cluster that was rebuilt needs a new alias"
    ),
}
"""Why polls fail that no later poll mends -> what a person has to do."""


def reason(kind: str | None, error: str | None) -> str:
    """A failed poll's error in one printable line, with what to do where no later poll mends it."""
    said = printable(f"{kind}: {error}" if error else str(kind))
    return f"{said}; {TO_DO[kind]}" if kind in TO_DO else said

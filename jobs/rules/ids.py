"""Ids of rows of gold, and of observations in the controllers' log."""

import hashlib

POLLS, LOG = "polls", "log"
"""The sources that tell history."""

LOG_ID = "/log/"
"""Between the poll and the offset in the id of an observation in the controllers' log."""


def row_id(*values: str | int | None) -> str:
    """The id of a row: a hash of its key and its opening poll, or record."""
    text = "\n".join("" if value is None else str(value) for value in values)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def log_id(after: str, offset: int) -> str:
    """The id of an observation in the controllers' log, among those of polls: the record at
    `offset`.

    It sorts as text after the accepted poll `after`, and before the next one.
    """
    return f"{after}{LOG_ID}{offset:020}"


def source_of(poll_id: str) -> str:
    """The source that the id of an observation names: polls | log."""
    return POLLS if offset_of(poll_id) is None else LOG


def offset_of(poll_id: str | None) -> int | None:
    """The offset in the controllers' log that the id of an observation names; None of a poll."""
    _, log, offset = (poll_id or "").rpartition(LOG_ID)
    return int(offset) if log else None

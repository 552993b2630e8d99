"""Ids of rows of gold."""

import hashlib


def row_id(*values: str | int | None) -> str:
    """The id of a row: a hash of its key and its opening poll, or record."""
    text = "\n".join("" if value is None else str(value) for value in values)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

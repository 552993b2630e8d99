"""Messages whose bulk is the partitions of topics: read into columns, and written of columns, many entries at a time.

An entry has numbers and at most strings, whose lengths are nearly always those of the entry before. Entries whose bytes
of lengths, and sections of tagged fields, are those of an entry that was read by the exact rules have its size and its
shape; so, by induction from it, a whole run of them is where the exact reader would read them. `wire` says what each
byte means and where bytes are wrong.

Strings of entries are passed over: a commit's metadata is up to 32 KB of anything.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct
from metadata_source.protocol.wire import (
    FIXED_BYTES,
    INT_TYPECODES,
    Columns,
    Entries,
    Reader,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_LEAST_RUN: Final = 32
_MOST_RUN: Final = 1 << 16
_LONGEST_WAIT: Final = 64
"""Entries that are read one by one after runs that were none: made to differ they must not take longer for it."""


def read_entries(body: bytes, message: Message, version: int, *, deadline: float) -> Columns:
    """Return the columns of a body, as `wire.Reader` does, without the strings of partitions.

    Raises ProtocolError for bytes that are not such a message, TooSlowError at the `deadline` (of `time.monotonic`).
    """
    return _EntryReader(body, message, version, deadline=deadline).read_message()


def written_entries(message: Message, version: int, path: str, columns: Mapping[str, Any]) -> Entries:
    """Return the entries of an array of structs of numbers, as `write_message` takes them. `path`: of its field, by
    dots. `columns`: by the names of its fields, of the same length or one number for all.
    """
    layout = _written(message, version, path)
    count = max(np.size(column) for column in columns.values())
    entries = np.zeros(count, dtype=layout)
    for name in layout.names or ():
        if name in columns:
            entries[name] = columns[name]
    return Entries(count, entries.tobytes())


@cache
def _written(message: Message, version: int, path: str) -> np.dtype[np.void]:
    struct = message.body
    for name in path.split("."):
        kind = next(each.type for each in struct.in_version(version) if each.name == name)
        if not isinstance(kind, Array) or not isinstance(kind.of, Struct):
            raise TypeError(f"{path} is no array of structs")
        struct = kind.of
    numbers = [(each.name, f">i{FIXED_BYTES[each.type]}") for each in struct.in_version(version)]  # type: ignore[index]
    # The section of tagged fields, which has none.
    return np.dtype([*numbers, ("", "u1")] if message.flexible(version) else numbers)


class _EntryReader(Reader):
    """Reads one body into columns."""

    def _read_array(self, kind: Array, key: str, *, nullable: bool) -> None:
        if isinstance(kind.of, Struct) and key.endswith("topics.partitions"):
            self._read_partitions(kind.of, key, self._read_length_of(kind, key, nullable=nullable))
        else:
            super()._read_array(kind, key, nullable=nullable)

    def _read_partitions(self, struct: Struct, key: str, count: int) -> None:
        fields = [(each, f"{key}.{each.name}") for each in struct.in_version(self.version)]
        most, wait, waited = _LEAST_RUN, 0, 0
        self._path.append(0)
        done = 0
        entries = self._entries(count)
        while done < count:
            next(entries)
            self._path[-1] = done
            start = self.position
            shape, numbers = self._read_entry(struct, fields)
            done += 1
            if waited < wait:
                waited += 1
                continue
            run = self._read_run(start, shape, numbers, min(most, count - done))
            done += run
            waited, wait = 0, 0 if run else min(2 * wait + 1, _LONGEST_WAIT)
            most = min(4 * most, _MOST_RUN) if run == most else _LEAST_RUN
        self._path.pop()

    def _read_entry(
        self, struct: Struct, fields: list[tuple[Field, str]]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, Field, str]]]:
        """Read an entry. Return where the bytes are that decide about its shape, and where its numbers begin."""
        shape, numbers = [], []
        for each, key in fields:
            start = self.position
            if each.type is Primitive.STRING:
                self._path.append(each.name)
                passed = self._take_string(nullable=each.nullable_in(self.version)) or b""
                shape.append((start, self.position - len(passed)))
                self._path.pop()
            else:
                numbers.append((start, each, key))
                self._read_field(each, key)
        if self.flexible and struct.tagged:
            start = self.position
            self._skip_tagged_fields()
            shape.append((start, self.position))
        return shape, numbers

    def _read_run(
        self, first: int, shape: list[tuple[int, int]], numbers: list[tuple[int, Field, str]], most: int
    ) -> int:
        """Read entries of the shape of the one that begins at `first` and ends here. Return how many there are."""
        size = self.position - first
        most = min(most, self._left() // size)
        if not most:
            return 0
        rows = np.frombuffer(self.body, np.uint8, count=most * size, offset=self.position).reshape(most, size)
        differs = np.zeros(most, dtype=np.bool_)
        for begin, end in shape:
            alike = np.frombuffer(self.body, np.uint8, count=end - begin, offset=begin)
            differs |= (rows[:, begin - first : end - first] != alike).any(axis=1)
        run = int(differs.argmax()) if differs.any() else most
        for begin, each, key in numbers:
            width = FIXED_BYTES[each.type]  # type: ignore[index]
            found = np.ascontiguousarray(rows[:run, begin - first : begin - first + width]).view(f">i{width}")
            self._column(key, INT_TYPECODES[each.type]).frombytes(_native(found).tobytes())  # type: ignore[index]
        self.position += run * size
        return run


def _native(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return numbers.byteswap() if sys.byteorder == "little" else numbers

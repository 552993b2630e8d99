"""Reads an answer into kafka-python's class of its message, within the bytes and the time that
there are.

The library makes a decoder of Kafka's definition: source of Python, through a `CodegenContext`.
That decoder believes a broker. Here the context is another one, for all of the library's messages:
a count is held against the bytes that are left, an array ends at the deadline, and a varint after
five bytes (an endless one takes quadratic time). So `maxResponseBytes` bounds the memory that an
answer takes.
"""

from __future__ import annotations

import io
import math
import re
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.schemas.fields import struct as library
from kafka.protocol.schemas.fields.codegen import CodegenContext

from metadata_source.errors import ProtocolError, TooSlowError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOP: Final = re.compile(r"for (\w+) in range\((\w+)\):")
_TAGS: Final = "_BytesIO(bytes(data[pos:]))"
_SHIFT: Final = re.compile(r"    (\w+) \+= 7")
_ENTRIES_UNTIMED: Final = 64
_MAKING: Final = threading.Lock()
"""While a decoder is made, the library notes its class where other threads that make one see it."""
_NO_PATH: Final = "the body"
"""The library's decoders do not say in which field they are."""


class _Bounded(CodegenContext):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.globs |= {"_entries": _entries, "_Tags": _Tags}

    def emit(self, indent: str, line: str) -> None:
        line = _LOOP.sub(r"for \1 in _entries(\2, data, pos):", line).replace(
            _TAGS, "_Tags(data, pos)"
        )
        super().emit(indent, line)
        if shift := _SHIFT.fullmatch(line):
            super().emit(
                indent, f"    if {shift[1]} > 28: raise ValueError('a varint of more than 5 bytes')"
            )


library.CodegenContext = _Bounded


class _Body(bytes):
    deadline = math.inf


def response_of(request: Any) -> Any:
    """Return kafka-python's class of the response to a request: both are in one module."""
    return getattr(sys.modules[request.__module__], request.__name__.replace("Request", "Response"))


def read_response(request: Any, version: int, body: bytes, *, deadline: float) -> Any:
    """Return a body as an object of kafka-python's class of the response to its class `request`.

    Raises ProtocolError for bytes that are not such a message, TooSlowError at the `deadline` (of
    `time.monotonic`).
    """
    response = response_of(request)
    is_flexible = response.flexible_version_q(version)
    with _MAKING:
        decode = response._struct.compiled_decode_from(  # noqa: SLF001
            version, compact=is_flexible, tagged=is_flexible, data_class=response
        )
    where = {"message": response.name, "version": version, "path": _NO_PATH}
    data = _Body(body)
    data.deadline = deadline
    try:
        found, end = decode(data, 0)
    except TimeoutError as error:
        raise TooSlowError(str(error), **where, offset=_position(error)) from None
    except Exception as error:  # noqa: BLE001 - the library checks little: bytes decide what its code stumbles over
        raise ProtocolError(_problem(error), **where, offset=_position(error)) from None
    if end != len(body):
        raise ProtocolError(f"it should end here, and has {len(body)} bytes", **where, offset=end)
    return found


def _entries(count: int, data: Any, position: int) -> Iterator[int]:
    """Yield indices of so many entries while there is time. An entry takes a byte at least."""
    if not 0 <= count <= len(data) - position:
        raise ValueError(f"an array of {count} entries, but {len(data) - position} bytes are left")
    for index in range(count):
        if not index % _ENTRIES_UNTIMED:
            _check_time(data, f"entry {index} of {count}")
        yield index


class _Tags(io.BytesIO):
    """The rest of a body, from a section of tagged fields on."""

    def __init__(self, data: Any, position: int) -> None:
        super().__init__(data[position:])
        self._data = data

    def read(self, size: int | None = -1) -> bytes:
        _check_time(self._data, "a tagged field")
        found = super().read(size)
        if len(found) != size:
            raise IndexError
        return found


def _check_time(data: Any, where: str) -> None:
    # The library's connection has no deadline here: its answers are small.
    if time.monotonic() > getattr(data, "deadline", math.inf):
        raise TimeoutError(f"{where} when its time is over")


def _problem(error: Exception) -> str:
    if isinstance(error, IndexError | struct.error):
        return "more bytes wanted than there are"
    return str(error) or "it is no such message"


def _position(error: Exception) -> int:
    """Return where in the body a decoder was."""
    position, trace = 0, error.__traceback__
    while trace is not None:
        position = trace.tb_frame.f_locals.get("pos", position)
        trace = trace.tb_next
    return position

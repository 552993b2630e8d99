"""A Metadata response field by field, for the engineer who looks for what a broker sent wrong.

Where the bytes are wrong, each mistake that brokers have really made is tried on them: a mistake is
a change of the message's table, and it explains the bytes if the changed table reads all of them.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metadata_source.errors import ProtocolError
from metadata_source.protocol.exact import Reader
from metadata_source.protocol.spec import METADATA_RESPONSE, Array, Field, Length, Message, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHOWN_BYTES = 16
_CONTEXT_BYTES = 16

#: What a capture can have before the body: by version flexible or not, with or without the size.
_HEADERS = {
    False: {4: "the response header", 8: "size and response header"},
    True: {5: "the response header", 9: "size and response header"},
}


def inspect(body: bytes, version: int, show: Callable[[str], None]) -> ProtocolError | None:
    """Show a response field by field: one line each of offset, bytes, path and value. Return the
    error that it ends with, if any.
    """

    def show_value(path: str, start: int, end: int, value: Any) -> None:
        show(f"{start:>9}  {_hex(body[start:end]):<50}  {path} = {_text(value)}")

    try:
        Reader(body, METADATA_RESPONSE, version, show_value).read_message()
    except ProtocolError as error:
        return error
    return None


def explain(body: bytes, error: ProtocolError) -> list[str]:
    """Return lines on where a response is wrong, and which known mistake would explain it."""
    before = body[max(0, error.offset - _CONTEXT_BYTES) : error.offset]
    after = body[error.offset : error.offset + _CONTEXT_BYTES]
    lines = [
        str(error),
        f"bytes before: {before.hex(' ') or '(none)'}",
        f"bytes from {error.offset}: {after.hex(' ') or '(end)'}",
    ]
    explanations = list(explanations_of(body, error.version))
    if len(explanations) == 1:
        lines.append(f"the body decodes if {explanations[0]}")
    elif explanations:
        lines.append("the body decodes if any one of these is so:")
        lines += [f"  {each}" for each in explanations]
    else:
        lines.append("no mistake known of brokers explains it")
    return lines


def explanations_of(body: bytes, version: int) -> Iterator[str]:
    """Return in words each mistake with which the whole body can be read."""
    for words, message in _mistakes(version):
        if _reads(body, message, version):
            yield words
    for size, words in _HEADERS[METADATA_RESPONSE.flexible(version)].items():
        if _reads(body[size:], METADATA_RESPONSE, version):
            yield f"its first {size} bytes, {words}, are left out (--skip {size})"
    for other in range(METADATA_RESPONSE.last_version + 1):
        if other != version and _reads(body, METADATA_RESPONSE, other):
            yield f"it is of version {other}, not {version}"


def _reads(body: bytes, message: Message, version: int) -> bool:
    try:
        Reader(body, message, version).read_message()
    except ProtocolError:
        return False
    return True


def _mistakes(version: int) -> Iterator[tuple[str, Message]]:
    """Return the tables of responses with one mistake, and the mistake in words."""
    flexible = METADATA_RESPONSE.flexible(version)
    fields = dict(_fields(METADATA_RESPONSE.body, ""))
    if flexible:
        arrays = [
            path
            for path, each in fields.items()
            if isinstance(each.type, Array) and each.in_version(version)
        ]
        for length in (Length.INT16, Length.INT32):
            for chosen in ([path] for path in arrays):
                words = (
                    f"the length of {chosen[0]} is an {length.value}, not a varint of length + 1"
                )
                yield words, _with_lengths(chosen, length)
            words = f"the length of every array is an {length.value}, not a varint of length + 1"
            yield words, _with_lengths(arrays, length)
    if fields["cluster_id"].in_version(version):
        yield "controller_id comes before cluster_id", _edited(_controller_first)
    operations = fields["cluster_authorized_operations"]
    if not operations.in_version(version):
        words = (
            f"cluster_authorized_operations is there (it belongs to versions {operations.since} "
            f"to {operations.until})"
        )
        yield words, _edited(_with_cluster_operations)
    if fields["topics.topic_id"].in_version(version):
        yield "topic_id is missing", _edited(_without_topic_id)
    if flexible:
        structs = {"": "the message itself"} | {
            path: f"each entry of {path}"
            for path, each in fields.items()
            if isinstance(each.type, Array) and isinstance(each.type.of, Struct)
        }
        for path, words in structs.items():
            yield (
                f"the section of tagged fields is missing at the end of {words}",
                _without_tags([path]),
            )
        yield "every section of tagged fields is missing", _without_tags(list(structs))


def _fields(struct: Struct, prefix: str) -> Iterator[tuple[str, Field]]:
    for each in struct.fields:
        yield prefix + each.name, each
        if isinstance(each.type, Array) and isinstance(each.type.of, Struct):
            yield from _fields(each.type.of, f"{prefix}{each.name}.")


def _edited(edit: Callable[[str, Struct], Struct]) -> Message:
    """Return the response's table with each struct edited; `edit` takes the struct's path ("" for
    the message) and the struct.
    """
    return replace(METADATA_RESPONSE, body=_edited_struct(METADATA_RESPONSE.body, "", edit))


def _edited_struct(struct: Struct, path: str, edit: Callable[[str, Struct], Struct]) -> Struct:
    fields = []
    for each in struct.fields:
        if isinstance(each.type, Array) and isinstance(each.type.of, Struct):
            entry = _edited_struct(each.type.of, _join(path, each.name), edit)
            fields.append(replace(each, type=replace(each.type, of=entry)))
        else:
            fields.append(each)
    return edit(path, replace(struct, fields=tuple(fields)))


def _with_lengths(paths: list[str], length: Length) -> Message:
    def edit(prefix: str, struct: Struct) -> Struct:
        fields = (
            replace(each, type=replace(each.type, length=length))
            if isinstance(each.type, Array) and _join(prefix, each.name) in paths
            else each
            for each in struct.fields
        )
        return replace(struct, fields=tuple(fields))

    return _edited(edit)


def _without_tags(paths: list[str]) -> Message:
    return _edited(lambda path, struct: replace(struct, tagged=path not in paths))


def _controller_first(path: str, struct: Struct) -> Struct:
    if path:
        return struct
    order = {"cluster_id": "controller_id", "controller_id": "cluster_id"}
    named = {each.name: each for each in struct.fields}
    return replace(
        struct, fields=tuple(named[order.get(each.name, each.name)] for each in struct.fields)
    )


def _with_cluster_operations(path: str, struct: Struct) -> Struct:
    if path:
        return struct
    fields = (
        replace(each, since=0, until=None) if each.name == "cluster_authorized_operations" else each
        for each in struct.fields
    )
    return replace(struct, fields=tuple(fields))


def _without_topic_id(path: str, struct: Struct) -> Struct:
    return replace(
        struct,
        fields=tuple(each for each in struct.fields if (path, each.name) != ("topics", "topic_id")),
    )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _hex(part: bytes) -> str:
    return part[:_SHOWN_BYTES].hex(" ") + (" .." if len(part) > _SHOWN_BYTES else "")


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, range):
        return "1 entry" if len(value) == 1 else f"{len(value)} entries"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, array):
        return str(value.tolist())
    return repr(value)

"""Messages as tables of fields and versions: the one place where field order, version ranges and
nullability stand.

The tables follow Kafka's own message definitions
(``clients/src/main/resources/common/message/Metadata*.json`` for those here), field names in snake
case. How a type is written on the wire is in `encoding`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cache
from typing import Any


class Primitive(enum.Enum):
    """Types without parts."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"


class Length(enum.Enum):
    """How the length of an array is written: an unsigned varint of length + 1 (flexible versions),
    or a signed integer.
    """

    COMPACT = "varint"
    INT32 = "int32"
    INT16 = "int16"


@dataclass(frozen=True, slots=True)
class Array:
    """Entries of one type. `length` overrides the version's own way of writing lengths (no correct
    message needs it).
    """

    of: Primitive | Struct
    length: Length | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One field, present in versions `since` to `until` (both included), null allowed from version
    `nullable` on.

    A field with a `tag` stands in the section of tagged fields, and only where its value is not
    `default`.
    """

    name: str
    type: Primitive | Array | Struct
    since: int = 0
    until: int | None = None
    nullable: int | None = None
    tag: int | None = None
    default: Any = None

    def in_version(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Whether this version allows null."""
        return self.nullable is not None and version >= self.nullable


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Fields in wire order. In flexible versions the section of tagged fields follows, unless
    `tagged` is false (a mistake).

    A struct is equal to itself only: it is a cache key for each entry that is read, and comparing
    tables would take longer.
    """

    fields: tuple[Field, ...]
    tagged: bool = True

    def in_version(self, version: int) -> tuple[Field, ...]:
        """Return the fields without a tag that this version has, in wire order."""
        return _fields(self, version)

    def tagged_in(self, version: int) -> dict[int, Field]:
        """Return this version's fields in the section of tagged fields, by tag, in their order."""
        return _tagged_fields(self, version)


@cache
def _fields(struct: Struct, version: int) -> tuple[Field, ...]:
    return tuple(each for each in struct.fields if each.tag is None and each.in_version(version))


@cache
def _tagged_fields(struct: Struct, version: int) -> dict[int, Field]:
    fields = {
        each.tag: each
        for each in struct.fields
        if each.tag is not None and each.in_version(version)
    }
    return dict(sorted(fields.items()))


@dataclass(frozen=True, slots=True)
class Message:
    """A request or response body, or another message of this encoding: versions 0 to
    `last_version`.

    It is flexible (KIP-482) from version `flexible_since` on, never where that is None. `api_key`
    is as in Kafka's classes: of a coordinator's record its type, -1 of what is neither that nor a
    request.
    """

    name: str
    api_key: int
    last_version: int
    flexible_since: int | None
    body: Struct = field(repr=False)

    def flexible(self, version: int) -> bool:
        """Whether lengths are varints and structs end in tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since


def structs(*fields: Field) -> Array:
    """Return an array of structs with these fields."""
    return Array(Struct(fields))


METADATA_REQUEST = Message(
    name="MetadataRequest",
    api_key=3,
    last_version=13,
    flexible_since=9,
    body=Struct(
        (
            Field(
                "topics",
                Array(
                    Struct(
                        (
                            Field("topic_id", Primitive.UUID, since=10),
                            Field("name", Primitive.STRING, nullable=10),
                        )
                    )
                ),
                nullable=1,
            ),
            Field("allow_auto_topic_creation", Primitive.BOOL, since=4),
            Field("include_cluster_authorized_operations", Primitive.BOOL, since=8, until=10),
            Field("include_topic_authorized_operations", Primitive.BOOL, since=8),
        )
    ),
)

BROKER = Struct(
    (
        Field("node_id", Primitive.INT32),
        Field("host", Primitive.STRING),
        Field("port", Primitive.INT32),
        Field("rack", Primitive.STRING, since=1, nullable=1),
    )
)

PARTITION = Struct(
    (
        Field("error_code", Primitive.INT16),
        Field("partition_index", Primitive.INT32),
        Field("leader_id", Primitive.INT32),
        Field("leader_epoch", Primitive.INT32, since=7),
        Field("replica_nodes", Array(Primitive.INT32)),
        Field("isr_nodes", Array(Primitive.INT32)),
        Field("offline_replicas", Array(Primitive.INT32), since=5),
    )
)

TOPIC = Struct(
    (
        Field("error_code", Primitive.INT16),
        Field("name", Primitive.STRING, nullable=12),
        Field("topic_id", Primitive.UUID, since=10),
        Field("is_internal", Primitive.BOOL, since=1),
        Field("partitions", Array(PARTITION)),
        Field("topic_authorized_operations", Primitive.INT32, since=8),
    )
)

METADATA_RESPONSE = Message(
    name="MetadataResponse",
    api_key=3,
    last_version=13,
    flexible_since=9,
    body=Struct(
        (
            Field("throttle_time_ms", Primitive.INT32, since=3),
            Field("brokers", Array(BROKER)),
            Field("cluster_id", Primitive.STRING, since=2, nullable=2),
            Field("controller_id", Primitive.INT32, since=1),
            Field("topics", Array(TOPIC)),
            Field("cluster_authorized_operations", Primitive.INT32, since=8, until=10),
            Field("error_code", Primitive.INT16, since=13),
        )
    ),
)

"""Client ids and hosts that must not be stored: keyed hashes (HMAC-SHA-256) in their place, in
Arrow columns.

The same value under the same key has the same pseudonym everywhere, so that a crash loop, the same
client and host again and again, still shows. What may hold such a value among other things is left
out, or hashed whole:

- Member ids that brokers give out are the client's id, or its instance id, and a UUID
  (`GroupMetadataManager`): the
  part before
  the UUID is replaced. A member id without a UUID was made by the client, nobody knows of what: it
  is replaced whole.
- User data of classic members (of Kafka Streams, of Connect's workers) and raw bytes hold
  addresses: left out.
- Tags of streams clients, and the host under which one is reached by users.

Group ids, instance ids and racks stay: they are names that history is told by.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.protocol.group_records import BYTES_SHOWN
from metadata_source.references import resolve_secret

if TYPE_CHECKING:
    from collections.abc import Callable

RAW_LEFT_OUT: Final = "raw bytes are left out (clientHashKey)"

_CLIENT: Final = frozenset(
    (
        "classic.members.client_id",
        "classic.members.client_host",
        "member.client_id",
        "member.client_host",
        "member.user_endpoint.host",
        "member.client_tags.value",
        "groups.members.client_id",
        "groups.members.client_host",
    )
)
_MEMBER_ID: Final = frozenset(
    ("member_id", "classic.leader", "classic.members.member_id", "groups.members.member_id")
)
_LEFT_OUT: Final = frozenset(
    (
        "key",
        "value",
        "classic.members.subscription.user_data",
        "classic.members.assignment.user_data",
        "classic.members.subscription_bytes",
        "classic.members.assignment_bytes",
        "member.protocols.subscription.user_data",
        "member.protocols.metadata_bytes",
    )
)
_TOUCHED: Final = tuple(_CLIENT | _MEMBER_ID | _LEFT_OUT)
_NAMED_UUID: Final = re.compile(
    r"(?P<name>.*)-(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})",
    re.DOTALL,
)


class Pseudonyms:
    """Pseudonyms under one key: `h:` and 16 characters, 96 bits."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    @classmethod
    def of_reference(cls, reference: str) -> Pseudonyms:
        """Return those of the key that option `clientHashKey` refers to. Raises OptionsError."""
        return cls(resolve_secret("clientHashKey", reference))

    def of(self, text: str) -> str:
        """Return the pseudonym of a client id or host."""
        digest = hmac.digest(self._key, text.encode(), "sha256")
        return f"h:{urlsafe_b64encode(digest[:12]).decode()}"

    def of_member_id(self, member_id: str) -> str:
        """Return a member id with a pseudonym in place of the client's id in it."""
        if not member_id or _is_uuid(member_id):
            return member_id
        match = _NAMED_UUID.fullmatch(member_id)
        return f"{self.of(match['name'])}-{match['uuid']}" if match else self.of(member_id)

    def of_records(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return decoded records (`columns.group_log.RECORDS`) with pseudonyms; the error of one
        that kept raw bytes says they are gone.
        """
        replaced = pa.RecordBatch.from_arrays(
            [self.of_column(name, records[name]) for name in records.schema.names],
            schema=records.schema,
        )
        had_raw = pc.or_(pc.is_valid(records["key"]), pc.is_valid(records["value"]))
        # Errors of the decoder show some of the bytes.
        said = pc.replace_substring_regex(records["error"], BYTES_SHOWN, "")
        error = pc.if_else(
            had_raw, pc.binary_join_element_wise(said, RAW_LEFT_OUT, "; "), records["error"]
        )
        return replaced.set_column(
            records.schema.names.index("error"), records.schema.field("error"), error
        )

    def of_column(self, path: str, array: pa.Array) -> pa.Array:
        """Return a column of bronze.group_log, or `groups` of bronze.metadata_polls, with
        pseudonyms.

        `path` is the column's name, and inside of one the names of the structs' fields joined by
        dots.
        """
        if path in _LEFT_OUT:
            return pa.nulls(len(array), array.type)
        if path in _CLIENT:
            return _each_once(array, self.of)
        if path in _MEMBER_ID:
            return _each_once(array, self.of_member_id)
        if not any(touched.startswith(f"{path}.") for touched in _TOUCHED):
            return array
        if pa.types.is_list(array.type):
            lists = array.take(pa.array(range(len(array)))) if array.offset else array
            values = self.of_column(path, lists.values)
            return pa.ListArray.from_arrays(
                lists.offsets, values, type=lists.type, mask=lists.is_null()
            )
        fields = list(array.type)
        children = [
            self.of_column(f"{path}.{field.name}", array.field(field.name)) for field in fields
        ]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _is_uuid(text: str) -> bool:
    """Whether a member id is just a random UUID, in either form that clients make (KIP-848)."""
    try:
        made = UUID(bytes=urlsafe_b64decode(f"{text}==")) if len(text) == 22 else UUID(text)
    except ValueError:
        return False
    return made.version == 4 and len(text) in {22, 36}


def _each_once(array: pa.Array, replace: Callable[[str], str]) -> pa.Array:
    """Return the array with its values replaced, each different one worked out once."""
    encoded = array.dictionary_encode()
    replaced = pa.array([replace(text) for text in encoded.dictionary.to_pylist()], array.type)
    return replaced.take(encoded.indices)

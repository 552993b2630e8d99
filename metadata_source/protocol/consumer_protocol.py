"""Messages between the consumers of a classic group and their leader; to the coordinator they are
bytes.

Kafka's rule (``ConsumerProtocol.deserializeVersion`` and what calls it): two bytes are the version;
one that is higher than the highest known is read as that; what stands after the known fields is
left alone.

Some clients claim version 1 and write the fields of version 0 (kafka-go#1156, sarama#2111;
franz-go#493 reads them as is done here): what cannot be read as the version that it claims is read
as version 0, with which each version begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns.group_log import ASSIGNMENTS, SUBSCRIPTIONS
from metadata_source.errors import ProtocolError
from metadata_source.protocol.columnar import arrow_type, read_batch, scattered
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.encoding import NULL
from metadata_source.protocol.group_specs import ASSIGNMENT, SUBSCRIPTION
from metadata_source.protocol.nested_casts import cast_nested, fields_of
from metadata_source.protocol.vectors import leading_int16s

if TYPE_CHECKING:
    from metadata_source.protocol.spec import Message

#: The protocol type of groups whose members speak it (``ConsumerProtocol.PROTOCOL_TYPE``).
PROTOCOL_TYPE = "consumer"


def read_subscriptions(data: pa.BinaryArray) -> pa.StructArray:
    """Return subscriptions, one a row, null for bytes that are none; type: `SUBSCRIPTIONS`.

    `version` is the one that is claimed. `owned_partitions` is null before version 1, `generation`
    and `rack` are null before 2 and 3 and where the consumer has none; all are null where only
    version 0 could be read.
    """
    versions, found = _read(SUBSCRIPTION, data)
    fields = fields_of(found)
    generation = fields["generation_id"]
    known = {
        "version": versions,
        "generation": pc.if_else(pc.equal(generation, NULL), None, generation),
        "rack": fields["rack_id"],
    }
    return pc.if_else(found.is_valid(), cast_nested(fields | known, SUBSCRIPTIONS), None)


def read_assignments(data: pa.BinaryArray) -> pa.StructArray:
    """Return assignments, one a row, null for bytes that are none; type: `ASSIGNMENTS`."""
    versions, found = _read(ASSIGNMENT, data)
    fields = fields_of(found)
    known = {"version": versions, "partitions": fields["assigned_partitions"]}
    return pc.if_else(found.is_valid(), cast_nested(fields | known, ASSIGNMENTS), None)


def read_one(message: Message, data: bytes) -> dict[str, Any] | None:
    """Return what one subscription or assignment says, fields as in its table, None for bytes that
    are none.

    For members that are few and come one by one; `read_subscriptions` and `read_assignments` are
    for those of a log.
    """
    version = int.from_bytes(data[:2], signed=True)
    if len(data) < 2 or version < 0:
        return None
    for as_version in dict.fromkeys((min(version, message.last_version), 0)):
        try:
            return read_values(data, message, as_version, start=2, may_go_on=True)
        except ProtocolError:
            continue
    return None


def _read(message: Message, data: pa.BinaryArray) -> tuple[pa.Array, pa.StructArray]:
    """Return versions and what was read by them, null for bytes that are no such message."""
    versions, _ = leading_int16s(data)
    read_as = np.minimum(versions, message.last_version)
    pieces = []
    for version in range(message.last_version, -1, -1):
        rows = np.flatnonzero(read_as == version)
        if len(rows):
            found, errors = read_batch(
                data.take(pa.array(rows)), message, version, start=2, may_go_on=True
            )
            if version and errors:
                read_as[rows[[*errors]]] = 0
                rows, found = np.delete(rows, [*errors]), found.drop_null()
            pieces.append((rows, found))
    return pa.array(versions), scattered(len(data), arrow_type(message.body), pieces)

"""What consumers of classic groups and their leader tell each other; to the coordinator it is bytes.

Kafka's rule (``ConsumerProtocol.deserializeVersion`` and what calls it): two bytes are the version; one that is higher than the
highest known is read as that; what stands after the known fields is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metadata_source.errors import ProtocolError
from metadata_source.protocol.group_specs import ASSIGNMENT, SUBSCRIPTION
from metadata_source.protocol.values import read_values

if TYPE_CHECKING:
    from metadata_source.protocol.spec import Message

#: The protocol type of groups whose members speak it (``ConsumerProtocol.PROTOCOL_TYPE``).
PROTOCOL_TYPE = "consumer"


def read_subscription(data: bytes) -> dict[str, Any] | None:
    """Return a ``ConsumerProtocolSubscription``, None for bytes that are none: `schemas.bronze.SUBSCRIPTION_STRUCT` as a mapping.

    `owned_partitions` is None before version 1, `generation` and `rack` are None before 2 and 3 and where the consumer has none.
    """
    read = _read(SUBSCRIPTION, data)
    if read is None:
        return None
    version, values = read
    return {
        "version": version,
        "topics": values["topics"],
        "user_data": values["user_data"],
        "owned_partitions": values["owned_partitions"],
        "generation": None if values["generation_id"] == -1 else values["generation_id"],
        "rack": values["rack_id"],
    }


def read_assignment(data: bytes) -> dict[str, Any] | None:
    """Return a ``ConsumerProtocolAssignment``, None for bytes that are none: `schemas.bronze.ASSIGNMENT_STRUCT` as a mapping."""
    read = _read(ASSIGNMENT, data)
    if read is None:
        return None
    version, values = read
    return {"version": version, "partitions": values["assigned_partitions"], "user_data": values["user_data"]}


def _read(message: Message, data: bytes) -> tuple[int, dict[str, Any]] | None:
    version = int.from_bytes(data[:2], signed=True)
    if len(data) < 2 or version < 0:
        return None
    try:
        return version, read_values(data, message, min(version, message.last_version), start=2, may_go_on=True)
    except ProtocolError:
        return None

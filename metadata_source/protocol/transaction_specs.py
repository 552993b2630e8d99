"""Records that transaction coordinators write to ``__transaction_state``, as tables.

They follow Kafka's definitions
(``transaction-coordinator/src/main/resources/common/message/TransactionLog{Key,Value}.json``). The
key's first two bytes are its version, the value's are its own.
"""

from __future__ import annotations

from typing import Final

from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct, structs

KEY: Final = Message(
    "TransactionLogKey",
    api_key=0,
    last_version=0,
    flexible_since=None,
    body=Struct((Field("transactional_id", Primitive.STRING),)),
)
VALUE: Final = Message(
    "TransactionLogValue",
    api_key=0,
    last_version=1,
    flexible_since=1,
    body=Struct(
        (
            Field("producer_id", Primitive.INT64),
            Field("previous_producer_id", Primitive.INT64, since=1, tag=0, default=-1),
            Field("next_producer_id", Primitive.INT64, since=1, tag=1, default=-1),
            Field("producer_epoch", Primitive.INT16),
            Field("next_producer_epoch", Primitive.INT16, since=1, tag=3, default=-1),
            Field("transaction_timeout_ms", Primitive.INT32),
            Field("transaction_status", Primitive.INT8),
            Field(
                "transaction_partitions",
                structs(
                    Field("topic", Primitive.STRING),
                    Field("partition_ids", Array(Primitive.INT32)),
                ),
                nullable=0,
            ),
            Field("transaction_last_update_timestamp_ms", Primitive.INT64),
            Field("transaction_start_timestamp_ms", Primitive.INT64),
            Field("client_transaction_version", Primitive.INT16, since=1, tag=2, default=0),
        )
    ),
)

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD = range(7)
STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""States by `transaction_status`, as Kafka's tools name them. It writes neither of the last two."""

"""The transaction coordinators' log. Its records come to aggregates; only what cannot be read is a
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metadata_source.columns.transaction_log import SCHEMA
from metadata_source.errors import TransactionLogError
from metadata_source.logs.topic.log import TopicLog
from metadata_source.logs.topic.positions import noted_end
from metadata_source.logs.transaction.transactions import Transactions
from metadata_source.options import parse_transaction_log
from metadata_source.protocol.transaction_records import decode_records, is_prepared_late

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from metadata_source.logs.topic.positions import LogExtent, LogPosition, Span
    from metadata_source.options import Cluster, TransactionLogOptions


@dataclass(frozen=True)
class TransactionLog(TopicLog):
    """`__transaction_state`."""

    error = TransactionLogError
    schema = SCHEMA
    aggregated = "counted"
    made_for = "transaction"
    parse = staticmethod(parse_transaction_log)

    options: TransactionLogOptions

    def advance(self, position: LogPosition, seen: LogExtent) -> LogPosition:
        """Return the position some `limit` offsets on, and when the log was known to end there: a
        transaction that nobody ends has no more records.
        """
        following = super().advance(position, seen)
        return noted_end(position, following, seen, self.options.commit_interval_ms)

    def decoder(self, cluster: Cluster) -> Callable[[pa.Array, pa.Array], pa.RecordBatch]:  # noqa: ARG002 - alike in all clusters
        """Return what decodes keys and values of records."""
        return decode_records

    def has_news(self, records: pa.RecordBatch) -> bool:
        """Return whether one of some records prepares the abort of a transaction after its
        time-out: all others are counted once a minute.
        """
        return bool(is_prepared_late(records["value"]).any())

    def aggregates(self, spans: Sequence[Span]) -> Transactions:
        """Return what takes all records of spans that can be read."""
        return Transactions(spans)

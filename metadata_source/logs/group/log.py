"""The coordinators' log. Offset commits, nearly all of it, come to aggregates, others to rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns.group_log import SCHEMA
from metadata_source.errors import GroupLogError
from metadata_source.kinds import REDPANDA
from metadata_source.logs.group.commits import Commits
from metadata_source.logs.topic.log import TopicLog
from metadata_source.options import parse_group_log
from metadata_source.protocol.group_records import decode_records
from metadata_source.protocol.group_specs import REDPANDA_GROUP
from metadata_source.protocol.offset_commits import are_commits
from metadata_source.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metadata_source.logs.topic.positions import Span
    from metadata_source.options import Cluster, GroupLogOptions


@dataclass(frozen=True)
class GroupLog(TopicLog):
    """`__consumer_offsets`."""

    error = GroupLogError
    schema = SCHEMA
    aggregated = "commits"
    made_for = "group"
    parse = staticmethod(parse_group_log)

    options: GroupLogOptions

    def decoder(self, cluster: Cluster) -> Callable[[pa.Array, pa.Array], pa.RecordBatch]:
        """Return what decodes keys and values of a cluster's records, with pseudonyms or not."""
        decode = (
            partial(decode_records, classic=REDPANDA_GROUP)
            if cluster.kind == REDPANDA
            else decode_records
        )
        if self.options.client_hash_key is None:
            return decode
        pseudonyms = Pseudonyms.of_reference(self.options.client_hash_key)
        return lambda keys, values: pseudonyms.of_records(decode(keys, values))

    def has_news(self, records: pa.RecordBatch) -> bool:
        """Return whether one of some records is neither an offset commit nor a marker of a
        transaction: lag and costs of rebalances are made once a minute.
        """
        is_commit = pa.array(are_commits(records["key"]))
        return not pc.all(pc.or_(records["is_control"], is_commit)).as_py()

    def aggregates(self, spans: Sequence[Span]) -> Commits:  # noqa: ARG002 - alike in all
        """Return what takes the offset commits."""
        return Commits(self.options.groups_pattern)

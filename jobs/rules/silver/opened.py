"""The topics of a large cluster that have to be opened: of which something new may be said."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.arrow import rows_of
from jobs.rules.silver.compare import to_look_at
from jobs.rules.silver.enrichments import min_isr_of_changed
from jobs.rules.silver.state import State
from jobs.rules.takes import Take

IS_OPENED, MIN_ISR = "_is_opened", "_min_isr"


@dataclass(frozen=True)
class Opened:
    """The topics of a large cluster that have to be opened.

    `headers`: of polls whose rows of topics are read. `topics`: names, which list so many
    `partitions` in all answers. `min_isr`: the topics whose settings may change, and the highest
    min.insync.replicas that is known of each.
    """

    take: Take
    state: State
    headers: pa.Table
    topics: list[str]
    partitions: int
    min_isr: Mapping[str, int]


def opened(
    take: Take,
    state: State,
    *,
    headers: pa.Table,
    digests: pa.Table,
    topics: pa.Table,
    configs: pa.Table | None = None,
    settings: pa.Table | None = None,
) -> Opened:
    """The topics that have to be opened for a take.

    `headers`: of its polls. `digests`, `configs`: rows of bronze about topics, of each the first,
    and about settings. `topics`, `settings`: live rows of silver. None: no poll tells settings.
    """
    read = [
        poll
        for poll, records in take.polls.items()
        if "topic" in records or poll == take.first_poll
    ]
    headers = headers.filter(pc.is_in(headers["poll_id"], pa.array(read, pa.string())))
    if take.first_poll:
        return Opened(take, state, headers, [], 0, {})
    names = to_look_at(state, headers, digests, topics, take.kind)
    listed = digests.filter(pc.is_in(digests["topic"], names))["partition_count"]
    polls = [poll for poll, records in take.polls.items() if "configs" in records]
    told, known = ([] if rows is None else rows_of(rows) for rows in (configs, settings))
    min_isr = min_isr_of_changed(polls, told, known)
    return Opened(take, state, headers, names.to_pylist(), pc.sum(listed).as_py() or 0, min_isr)


def topics_of(opened: Mapping[str, Opened]) -> pa.Table:
    """cluster, topic, whether it is opened, and min.insync.replicas if that may have changed."""
    rows = [
        (alias, topic, topic in names, each.min_isr.get(topic))
        for alias, each in opened.items()
        for names in [set(each.topics)]
        for topic in names.union(each.min_isr)
    ]
    columns = {"cluster": pa.string(), "topic": pa.string(), IS_OPENED: pa.bool_()}
    schema = pa.schema(columns | {MIN_ISR: pa.int32()})
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def known_topics(topics: pa.Table, opened: Mapping[str, Opened]) -> pa.Table:
    """Live rows of topics, of large clusters those that are opened."""
    kept = [topics.filter(pc.invert(pc.is_in(topics["cluster"], pa.array(opened, pa.string()))))]
    for alias, each in opened.items():
        of_cluster = topics.filter(pc.equal(topics["cluster"], alias))
        names = pa.array(each.topics, pa.string())
        kept.append(of_cluster.filter(pc.is_in(of_cluster["topic"], names)))
    return pa.concat_tables(kept)

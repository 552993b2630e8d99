"""Which live rows the replay of some records needs."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.log.image import IN_EFFECT
from jobs.rules.log.records import BROKER, REMOVE_TOPIC, TOPIC
from schemas import silver

_PARTITIONS = silver.PARTITION_REGISTRATIONS.full_name
_BY_PARTITION = {
    table.full_name
    for table in (
        silver.PARTITION_REGISTRATIONS,
        silver.PARTITION_SNAPSHOTS,
        silver.REASSIGNMENTS,
        silver.PARTITION_ELR,
    )
}
_BY_TOPIC = {silver.TOPIC_SNAPSHOTS.full_name, silver.TOPIC_CONFIGS.full_name}
_CONFIGS = silver.CONFIGS.full_name


def needed(live: Mapping[str, pa.Table], records: pa.Table) -> dict[str, pa.Table]:
    """Of live rows, by table, those that may matter to a fold of `records`, in which the log tells
    and knows all.

    Partitions that records name, or that have a replica on a broker that they name; topics, with
    all that is theirs, that they name or of whose partitions one is needed. A topic that is removed
    is needed whole, and so is one that polls do not ask for and that gets partitions; all topics
    are where a setting of brokers changes. Of a snapshot, after a truncation, and of a
    ClearElrRecord about all topics, all rows are needed.
    """
    topics = _told(records, "topic")
    tell_all = (
        pc.equal(records["record"], "snapshot"),
        pc.equal(records["went"], "truncated"),
        pc.equal(topics["topic"], ""),
    )
    if any(pc.any(each).as_py() for each in tell_all):
        return dict(live)
    partitions = live[_PARTITIONS]
    configs = _told(records, "config")
    is_of_topic = pc.equal(configs["resource_type"], TOPIC)
    removed = topics.filter(pc.equal(topics["type"], REMOVE_TOPIC))["topic_id"]
    told = [_told(records, name) for name in ("partition", "partition_change")]
    # Of a topic that polls do not ask for, partitions alone tell the name and how many there are.
    added = told[0]["topic_id"]
    unasked = added.filter(
        pc.invert(pc.is_in(added, _set(live[silver.TOPIC_SNAPSHOTS.full_name]["topic_id"])))
    )
    whole = pc.or_(
        pc.is_in(partitions["topic_id"], _set(removed, unasked)),
        pc.is_in(
            partitions["topic"], _set(topics["topic"], configs["resource_name"].filter(is_of_topic))
        ),
    )
    named = pc.is_in(_keys(partitions), _set(*map(_keys, told)))
    brokers = _set(*(_told(records, name)["broker_id"] for name in ("broker", "broker_change")))
    needed = partitions.filter(
        pc.or_(pc.or_(whole, named), _have_one_of(partitions["replicas"], brokers))
    )

    ids = _set(needed["topic_id"], removed, *(each["topic_id"] for each in told))
    names = _set(
        needed["topic"],
        topics["topic"],
        configs["resource_name"].filter(is_of_topic),
        _named(live, ids),
    )
    of_brokers = pc.and_(
        pc.equal(configs["resource_type"], BROKER), pc.is_in(configs["name"], pa.array(IN_EFFECT))
    )
    is_each_topic = bool(pc.any(of_brokers).as_py())
    keys = _set(_places(needed))

    def of(table: str, rows: pa.Table) -> pa.Table:
        if table in _BY_PARTITION:
            return rows.filter(pc.is_in(_places(rows), keys))
        if table in _BY_TOPIC and not is_each_topic:
            return rows.filter(pc.is_in(rows["topic"], names))
        if table == _CONFIGS and not is_each_topic:
            is_other = pc.not_equal(rows["resource_type"], TOPIC)
            return rows.filter(pc.or_(is_other, pc.is_in(rows["resource_name"], names)))
        return rows

    return {table: of(table, rows) for table, rows in live.items()}


def _told(records: pa.Table, name: str) -> pa.Table:
    """The things that records tell in a column, beside the type of the record."""
    rows = records.filter(pc.is_valid(records[name]))
    things = pa.Table.from_struct_array(rows[name].combine_chunks())
    return things.append_column("type", rows["type"])


def _named(live: Mapping[str, pa.Table], ids: pa.Array) -> pa.ChunkedArray:
    """The names of topics with these ids."""
    topics = live[silver.TOPIC_SNAPSHOTS.full_name]
    return topics["topic"].filter(pc.is_in(topics["topic_id"], ids))


def _keys(partitions: pa.Table) -> pa.ChunkedArray:
    return _joined(partitions["topic_id"], partitions["partition"])


def _places(rows: pa.Table) -> pa.ChunkedArray:
    return _joined(rows["topic"], rows["partition"])


def _joined(names: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(names, numbers.cast(pa.string()), "/")


def _set(*columns: pa.ChunkedArray) -> pa.Array:
    """The values of columns of one type, once each."""
    chunks: Iterable[pa.Array] = (chunk for column in columns for chunk in column.chunks)
    return pc.unique(pa.chunked_array(list(chunks), columns[0].type)).drop_null()


def _have_one_of(lists: pa.ChunkedArray, values: pa.Array) -> pa.Array:
    """Whether each list has one of some values."""
    column = lists.combine_chunks()
    parents = pc.list_parent_indices(column).filter(pc.is_in(column.flatten(), values))
    return pc.is_in(pa.array(range(len(column)), parents.type), pc.unique(parents))

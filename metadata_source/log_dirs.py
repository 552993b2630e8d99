"""The log directories of brokers: which are online, how full their volumes are, and what lies in
them. A broker answers for its own alone, so all are asked, a few at a time.

Of hundreds of thousands of replicas little is kept: of each directory its total each time; of its
topics all with a broker's first answer of a UTC day, after a start of the recorder, and once the
directory is back online, and then those that changed; of partitions the largest of a broker, and
those that changed. Replicas that move to another directory are kept each time.

An answer counts as kept. If it is lost on the way, the next answer that has all topics of a
directory has its sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source import questions
from metadata_source.columns.polls import LOG_DIR_SIZE
from metadata_source.errors import PollError
from metadata_source.images import covered
from metadata_source.many_brokers import Shares, at_addresses, undone
from metadata_source.outcomes import outcome_of
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from metadata_source.many_brokers import Broker, Time, Visits
    from metadata_source.options import TopicFilter

Mask = npt.NDArray[np.bool_]

LARGEST: Final = 200
"""So many partitions of a broker are kept each time that they differ by a hundredth."""
MOST_CHANGED: Final = 100
"""So many more, and so many topics, are kept of an answer at most: those that changed most. The
others come with the next answers.
"""
CHANGED_BY: Final = 0.05
"""A size that differs by more than this part of the one that was kept last has changed."""
_LARGEST_CHANGED_BY: Final = 0.01
"""The same of the largest. If each byte counted, they would be half of all that bronze has."""
_AT_ONCE: Final = 8
_KEY: Final = ("log_dir", "topic", "partition", "is_future")
_NONE: Final = -1
"""In place of a partition in the row of a topic: rows without a value never meet in a join."""
_REPLICAS: Final = pa.schema(
    [
        pa.field("log_dir", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("is_future", pa.bool_()),
        pa.field("size_bytes", pa.int64()),
        pa.field("offset_lag", pa.int64()),
    ]
)
_ALL_OF_THEM: Final = pc.ScalarAggregateOptions(skip_nulls=False)
"""A sum of which a part is not known is not known."""


@dataclass
class KeptSizes:
    """Sizes of all replicas and topics of one cluster that were kept last, by broker: what the next
    answer is compared with.
    """

    of: dict[int, _Kept] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)
    """When a broker was asked last, of `time.monotonic`."""
    dirs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """The directories of its last answer."""


class _Kept(NamedTuple):
    day: date
    sizes: pa.Table
    """Key, and `kept`: the size that was kept last; of what never was, the first one."""
    online: frozenset[str]
    """Its directories that were online."""


class LogDirs(NamedTuple):
    """The answers of all brokers, in the order of their ids.

    `dirs`: the directories of each, as bronze has them; None of a broker that did not answer.
    `lasting`: the same, of such a broker as it answered last; None of one that never did. `sizes`:
    lists of `LOG_DIR_SIZE`, as long. `missing`: in one line which brokers did not answer.
    """

    brokers: list[int]
    dirs: list[list[dict[str, Any]] | None]
    lasting: list[list[dict[str, Any]] | None]
    sizes: pa.ListArray
    missing: str | None


class _Answer(NamedTuple):
    dirs: list[dict[str, Any]]
    usable: dict[str, int | None]
    """Usable bytes of the volume of each directory. They are no part of `dirs`, whose digest is the
    same while nothing happens.
    """
    replicas: pa.Table


def described(
    visits: Visits, brokers: Iterable[Broker], topic_filter: TopicFilter, known: KeptSizes
) -> LogDirs:
    """Return what all brokers say of their directories; `known` is brought up to it. Raises
    PollError if none answers.
    """
    # Those that were asked the longest ago come first, also if they did not answer: each has its
    # part of the time alone.
    ordered = sorted(brokers, key=lambda each: known.asked.get(each.broker_id, -inf))
    at = at_addresses(ordered, lambda broker: broker.address)
    # A few at a time: the answers of all at once might not fit in memory.
    shares = Shares(visits.deadline, len(ordered), min(_AT_ONCE, len(at)))

    def ask(those: Sequence[Broker]) -> list[tuple[Broker, _Answer | PollError]]:
        waiting = range(len(those), 0, -1)
        return [
            (broker, _asked(visits, broker, shares.next(here), known))
            for broker, here in zip(those, waiting, strict=True)
        ]

    answered = [*chain.from_iterable(side_by_side(at, ask, "log directories", _AT_ONCE))]
    answered.sort(key=lambda each: each[0].broker_id)
    errors = [answer for _, answer in answered if isinstance(answer, PollError)]
    if errors and len(errors) == len(answered):
        # Whoever may not ask one may ask none: that of others which hang is no news.
        raise min(errors, key=lambda error: error.kind != "authorization")
    day = datetime.now(UTC).date()
    dirs: list[list[dict[str, Any]] | None] = []
    sizes: list[pa.Table] = []
    for broker, answer in answered:
        if isinstance(answer, PollError):
            dirs.append(None)
            sizes.append(pa.schema(LOG_DIR_SIZE).empty_table())
        else:
            before = known.of.get(broker.broker_id)
            found, known.of[broker.broker_id] = kept(before, answer, topic_filter, day)
            dirs.append(answer.dirs)
            known.dirs[broker.broker_id] = answer.dirs
            sizes.append(found)
    listed = {broker.broker_id for broker, _ in answered}
    known.of = {each: of for each, of in known.of.items() if each in listed}
    known.asked = {each: asked for each, asked in known.asked.items() if each in listed}
    known.dirs = {each: of for each, of in known.dirs.items() if each in listed}
    return LogDirs(
        [broker.broker_id for broker, _ in answered],
        dirs,
        [known.dirs.get(broker.broker_id) for broker, _ in answered],
        _lists(sizes),
        undone(map(outcome_of, errors), len(answered), "brokers did not tell their directories"),
    )


def _lists(tables: Sequence[pa.Table]) -> pa.ListArray:
    rows = pa.concat_tables(tables)
    columns = [rows[each.name].combine_chunks() for each in LOG_DIR_SIZE]
    ends = np.cumsum([0, *map(len, tables)])
    structs = pa.StructArray.from_arrays(columns, fields=list(LOG_DIR_SIZE))
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), structs, type=pa.list_(pa.field("element", LOG_DIR_SIZE))
    )


def _asked(visits: Visits, broker: Broker, given: Time, known: KeptSizes) -> _Answer | PollError:
    answer: _Answer | PollError
    try:
        given.check()
    except PollError as error:
        return PollError(error.kind, f"broker {broker}: {error.problem}")
    try:
        answer = read(visits.ask(broker.address, questions.log_dirs(), given.until))
    except PollError as error:
        answer = PollError(error.kind, f"broker {broker}: {given.problem(broker, error)}")
    # Of one broker, so threads are not in each other's way.
    known.asked[broker.broker_id] = given.until - given.seconds
    return answer


def read(response: Any) -> _Answer:
    """Return an answer's directories, and its replicas by directory, topic and number. Raises
    PollError.
    """
    questions.check(questions.log_dirs_error(response))
    dirs = sorted(response.results, key=lambda each: str(each.log_dir))
    rows = [
        (directory.log_dir, topic.name, each)
        for directory in dirs
        for topic in directory.topics
        for each in topic.partitions
    ]
    columns = [
        [log_dir for log_dir, _, _ in rows],
        [topic for _, topic, _ in rows],
        [each.partition_index for _, _, each in rows],
        [each.is_future_key for _, _, each in rows],
        [_known(each.partition_size) for _, _, each in rows],
        [_known(each.offset_lag) if each.is_future_key else None for _, _, each in rows],
    ]
    replicas = pa.table(columns, schema=_REPLICAS)
    names = [each.log_dir for each in dirs]
    if None in names or len(set(names)) < len(names):
        raise PollError("odd_answer", "it lists a log directory twice, or without a name")
    lacks = pc.or_(pc.is_null(replicas["topic"]), pc.less(replicas["partition"], 0))
    if pc.any(lacks).as_py() or len(replicas.group_by(_KEY).aggregate([])) < len(replicas):
        raise PollError("odd_answer", "it lists a replica twice, or without a name or a number")
    found = [
        {
            "log_dir": each.log_dir,
            "error_code": each.error_code,
            "total_bytes": _known(getattr(each, "total_bytes", None)),
        }
        for each in dirs
    ]
    usable = {each.log_dir: _known(getattr(each, "usable_bytes", None)) for each in dirs}
    return _Answer(found, usable, replicas.sort_by([(name, "ascending") for name in _KEY]))


def _known(number: int | None) -> int | None:
    """Kafka has -1 for what it does not know."""
    return None if number is None or number < 0 else number


def kept(
    before: _Kept | None, answer: _Answer, topic_filter: TopicFilter, day: date
) -> tuple[pa.Table, _Kept]:
    """Return the rows of a broker's answer that are kept, in the schema `LOG_DIR_SIZE`, and what
    the next answer is compared with.
    """
    online = [each["log_dir"] for each in answer.dirs if not each["error_code"]]
    # One that failed while its broker described it may list some.
    is_online = pc.is_in(answer.replicas["log_dir"], pa.array(online, pa.string()))
    replicas = answer.replicas.filter(is_online)
    usable = pa.array([answer.usable[each] for each in online], pa.int64())
    is_current = pc.invert(replicas["is_future"])
    totals = _totals(replicas, online).append_column("usable_bytes", usable)
    mask = covered(replicas["topic"], topic_filter)
    polled = replicas if mask is None else replicas.filter(mask)
    is_of_current = is_current if mask is None else is_current.filter(mask)
    future = polled.filter(pc.invert(is_of_current))
    current = polled.filter(is_of_current)
    now = pa.concat_tables([_topics(current), current.append_column("replicas", _ones(current))])
    joined = _compared(now, None if before is None else before.sizes, online)
    # Of these all topics are kept: what is not among them lies there no more.
    known = frozenset[str]() if before is None or before.day != day else before.online
    whole = pa.array([each for each in online if each not in known], pa.string())
    chosen, left_out = _chosen(joined, pc.is_in(joined["log_dir"], whole).to_numpy())
    sizes = joined["size_bytes"]
    baseline = pc.if_else(pa.array(chosen), sizes, joined["kept"])
    # What is not known never replaces what was.
    baseline = pc.coalesce(baseline, joined["kept"])
    # What is gone, and was kept as such, needs no comparison any more.
    is_over = pc.and_(pc.equal(joined["replicas"].fill_null(1), 0), pc.equal(baseline, 0))
    after = joined.select(_KEY).append_column("kept", baseline).filter(pc.invert(is_over))
    totals = totals.append_column("is_whole", pc.is_in(totals["log_dir"], whole))
    rows = [
        totals.append_column("changes_left_out", pa.array([left_out] * len(totals), pa.int32())),
        joined.filter(pa.array(chosen)),
        future.append_column("replicas", _ones(future)),
    ]
    return pa.concat_tables(map(_as_kept, rows)), _Kept(day, after, frozenset(online))


def _as_kept(rows: pa.Table) -> pa.Table:
    """Return rows in the schema `LOG_DIR_SIZE`, with null where a total has no value."""
    columns = []
    for each in LOG_DIR_SIZE:
        if each.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), each.type))
        elif each.name == "partition":
            partition = rows["partition"].cast(each.type)
            is_total = pc.equal(partition, _NONE)
            columns.append(pc.if_else(is_total, pa.scalar(None, each.type), partition))
        else:
            columns.append(rows[each.name].cast(each.type))
    return pa.table(columns, schema=pa.schema(LOG_DIR_SIZE))


def _ones(rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int64()), len(rows))


def _totals(replicas: pa.Table, online: Sequence[str]) -> pa.Table:
    """Return a row of each directory that is online: of its replicas, and of those that move to
    it, which take room, too.
    """
    sums = replicas.group_by("log_dir").aggregate(
        [("size_bytes", "sum", _ALL_OF_THEM), ("is_future", "sum"), ("topic", "count")]
    )
    of = {row["log_dir"]: row for row in sums.to_pylist()}
    nothing = {"size_bytes_sum": 0, "is_future_sum": 0, "topic_count": 0}
    rows = [of.get(each, nothing) for each in online]
    return pa.table(
        {
            "log_dir": pa.array(online, pa.string()),
            "size_bytes": pa.array([row["size_bytes_sum"] for row in rows], pa.int64()),
            "replicas": pa.array([row["topic_count"] for row in rows], pa.int64()),
            "futures": pa.array([row["is_future_sum"] for row in rows], pa.int32()),
            "is_future": pa.array([False] * len(rows)),
        }
    )


def _topics(current: pa.Table) -> pa.Table:
    """Return a row of each topic of each directory."""
    found = current.group_by(["log_dir", "topic"]).aggregate(
        [("size_bytes", "sum", _ALL_OF_THEM), ("partition", "count")]
    )
    return pa.table(
        {
            "log_dir": found["log_dir"],
            "topic": found["topic"],
            "partition": pa.repeat(pa.scalar(_NONE, pa.int32()), len(found)),
            "is_future": pa.repeat(pa.scalar(False), len(found)),
            "size_bytes": found["size_bytes_sum"],
            "offset_lag": pa.nulls(len(found), pa.int64()),
            "replicas": found["partition_count"].cast(pa.int64()),
        }
    )


def _compared(now: pa.Table, before: pa.Table | None, online: Sequence[str]) -> pa.Table:
    """Return rows with `kept`, the size to compare with, and `is_new`: there was none.

    What was there before and is not any more has the size 0 and no replicas, unless its directory
    does not say what is in it.
    """
    if before is None:
        found = now.append_column("kept", now["size_bytes"])
        return found.append_column("is_new", pa.array(np.zeros(len(now), dtype=np.bool_)))
    joined = now.join(before, [*_KEY], join_type="full outer")
    is_known = pc.is_in(joined["log_dir"], pa.array(online, pa.string()))
    is_gone = pc.and_(pc.is_null(joined["replicas"]), is_known)
    for name in ("size_bytes", "replicas"):
        place = joined.schema.get_field_index(name)
        filled = pc.if_else(is_gone, pa.scalar(0, pa.int64()), joined[name])
        joined = joined.set_column(place, name, filled)
    # What is new had nothing before.
    joined = joined.append_column("is_new", pc.is_null(joined["kept"]))
    place = joined.schema.get_field_index("kept")
    joined = joined.set_column(place, "kept", joined["kept"].fill_null(0))
    return joined.sort_by([(name, "ascending") for name in _KEY])


def _chosen(joined: pa.Table, is_whole: Mask) -> tuple[Mask, int]:
    """Return which rows are kept, and how many that changed are left out. `is_whole`: the rows of
    directories all of whose topics are kept.
    """
    size = joined["size_bytes"].fill_null(_NONE).to_numpy()
    before = joined["kept"].fill_null(_NONE).to_numpy()
    is_known = size >= 0
    change = np.where(is_known, np.abs(size - before), 0)
    has_changed = change > CHANGED_BY * np.maximum(before, 0)
    of_partition = joined["partition"].to_numpy() != _NONE
    differs = change > _LARGEST_CHANGED_BY * np.maximum(before, 0)
    chosen = _most(size, of_partition & is_known, LARGEST) & (differs | is_whole)
    # Topics without a known size are kept, too.
    chosen |= is_whole & ~of_partition & joined["replicas"].is_valid().to_numpy()
    chosen |= _moved_empty(joined, of_partition & (size == 0) & (before == 0))
    left_out = 0
    for those in (of_partition, ~of_partition):
        others = has_changed & those & ~chosen
        most = _most(change, others, MOST_CHANGED)
        left_out += int(others.sum() - most.sum())
        chosen |= most
    return chosen, left_out


def _moved_empty(joined: pa.Table, is_empty: Mask) -> Mask:
    """Return which of the empty replicas have gone from one directory and are new in another one:
    no size tells that they have moved. Of so many at most as other changes.
    """
    gone, new = (
        np.flatnonzero(is_empty & each.to_numpy())
        for each in (pc.equal(joined["replicas"], 0).fill_null(False), joined["is_new"])
    )
    found = np.zeros(len(is_empty), dtype=np.bool_)
    if len(gone) and len(new):
        names = ("topic", "partition")
        to, since = (
            {tuple(row.values()): at for at, row in zip(those, rows.to_pylist(), strict=True)}
            for those in (new, gone)
            for rows in (joined.select(names).take(pa.array(those)),)
        )
        for each in sorted(to.keys() & since.keys())[:MOST_CHANGED]:
            found[[to[each], since[each]]] = True
    return found


def _most(values: npt.NDArray[np.int64], among: Mask, number: int) -> Mask:
    """Return which of some have the greatest values, so many at most."""
    places = np.flatnonzero(among)
    if len(places) > number:
        places = places[np.argsort(-values[places], kind="stable")[:number]]
    found = np.zeros(len(values), dtype=np.bool_)
    found[places] = True
    return found

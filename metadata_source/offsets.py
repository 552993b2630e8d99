"""Offsets that groups have committed, and the ends of the logs that these are of: asked of
coordinators, then of leaders.

1. Which groups there are: every broker is asked by ListGroups, as in `groups`, unless `groups`
   listed them just before.
2. What each group has committed: the broker that listed it is asked by OffsetFetch, for many groups
   each (before Kafka 3.0 for one).
3. The ends of these partitions: their leaders, as the poll was answered, are asked by ListOffsets,
   for the latest, then for the earliest; of those that a group is behind on then for the last
   stable offset.

The steps share the time that is left evenly. Share groups have no offsets of this kind. A
coordinator leaves out commits of topics that the user may not describe.

`log_end` is the high watermark: the end of a log for who reads all records. For who reads committed
ones only it ends where the first open transaction begins: `last_stable`.

Commits are asked before the ends, and neither falls by itself: so `log_end` - `committed_offset` is
the most that the group was behind at any time from `commit_read_before` to `ends_read_after`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source import questions
from metadata_source.columns import TIME
from metadata_source.columns.polls import OFFSET
from metadata_source.errors import PollError
from metadata_source.images import covered
from metadata_source.lineage import NO_EPOCH
from metadata_source.many_brokers import Time, at_addresses, undone
from metadata_source.options.readers import whole_name
from metadata_source.outcomes import outcome_of
from metadata_source.partition_keys import Numbers, key_of, keys_of, parts_of, places
from metadata_source.questions import EARLIEST, LATEST, check, commits
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from metadata_source.groups import Coordinated
    from metadata_source.many_brokers import Broker, Visits
    from metadata_source.options import TopicFilter
    from metadata_source.questions import Timed

_GROUPS_A_REQUEST: Final = 50
_PARTITIONS_A_REQUEST: Final = 10_000
_FIRST_OF_MANY_GROUPS: Final = 8
"""OffsetFetch's first version of that kind."""
_SHARE: Final = "share"
_NO_PARTITION: Final = "not among the partitions of the poll's answer"
_NO_LEADER: Final = "it has no leader"
_NO_COMMIT: Final = 2**63 - 1
_NOT_SAID: Final = "the leader left it out of its answer"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose offsets, of what: those groups whose whole id matches `groups_pattern` (None: all), of
    the topics that the filter covers. `leaders`: topic, partition and leader of each partition of
    the poll's answer.
    """

    leaders: pa.Table
    topic_filter: TopicFilter
    groups_pattern: str | None = None


class GroupOffsets(NamedTuple):
    """Structs `OFFSET`, sorted by group, topic and partition; and in one line what could not be
    told, None if all was.

    A group without a commit is one struct without a topic, and so is one whose commits could not be
    told, with the reason. `stable`: partitions whose last stable offset was asked and told, by
    topic and number; None where it is the end of the log.
    """

    offsets: pa.StructArray
    missing: str | None
    stable: dict[tuple[str, int], int | None]


def group_offsets(
    visits: Visits, coordinated: Iterable[Coordinated], brokers: Iterable[Broker], wanted: Wanted
) -> GroupOffsets:
    """Return the offsets of all groups, and the ends of their logs. If something is not told, it is
    null and has the reason.
    """
    coordinated = list(coordinated)
    commits = _commits(visits, coordinated, wanted)
    ends = _ends(visits, commits.table, brokers, wanted.leaders)
    missing = [
        undone(
            filter(None, commits.errors),
            len(commits.errors),
            "groups could not be asked for their commits",
        ),
        undone(
            ends.reasons[ends.reasons != None],  # noqa: E711
            len(ends.keys),
            "partitions have no ends of their log",
        ),
    ]
    simple = frozenset[str]().union(*(each.simple for each in coordinated))
    return GroupOffsets(
        _structs(commits.table, ends, simple),
        "; ".join(filter(None, missing)) or None,
        _stable(ends),
    )


def _reason(code: int) -> str | None:
    """Return what an error code came to; None for none."""
    try:
        check(code)
    except PollError as error:
        return outcome_of(error)
    return None


# --- what groups have committed ---

_COMMITS: Final = pa.schema(
    OFFSET.field(name)
    for name in (
        *("group_id", "topic", "partition", "committed_offset", "committed_leader_epoch", "error"),
        *("commit_read_after", "commit_read_before"),
    )
)


class _Asked(NamedTuple):
    """A group asked for its commits, and the bounds of when they were read; or why not."""

    error: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class _Commits(NamedTuple):
    """Rows of all groups (`_COMMITS`), sorted, and the errors of those that did not answer."""

    table: pa.Table
    errors: list[str | None]


@dataclass(slots=True)
class _Answers:
    """The answers of one coordinator."""

    groups: dict[str, _Asked] = field(default_factory=dict)
    tables: list[pa.Table] = field(default_factory=list)


def _commits(visits: Visits, coordinated: Iterable[Coordinated], wanted: Wanted) -> _Commits:
    given = Time.share(visits, 2)
    by_broker = [
        (each.broker, ids) for each in coordinated if (ids := _wanted_groups(each, wanted))
    ]
    at = at_addresses(by_broker, lambda item: item[0].address)
    answered = side_by_side(
        at, lambda those: [_asked(visits, broker, ids, given) for broker, ids in those], "commits"
    )
    groups: dict[str, _Asked] = {}
    tables = [_COMMITS.empty_table()]
    for answers in chain.from_iterable(answered):
        # Two brokers list a group that moves meanwhile: one of them tells its commits.
        better = {
            each: asked
            for each, asked in answers.groups.items()
            if groups.get(each, _UNASKED).error is not None
        }
        groups |= better
        tables += [
            table.filter(pc.is_in(table["group_id"], pa.array(better, pa.string())))
            for table in answers.tables
        ]
    rows = pa.concat_tables(tables)
    is_covered = covered(rows["topic"], wanted.topic_filter)
    rows = rows if is_covered is None else rows.filter(is_covered)
    bare = groups.keys() - set(pc.unique(rows["group_id"]).to_pylist())
    rows = pa.concat_tables(
        [rows, _without_topics({group_id: groups[group_id] for group_id in bare})]
    )
    keys = [(name, "ascending") for name in ("group_id", "topic", "partition")]
    return _Commits(rows.sort_by(keys), [asked.error for asked in groups.values()])


_UNASKED: Final = _Asked("not asked")


def _wanted_groups(coordinated: Coordinated, wanted: Wanted) -> list[str]:
    """Return ids in a random order. If time runs out, the next poll may ask those that are left."""
    ids = [group_id for group_id, type_ in coordinated.groups.items() if type_ != _SHARE]
    if wanted.groups_pattern is not None:
        names = pa.array(ids, pa.string())
        ids = names.filter(
            pc.match_substring_regex(names, whole_name(wanted.groups_pattern))
        ).to_pylist()
    random.shuffle(ids)
    return ids


def _without_topics(groups: Mapping[str, _Asked]) -> pa.Table:
    rows = [
        {
            "group_id": each,
            "error": asked.error,
            "commit_read_after": asked.after,
            "commit_read_before": asked.before,
        }
        for each, asked in groups.items()
    ]
    return pa.Table.from_pylist(rows, _COMMITS)


def _asked(visits: Visits, broker: Broker, ids: Sequence[str], given: Time) -> _Answers:
    answers = _Answers()
    for begin in range(0, len(ids), _GROUPS_A_REQUEST):
        _ask(visits, broker, ids[begin : begin + _GROUPS_A_REQUEST], given, answers)
    return answers


def _ask(
    visits: Visits, broker: Broker, ids: Sequence[str], given: Time, answers: _Answers
) -> None:
    """Ask until each group was told: an answer may be of one of them alone."""
    while ids:
        try:
            given.check()
            groups, table = _read_commits(
                visits.ask(broker.address, commits(ids), given.until), ids
            )
        except PollError as error:
            if error.kind == "too_large" and len(ids) > 1:
                middle = len(ids) // 2
                _ask(visits, broker, ids[:middle], given, answers)
                ids = ids[middle:]
                continue
            reason = outcome_of(
                PollError(error.kind, f"broker {broker}: {given.problem(broker, error)}")
            )
            answers.groups |= dict.fromkeys(ids, _Asked(reason))
            return
        answers.groups |= groups
        answers.tables.append(table)
        ids = [each for each in ids if each not in groups]


def _read_commits(answer: Timed, asked: Sequence[str]) -> tuple[dict[str, _Asked], pa.Table]:
    """Return each group that was asked, and their commits, by an answer. Raises PollError."""
    response = answer.response
    # Before that version an answer is of the first group alone, and does not name it.
    of_groups = response.groups if response.version >= _FIRST_OF_MANY_GROUPS else [response]
    groups = [each.group_id for each in of_groups] if of_groups is response.groups else [asked[0]]
    group_of_topic = np.repeat(np.arange(len(groups)), [len(each.topics) for each in of_groups])
    topics = [topic for each in of_groups for topic in each.topics]
    names = pa.array([each.name for each in topics], pa.string())
    # An index of a group and a topic for each partition.
    topic = np.repeat(np.arange(len(names)), [len(each.partitions) for each in topics])
    group = group_of_topic[topic]
    partition, offset, epoch, code = _columns(
        topics, "partition_index", "committed_offset", "committed_leader_epoch", "error_code"
    )
    encoded = names.dictionary_encode()
    keys = key_of(group * len(names) + encoded.indices.to_numpy()[topic], partition)
    if len(set(groups)) < len(groups) or (partition < 0).any() or len(np.unique(keys)) < len(keys):
        raise PollError(
            "odd_answer", "its answer lists a group or a partition twice, or a negative one"
        )
    error = np.full(len(topic), None, dtype=object)
    for each in np.unique(code):
        error[code == each] = _reason(int(each))
    is_known = (offset >= 0) & (code == 0)
    table = pa.table(
        [
            pa.array(groups, pa.string()).take(pa.array(group)),
            names.take(pa.array(topic)),
            partition.astype(np.int32),
            pa.array(offset, mask=~is_known),
            pa.array(epoch.astype(np.int32), mask=~is_known | (epoch < 0)),
            pa.array(error, pa.string()),
            pa.repeat(pa.scalar(answer.sent_at, TIME), len(topic)),
            pa.repeat(pa.scalar(answer.received_at, TIME), len(topic)),
        ],
        schema=_COMMITS,
    )
    answered = {
        group_id: _Asked(_reason(each.error_code), answer.sent_at, answer.received_at)
        for group_id, each in zip(groups, of_groups, strict=True)
        if group_id in asked
    }
    if not answered:
        raise PollError("broker_error", "the coordinator left it out of its answer")
    # A partition without an offset has no commit: it expired.
    is_kept = pc.and_(
        pc.is_in(table["group_id"], pa.array(answered, pa.string())),
        pa.array(is_known | (code != 0)),
    )
    return answered, table.filter(is_kept)


def _columns(topics: Sequence[Any], *names: str) -> Iterator[Numbers]:
    """Yield what the partitions of an answer's topics have in these fields."""
    for name in names:
        of_field = attrgetter(name)
        yield np.array(
            [of_field(each) for topic in topics for each in topic.partitions], dtype=np.int64
        )


# --- the ends of their logs ---


@dataclass(slots=True)
class _Ends:
    """Of partitions, by their keys in ascending order: the least committed offset, the ends of
    their logs and last stable offsets, -1 where they are not known or not asked, the bounds of when
    they were read (µs since 1970), and why one is not known, None if all are.
    """

    topics: pa.StringArray
    keys: Numbers
    committed: Numbers
    start: Numbers
    end: Numbers
    stable: Numbers
    after: Numbers
    before: Numbers
    reasons: npt.NDArray[np.object_]

    @classmethod
    def unknown(cls, topics: pa.StringArray, keys: Numbers, committed: Numbers) -> _Ends:
        start, end, stable, after, before = np.full((5, len(keys)), -1, dtype=np.int64)
        reasons = np.full(len(keys), None, dtype=object)
        return cls(topics, keys, committed, start, end, stable, after, before, reasons)


def _ends(visits: Visits, commits: pa.Table, brokers: Iterable[Broker], leaders: pa.Table) -> _Ends:
    """Ask leaders for the ends of the logs of all partitions with a commit."""
    given = Time.share(visits, 1)
    topics = pc.unique(commits["topic"].drop_null()).sort()
    wanted = keys_of(commits, topics)
    keys, each_key = np.unique(wanted[wanted >= 0], return_inverse=True)
    committed = np.full(len(keys), _NO_COMMIT)
    # Where no commit is known nobody is known to be behind.
    offsets = commits["committed_offset"].fill_null(_NO_COMMIT).to_numpy()[wanted >= 0]
    np.minimum.at(committed, each_key, offsets)
    ends = _Ends.unknown(topics, keys, committed)
    known = keys_of(leaders, topics)
    place, is_there = places(known, ends.keys)
    leader = np.where(is_there, leaders["leader"].to_numpy()[place] if len(known) else -1, -1)
    ends.reasons[leader < 0] = _NO_LEADER
    ends.reasons[~is_there] = _NO_PARTITION
    at_broker = {broker.broker_id: broker for broker in brokers}
    items = []
    for each in np.unique(leader[leader >= 0]).tolist():
        rows = np.flatnonzero(leader == each)
        if each in at_broker:
            items.append((at_broker[each], rows))
        else:
            ends.reasons[rows] = (
                f"its leader, broker {each}, is not among the brokers of the poll's answer"
            )
    at = at_addresses(items, lambda item: item[0].address)

    def ask(those: Iterable[tuple[Broker, Numbers]]) -> None:
        for broker, rows in those:
            _ask_ends(visits, broker, rows, given, ends)

    # Each writes what it finds into rows of its own.
    side_by_side(at, ask, "ends")
    return ends


def _ask_ends(visits: Visits, broker: Broker, rows: Numbers, given: Time, ends: _Ends) -> None:
    for begin in range(0, len(rows), _PARTITIONS_A_REQUEST):
        part = rows[begin : begin + _PARTITIONS_A_REQUEST]
        # The later end first: it is nearer to the commits.
        for which, offsets in (
            (partial(questions.ends, when=LATEST), ends.end),
            (partial(questions.ends, when=EARLIEST), ends.start),
            (partial(questions.ends, when=LATEST, committed=True), ends.stable),
        ):
            if offsets is ends.stable:
                part = part[ends.end[part] > ends.committed[part]]
                if not len(part):
                    continue
            try:
                given.check()
                answer = visits.ask(broker.address, which(_named(ends, part)), given.until)
                offset, code = _read_end(answer, ends.topics, ends.keys[part])
            except PollError as error:
                if offsets is ends.stable and error.kind == "unsupported_version":
                    break  # Before Kafka 0.11 there are no transactions.
                ends.reasons[part] = outcome_of(
                    PollError(error.kind, f"broker {broker}: {given.problem(broker, error)}")
                )
                break
            offsets[part] = np.where(code == 0, offset, -1)
            ends.reasons[part[(offsets[part] < 0) & (code == 0)]] = _NOT_SAID
            for each in np.unique(code[code != 0]):
                ends.reasons[part[code == each]] = _reason(int(each))
            if offsets is ends.end:
                ends.after[part] = pa.scalar(answer.sent_at, TIME).value
            ends.before[part] = pa.scalar(answer.received_at, TIME).value


def _named(ends: _Ends, part: Numbers) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return partitions as `questions.ends` asks for them: of each topic, without epochs."""
    keys = ends.keys[part]
    topic, partition = parts_of(keys)
    begins = np.flatnonzero(np.diff(topic, prepend=-1))
    names = ends.topics.take(pa.array(topic[begins])).to_pylist()
    return [
        (name, [(each, NO_EPOCH) for each in those.tolist()])
        for name, those in zip(names, np.split(partition, begins[1:]), strict=True)
    ]


def _stable(ends: _Ends) -> dict[tuple[str, int], int | None]:
    """Return the last stable offsets that were told, None where they are the ends of the logs."""
    told = np.flatnonzero(ends.stable >= 0)
    if not len(told):
        return {}
    # It is asked after the end: so it may be beyond.
    return {
        (name, partition): offset if offset < end else None
        for (name, partition), offset, end in zip(
            ((name, number) for name, each in _named(ends, told) for number, _ in each),
            ends.stable[told].tolist(),
            ends.end[told].tolist(),
            strict=True,
        )
    }


def _read_end(answer: Timed, topics: pa.StringArray, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """Return each wanted partition's offset and error; -1 and 0 if absent. Raises PollError."""
    answered = answer.response.topics
    names = pc.index_in(
        pa.array([each.name for each in answered], pa.string()), value_set=topics
    ).fill_null(-1)
    topic = np.repeat(names.to_numpy(), [len(each.partitions) for each in answered])
    partition, offset, code = _columns(answered, "partition_index", "offset", "error_code")
    keys = key_of(topic, partition)
    if (partition < 0).any() or len(np.unique(keys)) < len(keys):
        raise PollError("odd_answer", "its answer lists a partition twice, or a negative one")
    place, is_there = places(keys, wanted)
    if not len(keys):
        return np.full(len(wanted), -1), np.zeros(len(wanted), dtype=np.int64)
    return np.where(is_there, offset[place], -1), np.where(is_there, code[place], 0)


def _structs(commits: pa.Table, ends: _Ends, simple: Collection[str]) -> pa.StructArray:
    place, is_there = places(ends.keys, keys_of(commits, ends.topics))

    def of_ends(values: Numbers, data_type: pa.DataType) -> pa.Array:
        found = values[place] if len(values) else np.full(len(place), -1)
        return pa.array(found, mask=~is_there | (found < 0)).cast(data_type)

    reasons = pa.array(ends.reasons, pa.string()).take(pa.array(place, mask=~is_there))
    columns = {
        "is_simple": pc.is_in(commits["group_id"], pa.array(simple, pa.string())).combine_chunks(),
        "log_start": of_ends(ends.start, pa.int64()),
        "log_end": of_ends(ends.end, pa.int64()),
        "last_stable": of_ends(ends.stable, pa.int64()),
        "ends_read_after": of_ends(ends.after, TIME),
        "ends_read_before": of_ends(ends.before, TIME),
        "error": pc.coalesce(commits["error"].combine_chunks(), reasons),
    }
    children = [
        columns[each.name] if each.name in columns else commits[each.name].combine_chunks()
        for each in OFFSET
    ]
    return pa.StructArray.from_arrays(children, fields=list(OFFSET))

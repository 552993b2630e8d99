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
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import TIME
from metadata_source.columns.polls import OFFSET
from metadata_source.ends import Ends, ask_ends, columns, reason_of, stable
from metadata_source.errors import PollError
from metadata_source.images import covered
from metadata_source.many_brokers import Time, at_addresses, undone
from metadata_source.options.readers import whole_name
from metadata_source.outcomes import outcome_of
from metadata_source.partition_keys import Numbers, key_of, keys_of, places
from metadata_source.questions import commits
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from metadata_source.groups import Coordinated
    from metadata_source.many_brokers import Broker, Visits
    from metadata_source.options import TopicFilter
    from metadata_source.questions import Timed

_GROUPS_A_REQUEST: Final = 50
_FIRST_OF_MANY_GROUPS: Final = 8
"""OffsetFetch's first version of that kind."""
_SHARE: Final = "share"
_NO_COMMIT: Final = 2**63 - 1


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
        stable(ends),
    )


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
    partition, offset, epoch, code = columns(
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
        error[code == each] = reason_of(int(each))
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
        group_id: _Asked(reason_of(each.error_code), answer.sent_at, answer.received_at)
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


# --- the ends of their logs ---


def _ends(visits: Visits, commits: pa.Table, brokers: Iterable[Broker], leaders: pa.Table) -> Ends:
    """Ask leaders for the ends of the logs of all partitions with a commit."""
    given = Time.share(visits, 1)
    topics = pc.unique(commits["topic"].drop_null()).sort()
    wanted = keys_of(commits, topics)
    keys, each_key = np.unique(wanted[wanted >= 0], return_inverse=True)
    committed = np.full(len(keys), _NO_COMMIT)
    # Where no commit is known nobody is known to be behind.
    offsets = commits["committed_offset"].fill_null(_NO_COMMIT).to_numpy()[wanted >= 0]
    np.minimum.at(committed, each_key, offsets)
    ends = Ends.unknown(topics, keys, committed)
    ask_ends(visits, ends, brokers, leaders, given)
    return ends


def _structs(commits: pa.Table, ends: Ends, simple: Collection[str]) -> pa.StructArray:
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

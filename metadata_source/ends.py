"""The ends of logs, asked of the leaders of partitions by ListOffsets, brokers side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source import questions
from metadata_source.columns import TIME
from metadata_source.errors import PollError
from metadata_source.lineage import NO_EPOCH
from metadata_source.many_brokers import at_addresses
from metadata_source.outcomes import outcome_of
from metadata_source.partition_keys import Numbers, key_of, keys_of, parts_of, places
from metadata_source.questions import EARLIEST, LATEST, check
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metadata_source.many_brokers import Broker, Time, Visits
    from metadata_source.questions import Question, Timed
    from metadata_source.stable_offsets import Partition

_PARTITIONS_A_REQUEST: Final = 10_000
_NO_PARTITION: Final = "not among the partitions of the poll's answer"
_NO_LEADER: Final = "it has no leader"
_NOT_SAID: Final = "the leader left it out of its answer"
_QUESTIONS: Final[Mapping[str, Callable[..., Question]]] = {
    "end": partial(questions.ends, when=LATEST),
    "start": partial(questions.ends, when=EARLIEST),
    "stable": partial(questions.ends, when=LATEST, committed=True),
}
ALL: Final = ("end", "start", "stable")
"""The later end first: it is nearer to the commits."""


def reason_of(code: int) -> str | None:
    """Return what an error code came to; None for none."""
    try:
        check(code)
    except PollError as error:
        return outcome_of(error)
    return None


def columns(topics: Sequence[Any], *names: str) -> Iterator[Numbers]:
    """Yield what the partitions of an answer's topics have in these fields."""
    for name in names:
        of_field = attrgetter(name)
        yield np.array(
            [of_field(each) for topic in topics for each in topic.partitions], dtype=np.int64
        )


@dataclass(slots=True)
class Ends:
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
    def unknown(cls, topics: pa.StringArray, keys: Numbers, committed: Numbers) -> Ends:
        """Return ends of which nothing is known yet."""
        start, end, stable, after, before = np.full((5, len(keys)), -1, dtype=np.int64)
        reasons = np.full(len(keys), None, dtype=object)
        return cls(topics, keys, committed, start, end, stable, after, before, reasons)


def ask_ends(
    visits: Visits,
    ends: Ends,
    brokers: Iterable[Broker],
    leaders: pa.Table,
    given: Time,
    *,
    which: Sequence[str] = ALL,
) -> None:
    """Ask leaders for the ends of these logs. `leaders`: topic, partition and leader. `which`: of
    the names in `Ends`, in the order of asking.
    """
    known = keys_of(leaders, ends.topics)
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
            _ask(visits, broker, rows, given, ends, which=which)

    # Each writes what it finds into rows of its own.
    side_by_side(at, ask, "ends")


def _ask(
    visits: Visits,
    broker: Broker,
    rows: Numbers,
    given: Time,
    ends: Ends,
    *,
    which: Sequence[str],
) -> None:
    for begin in range(0, len(rows), _PARTITIONS_A_REQUEST):
        part = rows[begin : begin + _PARTITIONS_A_REQUEST]
        for name in which:
            offsets = getattr(ends, name)
            if offsets is ends.stable:
                part = part[ends.end[part] > ends.committed[part]]
                if not len(part):
                    continue
            try:
                given.check()
                answer = visits.ask(
                    broker.address, _QUESTIONS[name](_named(ends, part)), given.until
                )
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
                ends.reasons[part[code == each]] = reason_of(int(each))
            if offsets is ends.end:
                ends.after[part] = pa.scalar(answer.sent_at, TIME).value
            ends.before[part] = pa.scalar(answer.received_at, TIME).value


def _named(ends: Ends, part: Numbers) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return partitions as `questions.ends` asks for them: of each topic, without epochs."""
    if not len(part):
        return []
    keys = ends.keys[part]
    topic, partition = parts_of(keys)
    begins = np.flatnonzero(np.diff(topic, prepend=-1))
    names = ends.topics.take(pa.array(topic[begins])).to_pylist()
    return [
        (name, [(each, NO_EPOCH) for each in those.tolist()])
        for name, those in zip(names, np.split(partition, begins[1:]), strict=True)
    ]


def _read_end(answer: Timed, topics: pa.StringArray, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """Return each wanted partition's offset and error; -1 and 0 if absent. Raises PollError."""
    answered = answer.response.topics
    names = pc.index_in(
        pa.array([each.name for each in answered], pa.string()), value_set=topics
    ).fill_null(-1)
    topic = np.repeat(names.to_numpy(), [len(each.partitions) for each in answered])
    partition, offset, code = columns(answered, "partition_index", "offset", "error_code")
    keys = key_of(topic, partition)
    if (partition < 0).any() or len(np.unique(keys)) < len(keys):
        raise PollError("odd_answer", "its answer lists a partition twice, or a negative one")
    place, is_there = places(keys, wanted)
    if not len(keys):
        return np.full(len(wanted), -1), np.zeros(len(wanted), dtype=np.int64)
    return np.where(is_there, offset[place], -1), np.where(is_there, code[place], 0)


def stable(ends: Ends) -> dict[Partition, int | None]:
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


def stable_offsets(
    visits: Visits, brokers: Iterable[Broker], partitions: pa.Table, given: Time
) -> tuple[dict[Partition, int | None], dict[Partition, str]]:
    """Return the last stable offsets of partitions, None where they are the ends of the logs, and
    why others could not be told. `partitions`: topic, partition and leader.
    """
    topics = pc.unique(partitions["topic"].cast(pa.string()).drop_null()).sort()
    keys = np.unique(keys_of(partitions, topics))
    keys = keys[keys >= 0]
    ends = Ends.unknown(topics, keys, np.full(len(keys), -1))
    ask_ends(visits, ends, brokers, partitions, given, which=("end", "stable"))
    untold = np.flatnonzero(ends.stable < 0)
    names = [(name, number) for name, each in _named(ends, untold) for number, _ in each]
    reasons = [each or _NOT_SAID for each in ends.reasons[untold].tolist()]
    return stable(ends), dict(zip(names, reasons, strict=True))

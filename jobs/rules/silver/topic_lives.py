"""Topics as answers show them, and so when a topic is there, when it is believed to be gone, and
why.

A topic absent from two accepted polls ends, as of the first of them: `gone` (inferred: deleted),
`unauthorized` (error 29), or `not_polled` (the filter no longer covers it). One whose name comes
back with another topic id ends at once: `recreated`. So does one without an id whose leader epochs
have fallen (inferred). One absent from a single poll never went away. Its partitions end with it.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Header, Observation, Row, State
from metadata_source.kafka_constants import (
    LEADER_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    TRUSTED_EPOCHS_VERSION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from metadata_source.options.readers import whole_name
from metadata_source.protocol.oddities import LISTS

_STATE = ("topic_id", "error_code", "leader", "leader_epoch", "replicas", "isr", "offline_replicas")
"""The columns of a partition's state."""

GONE, UNAUTHORIZED, NOT_POLLED, RECREATED = "gone", "unauthorized", "not_polled", "recreated"

ENDED_IDS = 8
"""So many replaced ids are kept of each name: a broker may be cut off while several come."""


@dataclass(frozen=True)
class Said:
    """One topic as an answer shows it.

    `absence`: why it counts as missing (gone | unauthorized), None when it is there. `state`: its
    columns, None where the answer does not tell. `partitions`: their states by number.
    """

    absence: str | None = None
    state: Row = field(default_factory=dict)
    partitions: Mapping[int, Row] = field(default_factory=dict)
    digest: str | None = None


@dataclass(frozen=True)
class Answer:
    """Topics as an answer shows them. One not named is as before or, in a key frame, absent."""

    is_key_frame: bool = False
    topics: Mapping[str, Said] = field(default_factory=dict)

    def then(self, later: "Answer") -> "Answer":
        """This answer and a later one of the same batch as one."""
        return (
            later
            if later.is_key_frame
            else Answer(self.is_key_frame, {**self.topics, **later.topics})
        )


def answer_of(header: Header, rows: Iterable[Mapping[str, Any]]) -> Answer:
    """The answer of a good poll. `rows`: of bronze, about topics; a large topic has several."""
    chunks = defaultdict(list)
    for row in rows:
        chunks[row["topic"]].append(row)
    trusted = (header["api_version"] or 0) >= TRUSTED_EPOCHS_VERSION
    return Answer(
        bool(header["is_key_frame"]),
        {topic: _said(each, trusted) for topic, each in chunks.items()},
    )


def _said(chunks: list[Mapping[str, Any]], epochs_are_trusted: bool) -> Said:
    row = chunks[0]
    error_code, count, topic_id, digest = (
        row["error_code"],
        row["partition_count"],
        row["topic_id"],
        row["digest"],
    )
    if not row["present"] or error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return Said(GONE)
    if error_code == TOPIC_AUTHORIZATION_FAILED:
        return Said(UNAUTHORIZED)
    state = {"topic_id": topic_id, "error_code": error_code, "is_internal": row["is_internal"]}
    # An error in place of partitions tells no count.
    state["partition_count"] = count if error_code == 0 or count else None
    partitions = {
        each["partition"]: {
            **each,
            "topic_id": topic_id,
            "leader_epoch": each["leader_epoch"] if epochs_are_trusted else None,
            "isr": in_order(each["isr"]),
            "offline_replicas": in_order(each["offline_replicas"]),
        }
        for chunk in chunks
        for each in chunk["partitions"] or ()
    }
    # Digests of two versions of the algorithm count as different.
    return Said(None, state, partitions, digest and f"{row['digest_version']}:{digest.hex()}")


def in_order(numbers: list[int] | None) -> list[int] | None:
    """A set as silver keeps it; None where it is not told."""
    return None if numbers is None else sorted(numbers)


def is_another(topic: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether a name stands for another topic than before; an unknown id is taken for the same."""
    return (
        None not in (topic["topic_id"], known["topic_id"])
        and topic["topic_id"] != known["topic_id"]
    )


def asked_for(topic_filter: str | None, topics: Collection[str]) -> set[str]:
    """Those of `topics` that a poll with this filter (as in bronze: null, or JSON) asks for."""
    if topic_filter is None:
        return set(topics)
    asked = json.loads(topic_filter)
    if "topics" in asked:
        return set(asked["topics"]).intersection(topics)
    # As the poller matches, with RE2: Python reads some of the same patterns otherwise, or not at
    # all.
    names = pa.array(topics, pa.string())
    return set(
        names.filter(pc.match_substring_regex(names, whole_name(asked["pattern"]))).to_pylist()
    )


def is_guess(told: Mapping[str, Any]) -> bool:
    """Whether the leader is a guess: one of Redpanda's, named with error 5 (no leader)."""
    return bool(told["error_code"] == LEADER_NOT_AVAILABLE and told["leader"] >= 0)


def odd_lists(told: Mapping[str, Any]) -> frozenset[str]:
    """The lists of a partition that cannot be meant, with a broker twice or with a negative id:
    they are unknown.

    If the replicas are, nothing can be said of which of them are in sync, or offline.
    """
    lists = {name: told[name] if told[name] is not None else () for name in LISTS}
    odd = {
        name for name, each in lists.items() if len(each) > len({*each}) or min(each, default=0) < 0
    }
    return frozenset(LISTS if "replicas" in odd else odd)


class TopicLives:
    """The topics of one cluster and their partitions; its state keeps which are missing, and the
    digests.

    `nothing`: the columns of partitions that mean nothing.
    """

    def __init__(self, topics: Intervals, partitions: Intervals, state: State) -> None:
        self.topics, self.partitions, self._state = topics, partitions, state
        self.nothing: frozenset[str] = frozenset()
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        for topic, partition in partitions.open:
            self._numbers[topic].add(partition)

    def has_fallen(self, topic: str, said: Said) -> bool:
        """Whether an epoch fell, and no topic id says that this is another topic."""
        known = self.topics.open.get((topic,))
        if known is None or said.absence or is_another(said.state, known):
            return False
        return any(epoch < before for before, epoch in self._epochs(topic, said))

    def has_ended(self, topic: str, said: Said) -> bool:
        """Whether it is a topic that another one of its name replaced. Ids are random
        (``Uuid.randomUuid``) and never used again, so only an old image shows it.
        """
        return said.absence is None and said.state["topic_id"] in self._state.ended_ids.get(
            topic, ()
        )

    def is_made_again(self, topic: str, said: Said) -> bool:
        """Whether a topic without an id, neither known nor said, has fallen so that it must be
        another one (inferred).

        Epochs begin at 0 and never fall while a topic lives. So all of them are 0, or lower than
        before. Those that go with a guessed leader are guessed, too.
        """
        known = self.topics.open.get((topic,))
        if known is None or {said.state.get("topic_id"), known["topic_id"]} != {None}:
            return False
        if any(map(is_guess, said.partitions.values())):
            return False
        is_all = all(epoch == 0 or epoch < before for before, epoch in self._epochs(topic, said))
        return is_all and self.has_fallen(topic, said)

    def shows_another(self, topic: str, said: Said) -> bool:
        """Whether a known name stands for another topic than before."""
        known = self.topics.open.get((topic,))
        return (
            known is not None
            and not said.absence
            and (is_another(said.state, known) or self.is_made_again(topic, said))
        )

    def _epochs(self, topic: str, said: Said) -> Iterator[tuple[int, int]]:
        """The leader epochs of a topic's partitions, as known and as said, where both are told."""
        for number, partition in said.partitions.items():
            row, epoch = self.partitions.open.get((topic, number)), partition["leader_epoch"]
            if row is not None and row["leader_epoch"] is not None and epoch is not None:
                yield row["leader_epoch"], epoch

    def take(
        self, answer: Answer, topic_filter: str | None, now: Observation, earlier: Observation
    ) -> None:
        """Bring topics up to an accepted answer. `earlier`: since when some are missing."""
        absent = self._absent(answer, topic_filter)
        for topic, reason in absent.items():
            self._state.topic_digests.pop(topic, None)
            if topic in self._state.missing:
                self._end(topic, reason, earlier)
        for topic, said in answer.topics.items():
            if said.absence is None:
                self._show(topic, said, now, earlier if topic in self._state.missing else now)
        self._state.missing = {
            topic: reason for topic, reason in absent.items() if (topic,) in self.topics.open
        }

    def forget(self, now: Observation) -> None:
        """Let go of what partitions that the answer did not show are known for and that means
        nothing any more.

        Topics that are missing may have ended before.
        """
        for key, row in list(self.partitions.open.items()):
            if key[0] not in self._state.missing and any(
                row[name] is not None for name in self.nothing
            ):
                self.partitions.show(key, dict.fromkeys(_STATE), now, nothing=self.nothing)

    def _absent(self, answer: Answer, topic_filter: str | None) -> dict[str, str]:
        """The open topics that the answer does not show, and why."""
        said, known = answer.topics, self.topics.open
        unnamed = (
            dict.fromkeys((topic for (topic,) in known), GONE)
            if answer.is_key_frame
            else self._state.missing
        )
        absent = {topic: reason for topic, reason in unnamed.items() if topic not in said}
        absent |= {
            topic: of.absence for topic, of in said.items() if of.absence and (topic,) in known
        }
        asked = asked_for(topic_filter, absent)
        return {
            topic: reason if reason == UNAUTHORIZED else GONE if topic in asked else NOT_POLLED
            for topic, reason in absent.items()
        }

    def _show(self, topic: str, said: Said, now: Observation, absent_since: Observation) -> None:
        if self.shows_another(topic, said):
            self._replace(topic, said.state["topic_id"], absent_since)
        self.topics.show((topic,), said.state, now)
        if said.state["error_code"] == 0:
            self._end_partitions(topic, said.state["partition_count"] or 0, GONE, now)
        self._numbers[topic].update(said.partitions)
        for number, told in said.partitions.items():
            state, nothing = self._meant(told)
            self.partitions.show((topic, number), state, now, nothing=nothing)
        self._state.topic_digests.pop(topic, None)
        if said.digest is not None:
            self._state.topic_digests[topic] = said.digest

    def _meant(self, told: Row) -> tuple[Row, frozenset[str]]:
        """A partition as history keeps it, of one in an answer; columns that mean nothing."""
        nothing = self.nothing | odd_lists(told)
        if is_guess(told):
            told = told | {"leader": None, "leader_epoch": None}
        return told | dict.fromkeys(nothing), nothing

    def _replace(self, topic: str, topic_id: str | None, observation: Observation) -> None:
        """End a topic, for another one has its name."""
        ended = [*self._state.ended_ids.get(topic, ()), self.topics.open[topic,]["topic_id"]]
        self._end(topic, RECREATED, observation)
        # Believed at last, an id that had ended has not.
        if ids := [each for each in ended if each not in (None, topic_id)]:
            self._state.ended_ids[topic] = tuple(ids[-ENDED_IDS:])

    def _end(self, topic: str, reason: str, observation: Observation) -> None:
        self._state.ended_ids.pop(topic, None)
        self.topics.end((topic,), reason, observation)
        self._end_partitions(topic, 0, reason, observation)

    def _end_partitions(
        self, topic: str, first: int, reason: str, observation: Observation
    ) -> None:
        for number in [number for number in self._numbers[topic] if number >= first]:
            self._numbers[topic].discard(number)
            self.partitions.end((topic, number), reason, observation)

"""When a topic is there, when it is believed to be gone, and why.

A topic absent from two accepted polls ends, as of the first of them: `gone` (inferred: deleted), `unauthorized` (error
29), or `not_polled` (the filter no longer covers it). One whose name comes back with another topic id ends at once:
`recreated`. One absent from a single poll never went away. Its partitions end with it.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.silver.answers import GONE, NOT_POLLED, RECREATED, UNAUTHORIZED, Answer, Said, is_another
from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Place
from metadata_source.options import whole_name


def asked_for(topic_filter: str | None, topics: Collection[str]) -> set[str]:
    """Those of `topics` that a poll with this filter (as in bronze: null, or JSON) asks for."""
    if topic_filter is None:
        return set(topics)
    asked = json.loads(topic_filter)
    if "topics" in asked:
        return set(asked["topics"]).intersection(topics)
    # As the poller matches, with RE2: Python reads some of the same patterns otherwise, or not at all.
    names = pa.array(topics, pa.string())
    return set(names.filter(pc.match_substring_regex(names, whole_name(asked["pattern"]))).to_pylist())


class TopicLives:
    """The topics of one cluster and their partitions; `missing` and `digests` as in State."""

    def __init__(
        self, topics: Intervals, partitions: Intervals, missing: Mapping[str, str], digests: Mapping[str, str]
    ) -> None:
        self.topics, self.partitions = topics, partitions
        self.missing, self.digests = missing, dict(digests)
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        for topic, partition in partitions.open:
            self._numbers[topic].add(partition)

    def take(self, answer: Answer, topic_filter: str | None, now: Place, earlier: Place | None) -> None:
        """Bring the topics up to an accepted answer. `earlier`: the place of the accepted poll before it, if any."""
        absent = self._absent(answer, topic_filter)
        for topic, reason in absent.items():
            self.digests.pop(topic, None)
            if topic in self.missing and earlier is not None:
                self._end(topic, reason, earlier)
        for topic, said in answer.topics.items():
            if said.absence is None:
                self._show(topic, said, now, earlier)
        self.missing = {topic: reason for topic, reason in absent.items() if (topic,) in self.topics.open}

    def _absent(self, answer: Answer, topic_filter: str | None) -> dict[str, str]:
        """The open topics that the answer does not show, and why."""
        said, known = answer.topics, self.topics.open
        unnamed = dict.fromkeys((topic for (topic,) in known), GONE) if answer.is_key_frame else self.missing
        absent = {topic: reason for topic, reason in unnamed.items() if topic not in said}
        absent |= {topic: of.absence for topic, of in said.items() if of.absence and (topic,) in known}
        asked = asked_for(topic_filter, absent)
        return {
            topic: reason if reason == UNAUTHORIZED else GONE if topic in asked else NOT_POLLED
            for topic, reason in absent.items()
        }

    def _show(self, topic: str, said: Said, now: Place, earlier: Place | None) -> None:
        known = self.topics.open.get((topic,))
        if known is not None and is_another(said.state, known):
            self._end(topic, RECREATED, earlier if earlier is not None and topic in self.missing else now)
        self.topics.show((topic,), said.state, now)
        if said.state["error_code"] == 0:
            count = said.state["partition_count"] or 0
            self._end_partitions(topic, [number for number in self._numbers[topic] if number >= count], GONE, now)
        self._numbers[topic].update(said.partitions)
        for number, state in said.partitions.items():
            self.partitions.show((topic, number), state, now)
        self.digests.pop(topic, None)
        if said.digest is not None:
            self.digests[topic] = said.digest

    def _end(self, topic: str, reason: str, place: Place) -> None:
        self.topics.end((topic,), reason, place)
        self._end_partitions(topic, sorted(self._numbers[topic]), reason, place)

    def _end_partitions(self, topic: str, numbers: Iterable[int], reason: str, place: Place) -> None:
        for number in numbers:
            self._numbers[topic].discard(number)
            self.partitions.end((topic, number), reason, place)

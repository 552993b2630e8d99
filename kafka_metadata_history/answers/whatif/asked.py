"""The state of a cluster as its brokers tell it now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Partition, Quorum
from metadata_source.kafka_constants import LISTENER_NOT_FOUND
from metadata_source.kinds import ISR, KINDS, LEADER, REPLICAS
from metadata_source.outcomes import NOT_SUPPORTED, is_answered
from metadata_source.questions import MIN_ISR, UNCLEAN
from metadata_source.quorum import VOTER_CAUGHT_UP_MS
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metadata_source.now import CaughtUp, Now


def state_of(name: str, kind: str, now: Now) -> tuple[Cluster, list[str]]:
    """Return the state, and what is lacking in it: a clause each. If anything is lacking, nobody
    may say that a loss does no harm.
    """
    metadata = now.metadata
    level = now.poll.elr_version_level
    has_elr = None if level is None else level > 0
    answered = {each: _by_topic(now, each) for each in ("configs", "reassignments", "elr")}
    if has_elr is False:
        answered["elr"] = {}
    brokers = {row["broker_id"]: Broker(row["rack"]) for row in metadata.brokers.to_pylist()}
    fenced = now.answers["fenced"].rows
    for row in fenced.values[0] if fenced else ():
        brokers.setdefault(row["broker_id"], Broker(row["rack"], is_live=False))
    partitions = [_partition(row, answered) for row in metadata.partitions.to_pylist()]
    levels = Levels(now.poll.metadata_version_level, highest=now.poll.metadata_version_highest)
    quorum = None if now.quorum is None else _quorum(now.quorum)
    state = Cluster(name, brokers, partitions, quorum, levels, has_elr)
    return state, [*_lacks(state, kind, now)]


def _by_topic(now: Now, kind: str) -> dict[str, Any] | None:
    """The rows of one question's answer, by topic; None: nothing is known."""
    rows = now.answers[kind].rows
    return None if rows is None else dict(zip(rows.topics or (), rows.values, strict=True))


def _partition(row: Mapping[str, Any], answered: Mapping[str, dict[str, Any] | None]) -> Partition:
    topic, number = row["topic"], row["partition"]

    def of(question: str, name: str) -> Sequence[int] | None:
        by_topic = answered[question]
        if by_topic is None:
            return None
        entries = by_topic.get(topic, ())
        return next((each[name] for each in entries if each["partition"] == number), ())

    settings = dict((answered["configs"] or {}).get(topic) or ())
    min_isr = settings.get(MIN_ISR, {}).get("value") or ""
    unclean = settings.get(UNCLEAN, {}).get("value")
    return Partition(
        topic,
        number,
        None if row["error_code"] == LISTENER_NOT_FOUND else row["leader"],
        _meant(row["replicas"]),
        _meant(row["isr"]),
        of("elr", "elr"),
        of("reassignments", "adding"),
        of("reassignments", "removing"),
        int(min_isr) if min_isr.isdecimal() else None,
        {"true": True, "false": False}.get(unclean),
    )


def _meant(brokers: Sequence[int]) -> Sequence[int] | None:
    """The list; None for one that cannot be meant, as history has it."""
    is_odd = len(set(brokers)) < len(brokers) or any(each < 0 for each in brokers)
    return None if is_odd else brokers


def _quorum(of: CaughtUp) -> Quorum:
    behind = None
    if of.lags_ms is not None:
        lags_ms = of.lags_ms
        behind = frozenset(each for each in of.voters if lags_ms[each] > VOTER_CAUGHT_UP_MS)
    return Quorum(of.leader, of.voters, behind)


def _lacks(of: Cluster, kind: str, now: Now) -> Iterator[str]:
    odd = [each for each in (LEADER, REPLICAS, ISR) if each in KINDS[kind].not_meaningful]
    if odd:
        yield f"{', '.join(odd)}: {KINDS[kind].not_meaningful[odd[0]]}"
    if not of.partitions:
        yield "topics: none was shown to this user"
    topics = now.metadata.topics
    errors = topics.filter(pc.not_equal(topics["error_code"], 0))
    if errors.num_rows:
        first = errors.slice(0, 1).to_pylist()[0]
        which = f"such as {first['topic']} (error {first['error_code']})"
        yield f"{counted(errors.num_rows, 'topic')} answered with an error, {which}"
    for question, answer in now.answers.items():
        # Metadata lists who is not fenced. Without ELR nobody is elected from it.
        is_needless = (question == "fenced" and answer.outcome == NOT_SUPPORTED) or (
            question == "elr" and of.has_elr is False
        )
        if not is_needless and not is_answered(answer.outcome):
            yield f"{question}: {answer.outcome}"
    if of.has_elr is None:
        yield "whether eligible leader replicas are in force"
    if of.quorum is None:
        yield f"quorum: {now.outcome}"
    elif of.quorum.leader == -1:
        yield "quorum: no controller is active"

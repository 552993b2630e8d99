"""One cluster while a round is folded: polls are judged one after the other, and accepted ones become history."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from jobs.rules.silver import enrichments
from jobs.rules.silver.acceptance import ANSWERED, FAILED, REFUSED, are_believed, is_stale, outcome
from jobs.rules.silver.answers import Answer, answer_of
from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Answered, Header, Place, Poll, Row, State
from jobs.rules.silver.topic_lives import TopicLives
from schemas import silver

LEVELS = ("metadata_version_level", "elr_version_level")

Records = Mapping[str, list[Mapping[str, Any]]]
"""The rows of one poll beside its header, by kind of record."""


def poll_of(header: Header, last: Poll | None) -> Poll:
    """A good poll as an accepted one. `last`: the one accepted before it."""
    at = header["received_at"]
    sent_at = header["sent_at"] or at
    if last:
        at, sent_at = max(at, last.at), max(sent_at, last.sent_at)
    return Poll(header["poll_id"], at, sent_at, header["interval_ms"] or 0)


class Cluster:
    """The history of one cluster, from its state and live rows on. `accepted`: the polls that were."""

    def __init__(self, state: State, alias: str, live: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._columns: Row = {"cluster_id": state.cluster_id, "cluster": alias}
        self._tables = {
            table: Intervals(table, self._columns, live.get(table.full_name, ())) for table in silver.SNAPSHOTS
        }
        topics, partitions = self._tables[silver.TOPIC_SNAPSHOTS], self._tables[silver.PARTITION_SNAPSHOTS]
        self._lives = TopicLives(topics, partitions, state.missing, state.topic_digests)
        self._state = state
        self._enriched = dict(state.enriched)
        self._counts = Counter({FAILED: state.failed_polls, REFUSED: state.refused_polls})
        self._error_kinds = set(state.error_kinds)
        self._waiting: list[tuple[Header, Answer, Records]] = []  # a stale answer, and all polls after it
        self._shown = Answer()  # the answers that wait, as one
        self._gaps: list[Row] = []
        self.accepted: list[Poll] = []

    def judge(self, header: Header, records: Records) -> None:
        """Take a poll that comes after all those before: accept it, or count it, or let it wait."""
        if not self._is_answer(header):
            # Among answers that wait it belongs to a gap on one side of them or the other, so it waits with them.
            if self._waiting:
                self._waiting.append((header, Answer(), records))
            else:
                self._count(header)
            return
        if self._says_the_same(header):
            answer = shown = Answer()
        else:
            answer = answer_of(header, records.get("topic", ()))
            shown = self._shown.then(answer)
        if not is_stale(shown, self._lives):
            for discarded, _, _ in self._wait_no_more():
                self._count(discarded)
            self._accept(header, shown, records)
            return
        self._waiting.append((header, answer, records))
        self._shown = shown
        if self._is_enough():
            for each in self._wait_no_more():
                if self._is_answer(each[0]):
                    self._accept(*each)
                else:
                    self._count(each[0])

    @property
    def rows(self) -> dict[str, list[Row]]:
        """Rows that are new or have ended, by table."""
        rows = {table.full_name: of_table.changed for table, of_table in self._tables.items()}
        return {name: changed for name, changed in (rows | {silver.POLL_GAPS.full_name: self._gaps}).items() if changed}

    @property
    def state(self) -> State:
        """The state after all polls that were judged."""
        return replace(
            self._state,
            missing=self._lives.missing,
            topic_digests=self._lives.digests,
            enriched=self._enriched,
            failed_polls=self._counts[FAILED],
            refused_polls=self._counts[REFUSED],
            error_kinds=tuple(sorted(self._error_kinds)),
            waiting=tuple(header["poll_id"] for header, _, _ in self._waiting),
        )

    def _is_answer(self, header: Header) -> bool:
        return outcome(header, self._state.cluster_id) == ANSWERED

    def _says_the_same(self, header: Header) -> bool:
        """Whether the answer is the last accepted one again."""
        return self._state.digest is not None and header["digest"] == self._state.digest

    def _is_enough(self) -> bool:
        """Whether the stale answers that wait are to be accepted after all."""
        received = [header["received_at"] for header, _, _ in self._waiting if self._is_answer(header)]
        return self._state.last is not None and are_believed(received, self._state.last.at)

    def _wait_no_more(self) -> list[tuple[Header, Answer, Records]]:
        waited, self._waiting, self._shown = self._waiting, [], Answer()
        return waited

    def _count(self, header: Header) -> None:
        """Remember a poll that is not accepted for the gap that it may be part of."""
        kind = outcome(header, self._state.cluster_id)
        self._counts[kind] += 1
        if kind == FAILED:
            self._error_kinds.add(str(header["error_kind"]))

    def _accept(self, header: Header, answer: Answer, records: Records) -> None:
        """Make an answer part of history: levels, brokers, topics, then enrichments."""
        last, before = self._state.last, self._state.before
        now = Place(poll_of(header, last), last)
        self._look_for_gap(now)
        if not self._says_the_same(header):
            levels = {name: header[name] for name in LEVELS}
            self._tables[silver.CLUSTER_SNAPSHOTS].show((), levels, now)
            enrichments.take("brokers", [header], None, now, self._tables[silver.BROKER_SNAPSHOTS])
        self._lives.take(answer, header["topic_filter"], now, Place(last, before) if last else None)
        for kind, digest in enrichments.answered_kinds(header).items():
            self._take_enrichment(kind, digest, header, records, now.poll)
        self._state = replace(self._state, last=now.poll, before=last, digest=header["digest"])
        self._counts.clear()
        self._error_kinds.clear()
        self.accepted.append(now.poll)

    def _take_enrichment(self, kind: str, digest: bytes | None, header: Header, records: Records, poll: Poll) -> None:
        before = self._enriched.get(kind)
        if before is None or digest is None or digest != before.digest:
            known = self._tables[silver.ENRICHMENTS[kind]]
            enrichments.take(kind, records.get(kind, ()), header["topic_filter"], Place(poll, before), known)
        self._enriched[kind] = Answered(**vars(poll), digest=digest)

    def _look_for_gap(self, now: Place) -> None:
        """Keep a row of poll_gaps when an accepted poll comes more than two intervals after the one before."""
        poll, before = now.poll, now.before
        if before is None:
            return
        interval_ms = max(poll.interval_ms, before.interval_ms)
        if poll.at - before.at <= timedelta(milliseconds=2 * interval_ms):
            return
        # Answers that are not accepted were stale.
        counts = {"failed": self._counts[FAILED], "refused": self._counts[REFUSED], "stale": self._counts[ANSWERED]}
        row = {
            **self._columns,
            "after_poll": before.id,
            "gap_start": before.at,
            "until_poll": poll.id,
            "gap_end": poll.at,
            "interval_ms": interval_ms,
            **{f"{kind}_polls": count for kind, count in counts.items()},
            "error_kinds": sorted(self._error_kinds),
            "reason": next((kind for kind, count in counts.items() if count), "not_polled"),
        }
        self._gaps.append(row)

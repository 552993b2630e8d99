"""Polls of one cluster -> its history: what changed in the interval tables, and the gaps between
polls.

Pure: the same polls give the same rows however they are cut into rounds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from jobs.rules.ids import POLLS
from jobs.rules.silver import enrichments
from jobs.rules.silver.acceptance import (
    ANSWERED,
    FAILED,
    REFUSED,
    STALE,
    are_believed,
    has_lost,
    highest_after,
    is_by_unlisted,
    is_stale,
    let_go,
    outcome,
    seen_at,
    shows_again,
)
from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.log_dirs import silent_after
from jobs.rules.silver.rows import OfCluster, PollGap
from jobs.rules.silver.stale_brokers import StaleBrokers, behind_after, is_told
from jobs.rules.silver.state import CONFIGS, Answered, Header, Observation, Poll, Row, State
from jobs.rules.silver.topic_lives import Answer, TopicLives, answer_of
from jobs.rules.teller import (
    POLLS_ALONE,
    Teller,
    inherited,
    is_read,
    keep_digest,
    last_digest,
    source,
)
from metadata_source.kinds import KAFKA, KINDS
from metadata_source.outcomes import OK
from schemas import gold, silver

TOPIC, BROKERS, WITNESSES, CONTROLLER = "topic", "brokers", "witnesses", "controller"
QUORUM, LOG_DIRS = "quorum", "log_dirs"
_NO_QUORUM = dict.fromkeys(
    ("quorum_epoch", "voters", "observers", "voters_behind", "observers_behind", "behind")
)
Records = Mapping[str, list[Mapping[str, Any]]]
"""The rows of one poll beside its header, by kind of record."""


@dataclass(frozen=True)
class SilverResult:
    """The next state of a cluster, new and ended rows by table, and the polls accepted."""

    state: State
    rows: dict[str, list[Row]]
    polls: list[Poll]


def fold(
    state: State | None,
    live: Mapping[str, Sequence[Mapping[str, Any]]],
    headers: Sequence[Header],
    said: Iterable[Mapping[str, Any]],
    claimed_id: str | None = None,
    *,
    kind: str = KAFKA,
    by_log: bool = False,
    believe: bool = False,
) -> SilverResult:
    """Bring the history of one cluster up to some polls.

    `live`: current rows by table. `headers`: rows of bronze with record 'poll' in the order of
    their ids, those that wait among them. `said`: the other rows of those polls, at least those
    that `records_to_read` names. A topic may be left out of `live` and `said` if every answer says
    of it what the last accepted one said, and so may a partition of a topic that is in both.
    `claimed_id`: see acceptance.claims; needed until the state has it. `kind`: of the cluster, as
    declared. Another one than before holds from the first accepted answer on that tells all topics.
    `by_log`: the controllers' log tells topics, partitions and their settings; polls tell the rest.
    `believe`: a person says that the answers are right that still wait after these polls.
    """
    state = replace(state or State())
    if not headers:
        return SilverResult(state, {}, [])
    records: defaultdict[str, Records] = defaultdict(lambda: defaultdict(list))
    for row in said:
        records[row["poll_id"]][row["record"]].append(row)
    to_judge = _take(state, headers)
    state.cluster_id, state.topic_digests = (
        state.cluster_id or claimed_id,
        dict(state.topic_digests),
    )
    state.ended_ids = dict(state.ended_ids)
    cluster = _Cluster(state, kind, headers[0]["cluster"], live, by_log=by_log)
    for header in to_judge:
        cluster.judge(header, records[header["poll_id"]])
    if believe:
        cluster.wait_no_more(are_believed=True)
    return cluster.result()


def records_to_read(
    state: State | None,
    headers: Sequence[Header],
    claimed_id: str | None = None,
    kind: str = KAFKA,
    teller: Teller = POLLS_ALONE,
) -> dict[str, set[str]]:
    """Poll id -> the kinds of records of that poll that may say something new; the other arguments
    as for `fold`.

    Three kinds lie in the header: answers of other brokers (`WITNESSES`), another controller with
    ZooKeeper (`CONTROLLER`), and the list of brokers (`BROKERS`). The list counts of polls for
    which the controllers' log tells topics (`teller`).

    The rows of a digest that is still what was accepted last need not be read. After the first
    digest that differs all are: what is the same as before then depends on what is accepted.
    """
    state = state or State()
    accepted = {enrichment: answered.digest for enrichment, answered in state.enriched.items()}
    accepted |= {
        TOPIC: last_digest(state, by_log=False),
        BROKERS: last_digest(state, by_log=True),
    }
    behind, controller = state.behind, state.controller_id
    differing: set[str] = set()
    wanted: dict[str, set[str]] = {}
    for header in _take(replace(state), headers):
        if outcome(header, state.cluster_id or claimed_id) == ANSWERED:
            if is_told(header, behind):
                wanted[header["poll_id"]] = {WITNESSES}
            behind = behind_after(header, behind)
            if header["active_controller_id"] not in {None, controller}:
                controller = header["active_controller_id"]
                wanted.setdefault(header["poll_id"], set()).add(CONTROLLER)
            by_log = teller.is_log(header["poll_id"])
            told = {BROKERS if by_log else TOPIC: header["digest"]}
            told |= {
                enrichment: answer.digest
                for enrichment, answer in _answers(header, by_log=by_log).items()
            }
            if kind != state.kind and header["is_key_frame"]:
                differing.add(TOPIC)
            differing |= {
                record
                for record, digest in told.items()
                if digest is None or digest != accepted.get(record)
            }
            if records := differing & told.keys():
                wanted.setdefault(header["poll_id"], set()).update(records)
    return wanted


def _answers(header: Header, *, by_log: bool) -> dict[str, Answered]:
    """Answers beside a good poll that tell something, by enrichment, as they came.

    The digest of log directories is over what brokers said last, so it does not say which of them
    were silent. An answer that leaves out some has none here: it is read, and the next one too.
    """
    return {
        row["kind"]: Answered(
            row["poll_id"],
            row["answered_at"],
            row["asked_at"],
            header["interval_ms"] or 0,
            row["digest"] if row["kind"] != LOG_DIRS or row["outcome"] == OK else None,
        )
        for row in header["answers"]
        if is_read(row["kind"], by_log=by_log)
    }


def poll_of(header: Header) -> Poll:
    """A good poll as an accepted one."""
    at = header["received_at"]
    return Poll(
        header["poll_id"], seen_at(header), header["sent_at"] or at, header["interval_ms"] or 0
    )


def _take(state: State, headers: Iterable[Header]) -> list[Header]:
    """Count polls as taken, and return those to judge: new ones that are not late, and those that
    wait.

    A poll is new if no round has taken it, and late if it is of an older stream than one that was
    seen.
    """
    seen, newest, to_judge = state.seen, max(state.seen, default=""), []
    for header in headers:
        is_new, is_late = header["n"] > seen.get(header["stream"], -1), header["stream"] < newest
        if is_new:
            state.seen = {**state.seen, header["stream"]: header["n"]}
            state.late_polls += is_late
            state.last_poll_at = max(
                filter(None, (state.last_poll_at, header["scheduled_at"])), default=None
            )
        if header["poll_id"] in state.waiting or (is_new and not is_late):
            to_judge.append(header)
    return to_judge


class _Cluster:
    """A cluster while polls are judged one after the other."""

    def __init__(
        self,
        state: State,
        kind: str,
        alias: str,
        live: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        by_log: bool,
    ) -> None:
        self._state, self._kind, self._by_log = state, kind, by_log
        self._columns = OfCluster(cluster_id=cast("str", state.cluster_id), cluster=alias)
        self._tables = {
            table: Intervals(table, self._columns, live.get(table.full_name, ()))
            for table in (*silver.SNAPSHOTS, silver.HISTORY_SOURCES)
        }
        topics, partitions = (
            self._tables[silver.TOPIC_SNAPSHOTS],
            self._tables[silver.PARTITION_SNAPSHOTS],
        )
        self._lives = TopicLives(topics, partitions, state)
        self._stale = StaleBrokers(state, self._columns, live.get(gold.STALE_BROKERS.full_name, ()))
        self._waiting: list[
            tuple[Header, Answer | None, Records]
        ] = []  # A stale answer, and all polls after it.
        self._shown = Answer()  # The answers that wait, as one.
        self._gaps: list[PollGap] = []
        self._accepted: list[Poll] = []

    def judge(self, header: Header, records: Records) -> None:
        """Take a poll that comes after all those before: accept it, or count it, or let it wait."""
        answer, last = None, self._state.last
        if outcome(header, self._state.cluster_id) == ANSWERED:
            answer = shown = Answer()
            if not (self._by_log or self._says_the_same(header)):
                answer = answer_of(header, records.get(TOPIC, ()))
                shown = self._shown.then(answer)
            is_old = is_stale(
                shown, self._lives, shows_again=shows_again(header, self._state.answered_by)
            )
            if not (is_old or self._is_by_unlisted(header)):
                self.wait_no_more(are_believed=False)
                self._accept(header, shown, records)
                return
            self._shown = shown
        elif not self._waiting:
            self._count(header)
            return
        # A failed poll among answers that wait belongs to a gap on one side of them or the other:
        # it waits with them.
        self._waiting.append((header, answer, records))
        if last is not None and are_believed(
            [each for each, of, _ in self._waiting if of is not None], last.at
        ):
            self.wait_no_more(are_believed=True)
        elif last is not None and (
            gone := let_go([(each, of is not None) for each, of, _ in self._waiting], last.at)
        ):
            for each, _, _ in self._waiting[:gone]:
                self._count(each)
            self._waiting = self._waiting[gone:]
            self._shown = self._shown if self._waiting else Answer()

    def result(self) -> SilverResult:
        rows: dict[str, list[Any]] = {
            table.full_name: list(of_table.changed.values())
            for table, of_table in self._tables.items()
        }
        rows[silver.POLL_GAPS.full_name] = self._gaps
        rows[gold.STALE_BROKERS.full_name] = list(self._stale.changed.values())
        self._state.waiting = tuple(header["poll_id"] for header, _, _ in self._waiting)
        return SilverResult(
            self._state,
            {table: changed for table, changed in rows.items() if changed},
            self._accepted,
        )

    def _is_by_unlisted(self, header: Header) -> bool:
        """See acceptance.is_by_unlisted."""
        listed = {broker for (broker,) in self._tables[silver.BROKER_SNAPSHOTS].open}
        return not self._says_the_same(header) and is_by_unlisted(header, listed)

    def _says_the_same(self, header: Header) -> bool:
        """Whether the answer is the last accepted one again, and means the same."""
        digest = last_digest(self._state, by_log=self._by_log)
        return (
            digest is not None
            and header["digest"] == digest
            and not self._is_of_another_kind(header)
        )

    def _is_of_another_kind(self, header: Header) -> bool:
        """Whether the answer is of another kind of cluster than the last accepted one."""
        is_whole = header["is_key_frame"] or self._state.last is None
        return self._kind != self._state.kind and not self._by_log and bool(is_whole)

    def wait_no_more(self, *, are_believed: bool) -> None:
        """Accept the answers that wait, or count them."""
        waited, self._waiting, self._shown = self._waiting, [], Answer()
        for header, answer, records in waited:
            if are_believed and answer is not None:
                self._accept(header, answer, records)
            else:
                self._count(header)

    def _count(self, header: Header) -> None:
        """Remember a poll that is not accepted for the gap that it may be part of."""
        state = self._state
        found = outcome(header, state.cluster_id)
        state.stale_polls += found == ANSWERED
        state.refused_polls += found == REFUSED
        if found == FAILED:
            state.failed_polls += 1
            state.error_kinds = tuple(sorted({*state.error_kinds, str(header["error_kind"])}))

    def _accept(self, header: Header, answer: Answer, records: Records) -> None:
        """Make an answer history: brokers, levels, topics, then answers beside it as they came."""
        state, last = self._state, self._state.last
        # Of the controllers' log, which told before, the last time may be a later one, by the
        # controllers' clocks.
        poll = poll_of(header).following(last).following(state.heir_of, *state.enriched.values())
        now = told = Observation(poll, self._witness(header, answer))
        if gap := self._gap(poll, last):
            self._gaps.append(gap)
        state.highest = highest_after(header, state.highest)
        self._stale.take(header, poll)
        self._show_controller(header["active_controller_id"], now)
        has_news, is_of_another_kind = (
            not self._says_the_same(header),
            self._is_of_another_kind(header),
        )
        if has_news:
            enrichments.take(BROKERS, [header], None, now, self._tables[silver.BROKER_SNAPSHOTS])
        if not self._by_log:
            told = self._show_topics(header, answer, now, has_news=has_news)
        if is_of_another_kind:
            self._lives.forget(now)
        for enrichment, told_beside in _answers(header, by_log=self._by_log).items():
            earlier = state.enriched.get(enrichment)
            # Before a migration from ZooKeeper Metadata named the controller.
            is_named = enrichment == QUORUM and self._tables[silver.QUORUM].open
            named_before = last if is_named else None
            # It may have come before this poll's own answer, and too late for the entry of the poll
            # before.
            is_of_before = told_beside.at < header["received_at"]
            answered = told_beside.following(earlier, (last if is_of_before else None) or poll)
            if earlier is None or answered.digest is None or answered.digest != earlier.digest:
                self._take_answer(
                    enrichment,
                    records.get(enrichment, ()),
                    header["topic_filter"],
                    Observation(answered, earlier or named_before),
                )
            state.enriched = {**state.enriched, enrichment: answered}
        if has_news:
            state.sure = poll
        elif header["broker_id"] != state.answered_by:
            state.sure = last
        state.answered_by = header["broker_id"]
        state.last, state.before, state.witness = poll, last, told.before
        keep_digest(state, header["digest"], by_log=self._by_log)
        state.failed_polls = state.refused_polls = state.stale_polls = 0
        state.error_kinds = ()
        self._accepted.append(poll)

    def _take_answer(
        self,
        enrichment: str,
        rows: Sequence[Mapping[str, Any]],
        topic_filter: str | None,
        now: Observation,
    ) -> None:
        """Bring an enrichment up to its answer. `rows`: of bronze, all of the answer."""
        if enrichment == CONFIGS:
            self._state.static_configs = {
                **self._state.static_configs,
                **enrichments.static_configs(rows),
            }
        table = silver.ENRICHMENTS[enrichment]
        if enrichment == LOG_DIRS:
            now = replace(now, silent=self._state.silent_brokers)
            self._state.silent_brokers = silent_after(rows, now.silent, now.before)
        if source(table, by_log=self._by_log) == POLLS:
            enrichments.take(enrichment, rows, topic_filter, now, self._tables[table])

    def _show_topics(
        self, header: Header, answer: Answer, now: Observation, *, has_news: bool
    ) -> Observation:
        """Levels and topics; returns the observation of what changes: if the controllers' log told
        before, polls since have not shown that it had not.
        """
        state, last = self._state, self._state.last
        told = inherited(state, now)
        if last is None or state.heir_of is not None:
            self._tables[silver.HISTORY_SOURCES].show((), {"source": POLLS}, told)
            state.heir_of = None
        if has_news:
            self._show_cluster(header, told)
        self._lives.take(
            answer, header["topic_filter"], told, Observation(last, state.witness) if last else told
        )
        return told

    def _show_controller(self, controller: int | None, now: Observation) -> None:
        """The controller that ZooKeeper's brokers name; None under KRaft."""
        if controller is not None and controller != self._state.controller_id:
            self._tables[silver.QUORUM].show((), {"controller_id": controller, **_NO_QUORUM}, now)
            self._state.controller_id = controller

    def _show_cluster(self, header: Header, now: Observation) -> None:
        """Levels and the kind."""
        if self._is_of_another_kind(header):
            self._state.kind = self._kind
        kind = self._state.kind
        self._lives.nothing = KINDS[kind].columns
        levels = {name: header[name] for name in ("metadata_version_level", "elr_version_level")}
        levels["metadata_version_highest"] = min(self._state.highest.values(), default=None)
        meant = {"kind": kind, "not_meaningful": KINDS[kind].reasons}
        self._tables[silver.CLUSTER_SNAPSHOTS].show((), levels | meant, now)

    def _witness(self, header: Header, answer: Answer) -> Poll | None:
        """The last accepted poll that shows the state before this one.

        If the broker that answered `last` is found to be behind, or may have been, its answer that
        nothing had changed proves nothing.
        """
        state, broker = self._state, self._state.answered_by
        if broker is None or self._says_the_same(header):
            return state.last
        heard = [told for told in header["witnesses"] or () if told["error_kind"] is None]
        behind = {told["broker_id"] for told in heard if told["is_behind"] is not False}
        return (
            state.sure
            if broker in behind or has_lost(broker, header, answer, self._lives)
            else state.last
        )

    def _gap(self, poll: Poll, before: Poll | None) -> PollGap | None:
        """The gap before an accepted poll that comes more than two intervals after the last one."""
        interval_ms = max(poll.interval_ms, before.interval_ms if before else 0)
        if before is None or poll.at - before.at <= timedelta(milliseconds=2 * interval_ms):
            return None
        state = self._state
        counts = {
            FAILED: state.failed_polls,
            REFUSED: state.refused_polls,
            STALE: state.stale_polls,
        }
        return {
            **self._columns,
            "after_poll": before.id,
            "gap_start": before.at,
            "until_poll": poll.id,
            "gap_end": poll.at,
            "interval_ms": interval_ms,
            "failed_polls": state.failed_polls,
            "refused_polls": state.refused_polls,
            "stale_polls": state.stale_polls,
            "error_kinds": list(state.error_kinds),
            "reason": next((why for why, count in counts.items() if count), "not_polled"),
        }

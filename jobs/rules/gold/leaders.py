"""Changes of leaders: how many there were, why, and whether they were clean; and what each broker
leads.

A fold of one cluster: rows of gold.leader_changes, which never change again, and of
gold.leader_balance, one whenever the numbers of a broker change.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobs.rules.gold import elections, recorded
from jobs.rules.gold.bounds import Bounds, at_least_ms, event, ms
from jobs.rules.gold.elections import NO_LEADER, has_moved, hides_leader, preferred, raised_by
from jobs.rules.gold.news import (
    EVIDENCE,
    PARTITION_ELR,
    PARTITIONS,
    TIMES,
    Elr,
    Folded,
    Known,
    Levels,
    Memory,
    News,
    Poll,
    Row,
    place,
)
from jobs.rules.ids import offset_of, source_of
from jobs.rules.memory import from_json, to_json
from metadata_source.kafka_constants import LISTENER_NOT_FOUND
from schemas.gold import LEADER_TABLES

LEADER_CHANGES, LEADER_BALANCE = (table.full_name for table in LEADER_TABLES)

_SEEN = (
    "prev_leader",
    "leader",
    "prev_leader_epoch",
    "leader_epoch",
    "replicas",
    "prev_isr",
    "isr",
)

_WITH_ELR = ("leader", "leader_epoch", "isr", "replicas")
"""One of these changes where eligible leaders do."""


def fold(
    memory: Memory | None, live: Mapping[str, Sequence[Row]], news: News, _thresholds: object = None
) -> Folded:
    """Rows of gold.leader_changes and gold.leader_balance, without updated_at, that the news of one
    cluster make.

    `live`: the current rows of gold.leader_balance, one a broker.
    """
    known: Known = from_json(Known, memory) or Known()
    changes: list[Row] = []
    polls = news.polls()
    for poll in polls:
        known.levels = known.levels.at(poll)
        before = {place(row): row for row in poll.over[PARTITIONS]}
        seen = [row for row in poll.began[PARTITIONS] if has_moved(row) or is_raised(row)]
        failed = elections.may_have_failed(seen, known.levels)
        changes += [_change(row, before[place(row)], failed, known) for row in seen]
        # Who is eligible changes with the ISR. An answer tells of leaders that were elected later.
        for row in poll.began[PARTITIONS]:
            if any(row[name] != row[f"prev_{name}"] for name in _WITH_ELR):
                known.elr.pop(place(row), None)
        known.follow(poll, PARTITION_ELR)
    balance = leader_balance(polls, live.get(LEADER_BALANCE, ()))
    return Folded(to_json(known), {LEADER_CHANGES: changes, LEADER_BALANCE: balance})


def _change(row: Row, before: Row, failed: set[int], known: Known) -> Row:
    """A row of gold.leader_changes. `before`: the state that it superseded. `known`: levels at it,
    ELR before it.
    """
    semantics = elections.epoch_semantics(row, known.levels)
    counts = changes_counted(row, semantics)
    at_most_one = counts["changes_max"] in (0, 1)
    if EVIDENCE in row:
        told = recorded.told(row, row[EVIDENCE])
    else:
        elr = known.elr.get(place(row))
        told = {
            "reason": reason(row, failed, known.levels, at_most_one=at_most_one),
            "unclean": unclean(row, known.levels, elr),
            "is_last_known_leader": is_last_known_leader(row, elr),
        }
    return {
        **event(row, Bounds.of_begin(row)),
        **{name: row[name] for name in _SEEN},
        **counts,
        "epoch_semantics": semantics,
        **told,
        **leaderless(row, before, at_most_one=at_most_one),
    }


def is_raised(row: Row) -> bool:
    """Whether the epoch rose, of a partition whose leader was known and is."""
    return None not in (row["prev_leader"], row["leader"]) and (raised_by(row) or 0) > 0


def changes_counted(row: Row, semantics: str) -> dict[str, int | None]:
    """How often the leader changed, by what the difference of the epochs counts: bounds, and how
    often unseen.
    """
    visible, raised = int(has_moved(row)), raised_by(row) or 0
    # One step, and the same leader: away and back are two. It was a reassignment, or an ISR that
    # shrank.
    none_changed = raised == 1 and row["leader"] == row["prev_leader"] and not hides_leader(row)
    if semantics == elections.EXACT or none_changed:
        exact = 0 if none_changed else raised
        return {"changes_min": exact, "changes_max": exact, "changes_hidden": exact - visible}
    at_most = raised if semantics == elections.UPPER_BOUND else None
    return {"changes_min": visible, "changes_max": at_most, "changes_hidden": None}


def leaderless(row: Row, before: Row, *, at_most_one: bool) -> dict[str, int | None]:
    """Bounds of the time without a leader that the change ended. `before`: the state that it
    superseded.
    """
    if elections.was_leaderless(row):
        shortest = at_least_ms(before["valid_from"], row["prev_sent_at"])
        longest = ms(before["prev_sent_at"], row["valid_from"])
    else:
        # With changes between the polls it may have been without a leader for all of the time.
        shortest, longest = 0, 0 if at_most_one else ms(row["prev_sent_at"], row["valid_from"])
    return {"leaderless_ms_min": shortest, "leaderless_ms_max": longest}


def reason(row: Row, failed: set[int], levels: Levels, *, at_most_one: bool) -> str:
    """Why the leader, or its epoch, changed, inferred: preferred | failover | reassignment |
    recovery | offline | isr_shrink | unknown.

    `failed`: see may_have_failed. What such a broker lost to preferred replicas it may have lost by
    its failure, or to an election before or after: that is not known. One that an election has
    brought back leads what it is preferred for as before, in a later epoch. `at_most_one`: no more
    than one change came between the polls.
    """
    leader, prev_leader, is_preferred = (
        row["leader"],
        row["prev_leader"],
        elections.is_preferred(row),
    )
    if leader == prev_leader or hides_leader(row):
        return "isr_shrink" if elections.is_isr_shrink(row, levels) else "unknown"
    if leader == NO_LEADER:
        return "offline"
    if prev_leader == NO_LEADER:
        return "recovery"
    if not elections.has_isr(row):
        return "unknown"  # The rules are those of Kafka's controllers.
    if prev_leader not in row["replicas"]:
        return (
            "unknown"
            if prev_leader in failed or (is_preferred and not at_most_one)
            else "reassignment"
        )
    if not is_preferred:
        return "failover" if elections.is_failover(row, levels) else "unknown"
    return "unknown" if prev_leader in failed else "preferred"


def unclean(row: Row, levels: Levels, elr: Elr | None) -> str | None:
    """Whether the new leader was out of sync: no | suspected | proven, None where it cannot be
    told.

    Without ELR nothing joins the ISR of a partition that has no leader, so one step from there to a
    broker outside of it is proof. With ELR that ISR is empty, and clean elections come from a list
    that Metadata does not show: `elr`, as answered of the state before the change. Of an eligible
    leader that was down it tells nothing. Without ELR no ISR is ever empty
    (``PartitionChangeBuilder``), so an empty one says that ELR was switched on meanwhile.
    """
    if row["error_code"] == LISTENER_NOT_FOUND or not elections.has_isr(row):
        return None
    if row["leader"] == NO_LEADER:
        return "no"
    # What led in between, none perhaps, is not known.
    clean = None if (raised_by(row) or 0) > 1 else "no"
    if row["leader"] in (row["prev_leader"], *row["prev_isr"]):
        return clean
    if levels.elr_version == 0 and row["prev_isr"]:
        return "proven" if elections.was_leaderless(row) and raised_by(row) == 1 else "suspected"
    if elr is None or _may_have_been_taken_out(row, elr) or not _tells_state_before(row, elr):
        return None
    return clean if row["leader"] in elr.elr else "suspected"


def _tells_state_before(row: Row, elr: Elr) -> bool:
    """Whether the lists are those of the state before the change, if an answer told them that came
    after the poll before: an election takes the new leader out of both lists
    (``PartitionChangeBuilder``).
    """
    return elr.since <= row["prev_sent_at"] or row["leader"] in (*elr.elr, *elr.last_known_elr)


def _may_have_been_taken_out(row: Row, elr: Elr) -> bool:
    """Whether the new leader was eligible, and down: if it was killed, it is taken out of the ELR
    when it registers, and may be elected as the last known leader all the same
    (ReplicationControlManager.handleUncleanBrokerShutdown).
    """
    return row["leader"] in elr.elr and row["leader"] in (row["prev_offline_replicas"] or ())


def is_last_known_leader(row: Row, elr: Elr | None) -> bool | None:
    """Whether the election was of the last known leader, kept with the ELR (KIP-966); None where
    that was not answered of the state before, and where a leader that was eligible came back.
    """
    if elr is None:
        return None
    if row["leader"] != NO_LEADER and (
        _may_have_been_taken_out(row, elr) or not _tells_state_before(row, elr)
    ):
        return None
    return elections.is_last_known(row, elr.elr, elr.last_known_elr)


def leader_balance(polls: Iterable[Poll], live: Iterable[Row]) -> list[Row]:
    """Rows of gold.leader_balance that are new or superseded after `polls`. `live`: the current row
    of each broker.
    """
    current = {row["broker_id"]: row for row in live}
    changed: dict[tuple[int, str], Row] = {}
    names = ("leads", "preferred_for", "led_elsewhere")
    for poll in polls:
        steps: defaultdict[int, Counter[str]] = defaultdict(Counter)
        signed = [
            *((1, row) for row in poll.began[PARTITIONS]),
            *((-1, row) for row in poll.over[PARTITIONS]),
        ]
        for sign, row in signed:
            for broker, name in _counted(row):
                steps[broker][name] += sign * row.get(TIMES, 1)
        for broker, step in steps.items():
            if not any(step.values()):
                continue
            some_row, before = signed[0][1], current.get(broker)
            counts = {name: (before[name] if before else 0) + step[name] for name in names}
            imbalance = (
                counts["led_elsewhere"] / counts["preferred_for"]
                if counts["preferred_for"]
                else None
            )
            told = {**counts, "imbalance": imbalance}
            if before is not None and _is_of_the_moment(before, poll):
                current[broker] = changed[broker, before["poll"]] = before | told
                continue
            if before is not None:
                changed[broker, before["poll"]] = before | {
                    "superseded_poll": poll.poll_id,
                    "valid_to": poll.at,
                }
            of_broker = {
                "cluster_id": some_row["cluster_id"],
                "cluster": some_row["cluster"],
                "broker_id": broker,
            }
            begun = {"poll": poll.poll_id, "source": source_of(poll.poll_id), "valid_from": poll.at}
            begun |= {"superseded_poll": None, "valid_to": None}
            current[broker] = changed[broker, poll.poll_id] = {**of_broker, **begun, **told}
    return list(changed.values())


def _is_of_the_moment(balance: Row, poll: Poll) -> bool:
    """Whether numbers lasted no time: in the controllers' log a broker that fails changes them with
    each partition.
    """
    are_of_log = None not in (offset_of(balance["poll"]), offset_of(poll.poll_id))
    return are_of_log and bool(balance["valid_from"] == poll.at)


def _counted(row: Row) -> Iterator[tuple[int, str]]:
    """The brokers, and which of their numbers, that count a partition in this state."""
    # Where the ISR means nothing, the first replica is not preferred.
    leader, first = row["leader"], None if row["isr"] is None else preferred(row["replicas"])
    if leader not in (None, NO_LEADER):
        yield leader, "leads"
    if first is not None:
        yield first, "preferred_for"
        # Of a leader that hides behind a missing listener nothing is known.
        if leader != first and row["error_code"] != LISTENER_NOT_FOUND:
            yield first, "led_elsewhere"

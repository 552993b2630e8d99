"""Changes of leaders: how many there were, why, and whether they were clean; and what each broker
leads.

A fold of one cluster: rows of gold.leader_changes, which never change again, and of
gold.leader_balance, one whenever the numbers of a broker change.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from jobs.rules.gold import elections, recorded
from jobs.rules.gold.bounds import Bounds, at_least_ms, event, ms
from jobs.rules.gold.elections import NO_LEADER, has_moved, hides_leader, preferred, raised_by
from jobs.rules.gold.news import (
    PARTITION_ELR,
    Elr,
    GoldInput,
    GoldResult,
    Known,
    Levels,
    Memory,
    Poll,
    partition_key,
)
from jobs.rules.gold.rows import (
    Counts,
    LeaderBalance,
    LeaderChange,
    Leaderless,
    Leads,
    PartitionState,
    Why,
)
from jobs.rules.ids import offset_of, source_of
from jobs.rules.memory import from_json, to_json
from metadata_source.kafka_constants import LISTENER_NOT_FOUND
from schemas.gold import LEADER_TABLES

LEADER_CHANGES, LEADER_BALANCE = (table.full_name for table in LEADER_TABLES)


def fold(
    memory: Memory | None,
    live: Mapping[str, Sequence[Any]],
    news: GoldInput,
    _thresholds: object = None,
) -> GoldResult:
    """Rows of gold.leader_changes and gold.leader_balance, without updated_at, that the news of one
    cluster make.

    `live`: the current rows of gold.leader_balance, one a broker.
    """
    known: Known = from_json(Known, memory) or Known()
    changes: list[LeaderChange] = []
    polls = news.polls()
    for poll in polls:
        known.levels = known.levels.at(poll)
        before = {partition_key(row): row for row in poll.over.partitions}
        seen = [row for row in poll.began.partitions if has_moved(row) or is_raised(row)]
        failed = elections.may_have_failed(seen, known.levels)
        changes += [_change(row, before[partition_key(row)], failed, known) for row in seen]
        # Who is eligible changes with the ISR. An answer tells of leaders that were elected later.
        for row in poll.began.partitions:
            if _may_change_elr(row):
                known.elr.pop(partition_key(row), None)
        known.follow(poll, PARTITION_ELR)
    balance = leader_balance(polls, live.get(LEADER_BALANCE, ()))
    return GoldResult(to_json(known), {LEADER_CHANGES: changes, LEADER_BALANCE: balance})


def _change(
    row: PartitionState, before: PartitionState, failed: set[int], known: Known
) -> LeaderChange:
    """A row of gold.leader_changes. `before`: the state superseded. `known`: ELR is of before."""
    semantics = elections.epoch_semantics(row, known.levels)
    counts = changes_counted(row, semantics)
    at_most_one = counts["changes_max"] in (0, 1)
    why: Why
    if "evidence" in row:
        why = recorded.why(row, row["evidence"])
    else:
        elr = known.elr.get(partition_key(row))
        why = {
            "reason": reason(row, failed, known.levels, at_most_one=at_most_one),
            "unclean": unclean(row, known.levels, elr),
            "is_last_known_leader": is_last_known_leader(row, elr),
        }
    return {
        **event(row, Bounds.of_begin(row)),
        "prev_leader": cast("int", row["prev_leader"]),
        "leader": cast("int", row["leader"]),
        "prev_leader_epoch": row["prev_leader_epoch"],
        "leader_epoch": row["leader_epoch"],
        "replicas": row["replicas"],
        "prev_isr": row["prev_isr"],
        "isr": row["isr"],
        **counts,
        "epoch_semantics": semantics,
        **why,
        **leaderless(row, before, at_most_one=at_most_one),
    }


def _may_change_elr(row: PartitionState) -> bool:
    """Whether something changed that changes where eligible leaders do."""
    return (
        row["leader"] != row["prev_leader"]
        or row["leader_epoch"] != row["prev_leader_epoch"]
        or row["isr"] != row["prev_isr"]
        or row["replicas"] != row["prev_replicas"]
    )


def is_raised(row: PartitionState) -> bool:
    """Whether the epoch rose, of a partition whose leader was known and is."""
    return None not in (row["prev_leader"], row["leader"]) and (raised_by(row) or 0) > 0


def changes_counted(row: PartitionState, semantics: str) -> Counts:
    """Bounds of how often the leader changed, by the difference of epochs, and how often unseen."""
    visible, raised = int(has_moved(row)), raised_by(row) or 0
    # One step, and the same leader: away and back are two. It was a reassignment, or an ISR that
    # shrank.
    none_changed = raised == 1 and row["leader"] == row["prev_leader"] and not hides_leader(row)
    if semantics == elections.EXACT or none_changed:
        exact = 0 if none_changed else raised
        return {"changes_min": exact, "changes_max": exact, "changes_hidden": exact - visible}
    at_most = raised if semantics == elections.UPPER_BOUND else None
    return {"changes_min": visible, "changes_max": at_most, "changes_hidden": None}


def leaderless(row: PartitionState, before: PartitionState, *, at_most_one: bool) -> Leaderless:
    """Bounds of the time without a leader that ended. `before`: the state that was superseded."""
    if elections.was_leaderless(row):
        shortest = at_least_ms(before["valid_from"], row["prev_sent_at"])
        longest = ms(before["prev_sent_at"], row["valid_from"])
    else:
        # With changes between the polls it may have been without a leader for all of the time.
        shortest, longest = 0, 0 if at_most_one else ms(row["prev_sent_at"], row["valid_from"])
    return {"leaderless_ms_min": shortest, "leaderless_ms_max": longest}


def reason(row: PartitionState, failed: set[int], levels: Levels, *, at_most_one: bool) -> str:
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
    if prev_leader not in (row["replicas"] or ()):
        return (
            "unknown"
            if prev_leader in failed or (is_preferred and not at_most_one)
            else "reassignment"
        )
    if not is_preferred:
        return "failover" if elections.is_failover(row, levels) else "unknown"
    return "unknown" if prev_leader in failed else "preferred"


def unclean(row: PartitionState, levels: Levels, elr: Elr | None) -> str | None:
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
    if row["leader"] in (row["prev_leader"], *(row["prev_isr"] or ())):
        return clean
    if levels.elr_version == 0 and row["prev_isr"]:
        return "proven" if elections.was_leaderless(row) and raised_by(row) == 1 else "suspected"
    if elr is None or _may_have_been_taken_out(row, elr) or not _tells_state_before(row, elr):
        return None
    return clean if row["leader"] in elr.elr else "suspected"


def _tells_state_before(row: PartitionState, elr: Elr) -> bool:
    """Whether the lists are those of the state before the change, if an answer told them that came
    after the poll before: an election takes the new leader out of both lists
    (``PartitionChangeBuilder``).
    """
    sent_at = row["prev_sent_at"]
    is_since_before = sent_at is not None and elr.since <= sent_at
    return is_since_before or row["leader"] in (*elr.elr, *elr.last_known_elr)


def _may_have_been_taken_out(row: PartitionState, elr: Elr) -> bool:
    """Whether the new leader was eligible, and down: if it was killed, it is taken out of the ELR
    when it registers, and may be elected as the last known leader all the same
    (ReplicationControlManager.handleUncleanBrokerShutdown).
    """
    return row["leader"] in elr.elr and row["leader"] in (row["prev_offline_replicas"] or ())


def is_last_known_leader(row: PartitionState, elr: Elr | None) -> bool | None:
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


def leader_balance(polls: Iterable[Poll], live: Iterable[LeaderBalance]) -> list[LeaderBalance]:
    """New and superseded rows of gold.leader_balance. `live`: the current row of each broker."""
    current = {row["broker_id"]: row for row in live}
    changed: dict[tuple[int, str], LeaderBalance] = {}
    for poll in polls:
        steps: defaultdict[int, Counter[str]] = defaultdict(Counter)
        signed = [
            *((1, row) for row in poll.began.partitions),
            *((-1, row) for row in poll.over.partitions),
        ]
        for sign, row in signed:
            for broker, name in _counted(row):
                steps[broker][name] += sign * row.get("times", 1)
        for broker, step in steps.items():
            if not any(step.values()):
                continue
            some_row, before = signed[0][1], current.get(broker)
            leads = _leads(before, step)
            if before is not None and _is_of_the_moment(before, poll):
                current[broker] = changed[broker, before["poll"]] = {**before, **leads}
                continue
            if before is not None:
                changed[broker, before["poll"]] = {
                    **before,
                    "superseded_poll": poll.poll_id,
                    "valid_to": poll.at,
                }
            current[broker] = changed[broker, poll.poll_id] = {
                "cluster_id": some_row["cluster_id"],
                "cluster": some_row["cluster"],
                "broker_id": broker,
                "poll": poll.poll_id,
                "source": source_of(poll.poll_id),
                "valid_from": poll.at,
                **leads,
                "superseded_poll": None,
                "valid_to": None,
            }
    return list(changed.values())


def _leads(before: LeaderBalance | None, step: Mapping[str, int]) -> Leads:
    """The numbers of a broker after they changed by `step`."""
    leads = step["leads"] + (before["leads"] if before else 0)
    preferred_for = step["preferred_for"] + (before["preferred_for"] if before else 0)
    elsewhere = step["led_elsewhere"] + (before["led_elsewhere"] if before else 0)
    return {
        "leads": leads,
        "preferred_for": preferred_for,
        "led_elsewhere": elsewhere,
        "imbalance": elsewhere / preferred_for if preferred_for else None,
    }


def _is_of_the_moment(balance: LeaderBalance, poll: Poll) -> bool:
    """Whether numbers lasted no time: records of a broker that fails change them one by one."""
    are_of_log = None not in (offset_of(balance["poll"]), offset_of(poll.poll_id))
    return are_of_log and bool(balance["valid_from"] == poll.at)


def _counted(row: PartitionState) -> Iterator[tuple[int, str]]:
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

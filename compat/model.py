"""The effect of each step of the script on a partition, by Kafka's documented rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from compat.script import GROWN, KILLED, MOVES, REBORN, SCRIPT, TOPICS, Step
from compat.versions import Version

NO_LEADER = -1

Key = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class State:
    """A partition."""

    replicas: tuple[int, ...]
    leader: int
    isr: frozenset[int]
    is_unclean: bool = False
    """Whether its topic allows unclean elections."""
    eligible: frozenset[int] = frozenset()
    """ELR: the last ISR of a partition that has no leader."""

    def __str__(self) -> str:
        return f"led by {self.leader}, in sync {sorted(self.isr)} of {list(self.replicas)}"


@dataclass(frozen=True)
class Move:
    """A change of leader."""

    prev_leader: int
    leader: int
    reason: str
    may_be_unknown: bool = False
    """Whether polls may leave the reason open."""
    unclean: frozenset[str | None] = frozenset({"no"})
    """The values that history may give here; None: that it cannot be told."""


@dataclass(frozen=True)
class Turn:
    """The effect of a step on a partition.

    `raised`: by how much the leader epoch rises, at least and at most. `is_exact`: whether that
    counts changes. `reason`: of a rise under the same leader. `shows_none`: whether polls may see
    the leader gone before another one is elected. With ZooKeeper brokers show a leader that is not
    alive as none in its epoch (MetadataCache), and a controller that has just taken over takes dead
    leaders away in an epoch of their own (ReplicaStateMachine.startup).
    """

    move: Move | None = None
    raised: tuple[int, int] = (0, 0)
    is_exact: bool = True
    isr: frozenset[tuple[int, str, str | None]] = frozenset()
    """Broker, change and cause, as in gold.isr_changes."""
    reason: str = "unknown"
    shows_none: bool = False


@dataclass(frozen=True)
class Expected:
    """A step, and all that must come of it; partitions of which nothing comes are left out."""

    step: Step
    turns: Mapping[Key, Turn]
    states: Mapping[Key, State] = field(repr=False)
    """All partitions afterwards."""


def expected(version: Version) -> list[Expected]:
    """The script's steps and what comes of each."""
    states = dict(first_states())
    found = []
    down: set[int] = set()
    for step in SCRIPT:
        turns: dict[Key, Turn] = {}
        down = down - {step.broker} if step.action == "start" else down | ({step.broker} - {0})
        for key, before in states.items():
            after, turn = _turn(step, key, before, down, version)
            states[key] = after
            if turn.raised[1] or turn.isr:
                turns[key] = turn
        if step.action == "recreate":
            states |= _made(REBORN.name, REBORN.replicas)
        if step.action == "grow":
            states |= {(topic, number): _state(replicas) for topic, number, replicas in GROWN}
        found.append(Expected(step, turns, dict(states)))
    return found


def first_states() -> dict[Key, State]:
    """All partitions before the script."""
    states: dict[Key, State] = {}
    for topic in TOPICS:
        states |= _made(
            topic.name,
            topic.replicas,
            is_unclean="unclean.leader.election.enable" in dict(topic.config),
        )
    return states


def _made(
    topic: str, replicas: Iterable[tuple[int, ...]], *, is_unclean: bool = False
) -> dict[Key, State]:
    return {
        (topic, number): _state(each, is_unclean=is_unclean) for number, each in enumerate(replicas)
    }


def _state(replicas: tuple[int, ...], *, is_unclean: bool = False) -> State:
    return State(replicas, replicas[0], frozenset(replicas), is_unclean)


def _turn(
    step: Step, key: Key, state: State, down: set[int], version: Version
) -> tuple[State, Turn]:
    if step.action in ("stop", "kill"):
        after, turn = _gone(step, state, version)
        # One that is stopped hands over what it leads before it goes.
        return after, replace(
            turn, shows_none=version.zookeeper and step.action == "kill" and turn.move is not None
        )
    if step.action == "start":
        return _back(step.broker, state, down, version)
    if step.action == "elect":
        return _preferred(state, version)
    if step.action == "reassign":
        wanted = {(topic, number): replicas for topic, number, replicas in MOVES}
        return _reassigned(wanted[key], state, version) if key in wanted else (state, Turn())
    return state, Turn()


def _gone(step: Step, state: State, version: Version) -> tuple[State, Turn]:
    """A broker goes. The first replica in sync that is left leads; the last one in sync stays in
    the ISR, or in ELR.

    If the broker was ZooKeeper's controller, the next one takes dead leaders away before it elects
    others, and raises the epochs of partitions without a leader too
    (KafkaController.onControllerFailover). If a broker stops, KRaft takes it out of the ISR when it
    wants to stop and again when it is fenced: where a shrink raises the epoch, the last one in sync
    raises it twice (ReplicationControlManager,
    PartitionChangeBuilder.triggerLeaderEpochBumpIfNeeded).
    """
    broker, twice = step.broker, int(version.zookeeper)
    if state.leader == NO_LEADER:
        return state, Turn(None, (0, twice), version.is_exact)
    if broker not in state.isr:
        return state, Turn()
    left = frozenset({(broker, "left", "broker_down")})
    rest = [replica for replica in state.replicas if replica in state.isr - {broker}]
    if broker != state.leader:
        raised = int(version.shrinks_raise)
        why = "isr_shrink" if raised else "unknown"
        # With ZooKeeper its leader may take it back before it is gone, and the controller take it
        # out once more.
        again = int(version.zookeeper and step.action == "stop")
        return replace(state, isr=frozenset(rest)), Turn(
            None, (raised, raised + again), version.is_exact, left, why
        )
    leader = rest[0] if rest else NO_LEADER
    move = Move(broker, leader, "failover" if rest else "offline")
    isr, eligible = frozenset(rest), frozenset[int]()
    if not rest and version.has_elr:
        eligible = state.isr
    elif not rest:
        isr, left = state.isr, frozenset()
        twice |= version.shrinks_raise and step.action == "stop"
    after = replace(state, leader=leader, isr=isr, eligible=eligible)
    return after, Turn(move, (1, 1 + twice), version.is_exact, left)


def _back(broker: int, state: State, down: set[int], version: Version) -> tuple[State, Turn]:
    """A broker is back: it comes into ISRs, and leads a partition that has no leader if it was in
    sync, or may be elected unclean. Then those that were back before can follow it. `down`: brokers
    that are not back.
    """
    if broker not in state.replicas:
        return state, Turn()
    if state.leader != NO_LEADER:
        return replace(state, isr=state.isr | {broker}), Turn(
            isr=frozenset({(broker, "rejoined", None)})
        )
    is_clean = broker in state.isr | state.eligible
    if not is_clean and not (state.is_unclean and version.elects_unclean):
        return state, Turn()
    # With ELR clean elections come from a list that polls read a moment later: nothing is proven by
    # it.
    unclean: set[str | None] = {"no"} if is_clean else {"proven"}
    if version.has_elr:
        # One that was killed is taken out of ELR when it registers again, and elected as the last
        # known leader (ReplicationControlManager.handleUncleanBrokerShutdown): polls may see it, or
        # cannot tell.
        unclean = {None} if is_clean else {"suspected"}
        unclean |= {"suspected"} if broker == KILLED else set()
    move = Move(NO_LEADER, broker, "recovery", unclean=frozenset(unclean))
    after = replace(
        state, leader=broker, isr=frozenset(state.replicas) - down, eligible=frozenset()
    )
    changes = {(replica, "left", "broker_down") for replica in state.isr - after.isr}
    changes |= {(replica, "rejoined", None) for replica in after.isr - state.isr}
    return after, Turn(move, (1, 1), version.is_exact, frozenset(changes))


def _preferred(state: State, version: Version) -> tuple[State, Turn]:
    first = state.replicas[0]
    if state.leader == first:
        return state, Turn()
    return replace(state, leader=first), Turn(
        Move(state.leader, first, "preferred"), (1, 1), version.is_exact
    )


def _reassigned(replicas: tuple[int, ...], state: State, version: Version) -> tuple[State, Turn]:
    """Other replicas: the leader stays where it can. Another list of replicas makes any count a
    bound.

    The new one comes into the ISR and leads within a moment: polls seldom see it in sync before it
    leads. With ZooKeeper the epoch rises by more than one, so that another election between two
    polls cannot be excluded.
    """
    unseen = (
        {None} if version.has_elr else {"suspected", None} if version.zookeeper else {"suspected"}
    )
    leader = state.leader if state.leader in replicas else replicas[0]
    move = None
    if leader != state.leader:
        move = Move(
            state.leader, leader, "reassignment", version.zookeeper, frozenset({"no", *unseen})
        )
    changes = {(replica, "joined", None) for replica in set(replicas) - state.isr}
    changes |= {(replica, "left", "reassignment") for replica in state.isr - set(replicas)}
    after = replace(state, replicas=replicas, leader=leader, isr=frozenset(replicas))
    return after, Turn(move, version.raised_by_reassignment, is_exact=False, isr=frozenset(changes))


@dataclass(frozen=True)
class Outage:
    """A broker that ISRs lacked: how many partitions did, how bad they may have looked."""

    broker_id: int
    partitions: int
    causes: tuple[str, ...]
    worst_levels: frozenset[str]


def outages(steps: Iterable[Expected]) -> list[Outage]:
    """The brokers that went. min.insync.replicas is 1: a partition with a leader has enough."""
    lacked: dict[int, set[Key]] = {}
    levels: dict[int, set[int]] = {}
    seen_gone: set[int] = set()
    for each in steps:
        seen_gone |= {each.step.broker for turn in each.turns.values() if turn.shows_none}
        for key, state in each.states.items():
            for broker in set(state.replicas) - state.isr:
                lacked.setdefault(broker, set()).add(key)
                levels.setdefault(broker, set()).add(_level(state))
    return [
        Outage(
            broker,
            len(keys),
            ("broker_down",),
            frozenset(
                {LEVELS[max(levels[broker])], *(("offline",) if broker in seen_gone else ())}
            ),
        )
        for broker, keys in sorted(lacked.items())
    ]


LEVELS = ("under_replicated", "at_min_isr", "under_min_isr", "offline")


def _level(state: State) -> int:
    if state.leader == NO_LEADER:
        return LEVELS.index("offline")
    return LEVELS.index("at_min_isr" if len(state.isr) == 1 else "under_replicated")


@dataclass(frozen=True)
class Rebalanced:
    """A rebalance of a group."""

    joined: int
    left: int
    reasons: frozenset[str]


def rebalances() -> list[Rebalanced]:
    """Those of each group of the script. Its coordinator's end, and moves, are none."""
    found, members = [Rebalanced(1, 0, frozenset({"member_joined"}))], 1
    for step in SCRIPT:
        if step.action == "join":
            members += 1
            found.append(Rebalanced(1, 0, frozenset({"member_joined"})))
        elif step.action in ("leave", "crash"):
            members -= 1
            emptied = {"group_emptied"} if not members else set()
            found.append(Rebalanced(0, 1, frozenset({"member_left", *emptied})))
        elif step.action == "grow":
            found.append(Rebalanced(0, 0, frozenset({"partitions_changed"})))
    return found


def coordinator_moves(log_partition: int, steps: Iterable[Expected]) -> list[tuple[int, int]]:
    """From which broker to which the coordinator of groups in a partition of the log moves."""
    turns = (each.turns.get(("__consumer_offsets", log_partition)) for each in steps)
    return [(turn.move.prev_leader, turn.move.leader) for turn in turns if turn and turn.move]

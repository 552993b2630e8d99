"""A small log of controllers, and what polls of its cluster give."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from truth.dump import Record
from truth.model.states import Truth, at_time
from truth.observed import Poll, Seen

START = datetime(2026, 11, 21, 8, tzinfo=UTC)
TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def record(at: float, kind: str, **data: Any) -> Record:
    return Record(int(at * 1000), second(at), kind, data)


def change(at: float, topic_id: str = TOPIC, partition: int = 0, **data: Any) -> Record:
    return record(at, "PARTITION_CHANGE_RECORD", partitionId=partition, topicId=topic_id, **data)


def broker(at: float, broker_id: int, fenced: int) -> Record:
    return record(
        at, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=broker_id, brokerEpoch=1, fenced=fenced
    )


# Polled at 10, 12, 14, ... Broker 1, which leads, dies at 13; it is back at 21 and preferred at 23.
# Broker 3 lags from 30.2 to 30.6, which no poll sees, and from 34.5 to 37. At 41 the leader 1 goes
# and comes back within half a second. At 50.2 broker 4 takes the place of 3.
LOG = [
    *(record(0, "REGISTER_BROKER_RECORD", brokerId=b, rack=None, fenced=False)
      for b in (1, 2, 3, 4)),
    record(1, "TOPIC_RECORD", name="orders", topicId=TOPIC),
    record(1, "PARTITION_RECORD", partitionId=0, topicId=TOPIC, replicas=[1, 2, 3], isr=[1, 2, 3],
           leader=1, leaderEpoch=0),
    change(13, leader=2, isr=[2, 3]),
    broker(13, 1, 1),
    broker(20.5, 1, -1),
    change(21, isr=[1, 2, 3]),
    change(23, leader=1),
    change(30.2, isr=[1, 2]),
    change(30.6, isr=[1, 2, 3]),
    change(34.5, isr=[1, 2]),
    change(37, isr=[1, 2, 3]),
    change(41, leader=2),
    change(41.5, leader=1),
    change(50.2, replicas=[1, 2, 3, 4], addingReplicas=[4], removingReplicas=[3]),
    change(50.4, isr=[1, 2, 4], replicas=[1, 2, 4], addingReplicas=[], removingReplicas=[],
           leader=1),
    record(70, "NO_OP_RECORD"),
]  # fmt: skip


def poll(n: int, sent: float, **more: Any) -> Poll:
    given: dict[str, Any] = {
        "broker_id": 2,
        "interval": timedelta(seconds=2),
        "accepted": True,
        "left_out": None,
    }
    return Poll(f"s/{n:012d}", second(sent), second(sent + 0.01), **(given | more))


POLLS = [poll(n, 10 + 2 * n) for n in range(26)]


def history(truth: Truth, polls: Sequence[Poll], trail: float = 0) -> list[Seen]:
    """What polls of a broker that is `trail` seconds behind give."""
    rows: list[Seen] = []
    for each in polls:
        at = each.sent_at - timedelta(seconds=trail)
        state = at_time(truth.partitions[TOPIC, 0], at)
        assert state is not None
        held = {b: at_time(truth.brokers[b], at) for b in sorted(state.replicas)}
        offline = tuple(
            b for b, registered in held.items() if registered and not registered.is_alive
        )
        seen = Seen(
            state.topic, TOPIC, 0, state.leader, state.leader_epoch, state.replicas, state.isr,
            offline, each.poll_id, None,
        )  # fmt: skip
        if rows and replace(rows[-1], first_poll=each.poll_id) == seen:
            continue
        if rows:
            rows[-1] = replace(rows[-1], last_poll=polls[polls.index(each) - 1].poll_id)
        rows.append(seen)
    return rows

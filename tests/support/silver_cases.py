"""Short lives of a cluster as polls answer them, and their history."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.support.bronze_rows import bronze_rows
from tests.support.histories import START, Answer, good_answer
from tests.support.silver_rounds import Lake

STREAM = "20261101T000000Z-00000000"
ALL = (0, 1, 2)
STEP = timedelta(seconds=10)
Row = dict[str, Any]


def at(n: float) -> datetime:
    """When poll n was sent; it is answered 100 ms later."""
    return START + n * STEP


def answered(n: int) -> datetime:
    return at(n) + timedelta(milliseconds=100)


def led(epoch: int | None, *isr: int) -> Row:
    """A partition, led by the first of its ISR; without one, by the broker that follows from the
    epoch.
    """
    return {
        "error_code": 0,
        "leader": isr[0] if isr else (epoch or 0) % 3,
        "leader_epoch": epoch,
        "replicas": list(ALL),
        "isr": list(isr or ALL),
        "offline_replicas": [],
    }


def heard(
    broker: int, *, is_behind: bool | None = False, error_kind: str | None = None, **told: Any
) -> Row:
    """Another broker that was asked with a poll, as a witness."""
    return {
        "broker_id": broker,
        "broker": f"host{broker}:9092",
        "error_kind": error_kind,
        "is_behind": is_behind,
        "behind_ms": 5_000 if is_behind else None,
        "partitions_behind": 1 if is_behind else None,
        "epochs_behind": 1 if is_behind else None,
        **told,
    }


def unreachable(broker: int) -> Row:
    """A witness that said nothing."""
    return heard(broker, is_behind=None, error_kind="unreachable")


def poll(
    n: int,
    broker: int | None,
    topics: Mapping[str, Sequence[Row] | None],
    *witnesses: Row,
    listed: Sequence[int] = ALL,
    topic_id: str | None = "{}-id",
    **more: Any,
) -> Answer:
    """Answer n, by a broker: the partitions of each topic, None where they are not told (an error).
    `topic_id`: of each topic, by its name. Witnesses answer 50 ms after they were asked.
    """
    told = {name: list(partitions or ()) for name, partitions in topics.items()}
    batch = more.pop("batch", n)
    answer = good_answer(STREAM, n, at(n), dict.fromkeys(listed), told, batch=batch)
    for name, partitions in topics.items():
        answer.topics[name] |= {
            "topic_id": topic_id and topic_id.format(name),
            "error_code": 5 if partitions is None else 0,
        }
    answer.broker_id, answer.api_version = broker, 9 if topic_id is None else 12
    asked = {"sent_at": at(n), "received_at": at(n) + timedelta(milliseconds=50)}
    answer.witnesses = [
        (dict.fromkeys(asked) if each["error_kind"] else asked) | each for each in witnesses
    ] or None
    for name, value in more.items():
        setattr(answer, name, value)
    return answer


def epochs(**topics: Sequence[int] | None) -> dict[str, list[Row] | None]:
    """Topics, by the leader epochs of their partitions."""
    return {
        name: None if each is None else [led(epoch) for epoch in each]
        for name, each in topics.items()
    }


def taken(*answers: Answer, cuts: Sequence[int] = (), narrowed: bool = False) -> Lake:
    """History of the answers, in rounds that are cut there."""
    bronze, ids = bronze_rows("c", list(answers)), [answer.poll_id for answer in answers]
    lake = Lake("c", narrowed)
    for begin, end in zip((0, *cuts), (*cuts, len(ids)), strict=True):
        lake.take(bronze, ids[begin:end], "id-prod")
    return lake


def waits(lake: Lake) -> int:
    """How many polls wait."""
    assert lake.state is not None
    return len(lake.state.waiting)


def rows(lake: Lake, table: Any) -> list[Row]:
    """The rows of a table, the oldest first."""
    return sorted(lake.tables[table.full_name].values(), key=lambda row: row["first_poll"])


def shows(*of_epochs: int | None, topic_id: str | None = "A") -> dict[str, Row]:
    """Topic t with partitions of these epochs."""
    return {
        "t": {
            "topic_id": topic_id,
            "error_code": 0,
            "is_internal": False,
            "partitions": [led(epoch) for epoch in of_epochs],
        }
    }


def shown_by(broker: int | None, *topics: Mapping[str, Row], **more: Any) -> list[Answer]:
    """An answer every 30 s that shows these topics: by a broker, or by nobody knows which."""
    polls = [poll(3 * n, broker, {}, batch=n, interval_ms=30_000) for n in range(len(topics))]
    for n, (each, shown) in enumerate(zip(polls, topics, strict=True)):
        each.topics, each.n = dict(shown), n
        for name, value in more.items():
            setattr(each, name, value)
        each.poll_id = f"{each.stream}/{n:012d}"
    return polls


def failed(answer: Answer) -> Answer:
    """A poll that got no answer."""
    return replace(answer, ok=False, error_kind="timeout")

"""ZooKeeper's log is read whole, and says what its nodes say."""

import json
from collections.abc import Sequence
from struct import pack
from typing import Any

import pytest

from tests.support.small_log import second
from truth.dump import TruthError
from truth.model.events import leader_transitions
from truth.zookeeper import Write, truth_of_writes, writes

CREATE, DELETE, SET, CREATE2, MULTI, ERROR, SESSION, ENDS = 1, 2, 5, 15, 14, -1, -10, -11


def text(value: bytes) -> bytes:
    return pack(">i", len(value)) + value


def create(path: str, data: bytes, *, ephemeral: bool = False) -> bytes:
    acl = pack(">ii", 1, 31) + text(b"world") + text(b"anyone")
    return text(path.encode()) + text(data) + acl + pack(">?i", ephemeral, 1)


def multi(*parts: tuple[int, bytes]) -> bytes:
    return pack(">i", len(parts)) + b"".join(pack(">i", kind) + text(each) for kind, each in parts)


def file(*transactions: tuple[int, int, bytes]) -> bytes:
    """A file as ZooKeeper writes it: each transaction of a session at its second, zeros behind."""
    log = b"ZKLG" + pack(">iq", 2, 0)
    for number, (session, kind, body) in enumerate(transactions, 1):
        millis = int(second(number).timestamp() * 1000)
        entry = pack(">qiqqi", session, 0, number, millis, kind) + body
        log += pack(">qi", 0, len(entry)) + entry + b"B"
    return log + bytes(64)


def told(*files: bytes) -> list[tuple[int, str, bytes | None]]:
    return [(each.zxid, each.path, each.data) for each in writes(files)]


def test_each_write_is_read() -> None:
    first = file(
        (7, SESSION, pack(">i", 6000)),
        (7, CREATE, create("/a", b"1")),
        (7, SET, text(b"/a") + text(b"2") + pack(">i", 1)),
        (7, MULTI, multi((CREATE2, create("/b", b"3", ephemeral=True)), (SET, text(b"/a") * 2))),
        (7, MULTI, multi((ERROR, pack(">i", -110)), (ERROR, pack(">i", 0)))),
        (7, DELETE, text(b"/a")),
    )
    assert told(first) == [
        (2, "/a", b"1"),
        (3, "/a", b"2"),
        (4, "/b", b"3"),
        (4, "/a", b"/a"),
        (6, "/a", None),
    ]
    with pytest.raises(TruthError):
        told(b"another file")


def test_a_session_that_ends_takes_its_nodes_with_it() -> None:
    first = file(
        (7, CREATE, create("/stays", b"")),
        (7, CREATE, create("/gone", b"", ephemeral=True)),
        (7, CREATE, create("/deleted", b"", ephemeral=True)),
        (8, CREATE, create("/other", b"", ephemeral=True)),
        (8, DELETE, text(b"/deleted")),
    )
    assert told(first, file((7, ENDS, b"")))[-2:] == [(5, "/deleted", None), (1, "/gone", None)]


# --- what nodes say ---


def node(at: float, path: str, **data: Any) -> Write:
    return Write(int(at * 1000), second(at), path, json.dumps(data).encode())


def gone(at: float, path: str) -> Write:
    return Write(int(at * 1000), second(at), path, None)


def topic(at: float, replicas: Sequence[int], name: str = "t", **more: Any) -> Write:
    return node(at, f"/brokers/topics/{name}", partitions={"0": replicas}, **more)


def state(at: float, leader: int, epoch: int, *isr: int) -> Write:
    path = "/brokers/topics/t/partitions/0/state"
    return node(at, path, leader=leader, leader_epoch=epoch, isr=isr)


LOG = [
    *(node(0, f"/brokers/ids/{broker}", rack="a") for broker in (1, 2, 3)),
    topic(1, [1, 2]),
    state(1.1, 1, 0, 2, 1),
]


def states(*more: Write) -> list[tuple[Any, ...]]:
    """The leader, epoch, ISR and replicas of the partition, and whether the epoch was raised, from
    the second state on.
    """
    truth = truth_of_writes([*LOG, *more])
    return [
        (each.leader, each.leader_epoch, each.isr, each.replicas, each.names_leader)
        for of_partition in truth.partitions.values()
        for each in of_partition[1:]
    ]


def test_an_isr_that_shrinks_raises_the_epoch_where_the_controller_does_it() -> None:
    assert states(state(2, 1, 0, 1), state(3, 1, 1, 1, 2)) == [
        (1, 0, (1,), (1, 2), False),
        (1, 1, (1, 2), (1, 2), True),
    ]


def test_a_leader_that_is_gone_may_be_shown_as_none() -> None:
    truth = truth_of_writes([*LOG, gone(5, "/brokers/ids/1"), state(6, 2, 1, 2)])
    ((_, shown, _),) = truth.partitions.values()
    assert (shown.leader, shown.leader_epoch, shown.is_shown_gone) == (-1, 0, True)
    assert [(each.is_alive, each.rack) for each in truth.brokers[1]] == [(True, "a"), (False, "a")]
    (moved,) = leader_transitions(truth)
    assert (moved.before.leader, moved.after.leader, moved.reason) == (1, 2, "failover")


def test_a_broker_stops_from_when_it_is_taken_out_of_isrs() -> None:
    log = [*LOG, state(3, 2, 1, 2), state(4, 2, 1, 2), gone(5, "/brokers/ids/1")]
    alive, stopping, out = truth_of_writes(log).brokers[1]
    assert (stopping.at, stopping.is_alive, stopping.in_controlled_shutdown) == (
        second(3),
        True,
        True,
    )
    assert (alive.in_controlled_shutdown, out.at, out.is_alive) == (False, second(5), False)
    killed = truth_of_writes([*LOG, state(3, 2, 1, 2), gone(9, "/brokers/ids/1")]).brokers[1]
    assert [each.in_controlled_shutdown for each in killed] == [False, False]


@pytest.mark.parametrize(
    ("elected", "is_unclean"), [((3, 2, 3), True), ((1, 2, 1), False), ((-1, 2, 1), False)]
)
def test_who_was_in_no_isr_was_elected_unclean(
    elected: tuple[int, int, int], is_unclean: bool
) -> None:
    more = [state(2, 2, 1, 1), state(3, *elected)]
    assert leader_transitions(truth_of_writes([*LOG, *more]))[-1].unclean == is_unclean


def test_the_controller_has_new_replicas_before_it_writes_them_down() -> None:
    moving = {"adding_replicas": {"0": [3]}, "removing_replicas": {"0": [2]}}
    assert states(
        topic(2, [1, 3, 2], **moving),
        state(2.1, 1, 1, 1, 2),
        state(2.2, 1, 1, 1, 2, 3),
        state(2.3, 1, 2, 1, 2, 3),
        state(2.4, 1, 3, 1, 3),
        topic(2.5, [1, 3]),
    ) == [
        (1, 0, (1, 2), (1, 3, 2), False),
        (1, 1, (1, 2), (1, 3, 2), True),
        (1, 1, (1, 2, 3), (1, 3, 2), False),
        (1, 2, (1, 2, 3), (1, 3), True),
        (1, 3, (1, 3), (1, 3), True),
    ]


@pytest.mark.parametrize("ids", [("first", "second"), (None, None)])
def test_a_topic_ends_once_it_is_to_be_removed_and_may_live_again(
    ids: tuple[str | None, str | None],
) -> None:
    truth = truth_of_writes(
        [
            topic(1, [1, 2], topic_id=ids[0]),
            state(1.1, 1, 0, 1, 2),
            gone(1.2, "/admin/delete_topics/t"),
            node(2, "/admin/delete_topics/t"),
            state(2.1, -1, 1, 1),
            gone(3, "/brokers/topics/t"),
            topic(4, [2, 1], topic_id=ids[1]),
            state(4.1, 2, 0, 1, 2),
        ]
    )
    lives = [(each.created_at, each.deleted_at) for each in truth.topics.values()]
    assert lives == [(second(1), second(2)), (second(4), None)]
    assert [len(each) for each in truth.partitions.values()] == [1, 1]
    first, again = truth.topics
    assert (first, again) == (ids if ids[0] else (first, again))
    assert [truth.id_of("t", second(at)) for at in (0, 3, 4)] == [first, first, again]


def test_settings_are_told_where_they_change() -> None:
    truth = truth_of_writes(
        [
            node(1, "/config/topics/t", config={"a": "1", "b": "2"}),
            node(2, "/config/topics/t", config={"a": "3", "b": "2"}),
            node(3, "/config/brokers/<default>", config={"a": "1"}),
            gone(4, "/config/topics/t"),
        ]
    )
    assert [(each.at, each.resource, each.name, each.value) for each in truth.configs] == [
        (second(1), "t", "a", "1"),
        (second(1), "t", "b", "2"),
        (second(2), "t", "a", "3"),
        (second(3), "", "a", "1"),
        (second(4), "t", "a", None),
        (second(4), "t", "b", None),
    ]

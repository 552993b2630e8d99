"""A script of transactions has all that it must have, and a seed decides it."""

import pytest

from truth.transactions.play import LOG_PARTITIONS, log_partition_of
from truth.transactions.producers import CLIENTS
from truth.transactions.script import KILLS, SHORT, TRACKS, Track, write

OF_BROKERS = {"kill_coordinator", "kill_elsewhere", "restore"}


@pytest.fixture
def tracks() -> tuple[Track, ...]:
    return write(1)


def test_a_seed_decides(tracks: tuple[Track, ...]) -> None:
    assert write(1) == tracks
    assert write(2) != tracks


def test_a_part_of_a_script_does_the_same() -> None:
    whole = {track.name: track for track in write(1)}
    assert all(whole[track.name] == track for track in write(1, ["late", "dies"]))


def test_each_client_does_everything(tracks: tuple[Track, ...]) -> None:
    names = {track.name for track in tracks}
    for name in TRACKS:
        if name != "holds":
            assert {f"{name} {client}" for client in CLIENTS} <= names
    (kills,) = (track for track in tracks if track.name == "kills")
    ids = {step.transactional_id for step in kills.steps if step.action == "start"}
    assert ids == {f"truth-{phase}-{client}-1" for phase in KILLS for client in CLIENTS}


def test_brokers_die_in_one_track_alone_and_come_back(tracks: tuple[Track, ...]) -> None:
    for track in tracks:
        actions = [step.action for step in track.steps if step.action in OF_BROKERS]
        assert bool(actions) == (track.name == "kills")
        if actions:
            assert actions[-1] == "restore"


def test_no_broker_dies_in_short() -> None:
    assert not OF_BROKERS & {step.action for track in write(1, SHORT) for step in track.steps}


def test_an_id_is_of_one_track(tracks: tuple[Track, ...]) -> None:
    ids = [
        {step.transactional_id for step in track.steps if step.transactional_id} for track in tracks
    ]
    assert len(set().union(*ids)) == sum(map(len, ids))


def test_a_coordinator_is_found_as_kafka_does() -> None:
    """Java: "hello world".hashCode() is 1794106052, and that of "polygenelubricants" is the least
    number, whose sign bit goes.
    """
    assert log_partition_of("hello world") == 1794106052 % LOG_PARTITIONS
    assert log_partition_of("polygenelubricants") == 0

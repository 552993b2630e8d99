"""The recorder beside real brokers, without Spark. What it does at each step:
tests/unit/metadata_source/recorder.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from local_cluster import LocalCluster
from local_cluster.controllers import active_controller
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from tests.support.beside import ask_beside
from tests.support.disks import filled, small_disk
from tests.support.recorders import Recorded, check_numbers, recorded, recording
from tests.support.waiting import eventually

TOPIC = "recorder-test"
BEAT = timedelta(milliseconds=200)


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster, made_topic: Callable) -> Iterator[str]:
    with made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3):
        yield TOPIC


def entries_of(folder: Path, polls: int) -> list[Recorded]:
    """The entries of the spool, once there are so many."""
    spool = folder / "spool.json"
    eventually(lambda: spool.exists() and len(recorded(folder)) >= polls, f"{polls} polls")
    return recorded(folder)


def is_held_up(entries: list[Recorded]) -> bool:
    """Whether what hangs takes polls their time: it hangs for longer than two beats, so that two of
    three polls would be overlapped. On a busy machine, a poll can be overlapped by itself.
    """
    kinds = [each.header["error_kind"] for each in entries]
    assert set(kinds) <= {None, "overlapped"}, kinds
    return kinds.count("overlapped") * 2 > len(kinds)


def test_a_lost_quorum_takes_no_poll_its_time(
    cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """Brokers answer Metadata themselves, and wait for the active controller with what they
    forward.
    """
    _, active = active_controller(cluster)
    asked = active % 3 + 1
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers.split(",")[asked - 1],
        "pollInterval": "1s",
        "topics": topic,
        "enrich": "quorum=2s,reassignments=1s,fenced=1s",
        "enrichTimeout": "2500ms",
    }
    with paused(cluster, *({1, 2, 3} - {asked})), recording(tmp_path, options):
        entries = entries_of(tmp_path, 16)
    assert not is_held_up(entries)
    found = [each.outcomes for each in entries]
    assert {outcomes["fenced"] for outcomes in found if "fenced" in outcomes} == {"ok"}
    assert sum("fenced" in outcomes for outcomes in found) >= 3
    for kind in ("reassignments", "quorum"):
        said = [outcomes[kind] for outcomes in found if kind in outcomes]
        assert len(said) >= 2
        assert all(each.startswith("failed: 127.0.0.1:") for each in said), said


@contextmanager
def paused(cluster: LocalCluster, *nodes: int) -> Iterator[None]:
    for node in nodes:
        cluster.pause(node)
    try:
        yield
    finally:
        for node in nodes:
            cluster.resume(node)
    # The quorum is whole again, and whoever was fenced meanwhile is not any more.
    for server in cluster.bootstrap_servers.split(","):
        eventually(lambda server=server: is_whole(server), "brokers")


def is_whole(server: str) -> bool:
    options = parse({"kafka.bootstrap.servers": server, "requestTimeout": "8s"})
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller:
        poll = poller.poll()
        if poll.metadata is None:
            return False
        found = ask_beside(poller, subject(("quorum", "fenced"), poll.metadata))
    return found.outcomes == {"quorum": "ok", "fenced": "ok"} and found.rows["fenced"].values == [
        []
    ]


def test_a_broker_that_hangs_holds_up_its_own_polls_and_nobody_elses(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    well, _, hanging = cluster.bootstrap_servers.split(",")
    clusters = f'{{"hanging": {{"kafka.bootstrap.servers": "{hanging}"}}, "well": {{}}}}'
    options = {
        "kafka.bootstrap.servers": well,
        "clusters": clusters,
        "pollInterval": "2s",
        "requestTimeout": "4800ms",
    }
    with paused(cluster, 3), recording(tmp_path, options):
        entries = entries_of(tmp_path, 8)
    assert not is_held_up([each for each in entries if each.entry.cluster == "well"])
    hanging_kinds = [
        each.header["error_kind"] for each in entries if each.entry.cluster == "hanging"
    ]
    assert set(hanging_kinds) == {"timeout", "overlapped"}
    assert hanging_kinds[:2] == ["timeout", "overlapped"]


def test_a_disk_that_is_full_costs_polls_and_says_how_many(
    cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topics": topic,
        "pollInterval": "200ms",
    }
    with (
        small_disk(tmp_path / "disk", 2) as disk,
        recording(folder := disk / "spool", options) as recorder,
    ):
        entries_of(folder, 5)
        with filled(disk):
            # What the filler left of the last block is soon used up.
            eventually(lambda: newest_ago(folder) > 8 * BEAT, "eight polls without room")
        before = len(recorded(folder))
        eventually(lambda: len(recorded(folder)) > before + 5, "room")
        assert recorder.poll() is None
        entries = recorded(folder)
    kinds = [each.header["error_kind"] for each in entries]
    assert set(kinds) - {"overlapped"} == {None, "spool_full"}, (
        "a busy machine needs longer than a beat"
    )
    (full,) = [place for place, kind in enumerate(kinds) if kind == "spool_full"]
    count = int(entries[full].header["error"].split()[0])
    assert count >= 5
    following = next(each for each in entries[full + 1 :] if each.entry.ok)
    assert following.entry.is_key_frame, "what was not kept never counts as before"
    due = [each.header["scheduled_at"] for each in entries]
    passed = (due[full + 1] - due[full - 1]) / BEAT
    assert abs(passed - 1 - count) <= 1, "each of them was made, and is counted"


def newest_ago(folder: Path) -> timedelta:
    """How long ago the newest poll in the spool was due."""
    newest: datetime = recorded(folder)[-1].header["scheduled_at"]
    return datetime.now(UTC) - newest


def test_a_recorder_that_was_killed_leaves_its_spool_to_the_next(
    cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topics": topic,
        "pollInterval": "200ms",
    }
    with recording(tmp_path, options, "first") as recorder:
        entries_of(tmp_path, 5)
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.wait()
    before = recorded(tmp_path)
    with recording(tmp_path, options, "second") as recorder:
        entries = entries_of(tmp_path, len(before) + 5)
        with recording(tmp_path, options, "third"):
            assert recorder.wait(15) == 0, (
                "of two runs with one spool the one that began first ends"
            )
            entries = entries_of(tmp_path, len(recorded(tmp_path)) + 3)
    assert entries[: len(before)] == before
    assert [each.entry.number for each in entries] == [*range(1, len(entries) + 1)]
    of_runs = list(dict.fromkeys(each.entry.run for each in entries))
    assert len(of_runs) == 3
    first = [next(each.entry for each in entries if each.entry.run == run) for run in of_runs]
    assert [each.entry for each in entries if each.entry.is_key_frame] == first
    check_numbers({**each.header, "n": each.entry.number - 1} for each in entries)

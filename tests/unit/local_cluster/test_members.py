"""Members as processes; what they do in a group is for tests/kafka."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import psutil
import pytest

from local_cluster import member as member_process
from local_cluster.members import Commit, Done, Member, Members
from tests.support.repository import ROOT
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def member():
    with Members(NOWHERE) as members:
        yield members.start(group="g", topics=["t"], client_id="c")


def has_started(member: Member) -> bool:
    return [told.what for told in member.told] == ["started"]


def test_a_member_is_held_and_let_go_and_closes_its_client(member):
    eventually(lambda: has_started(member))
    assert member.owned == frozenset()
    assert member.state == "running"
    member.pause()
    eventually(lambda: member.state == "paused")
    member.resume()
    eventually(lambda: member.state == "running")
    member.pause()
    member.stop()  # a paused one too
    assert member.state == "down"
    assert [told.what for told in member.told][-1] == "closed"


def test_a_member_that_crashes_closes_nothing(member):
    eventually(lambda: has_started(member))
    member.crash()
    assert member.state == "down"
    assert has_started(member)


def test_all_members_end_with_the_block():
    started = []

    def fail():
        with Members(NOWHERE) as members:
            started.extend(members.start(group="g", topics=["t"], client_id=name) for name in "ab")
            started[0].pause()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [member.state for member in started] == ["down", "down"]


def test_a_paused_member_does_not_outlive_the_process_that_started_it():
    code = (
        "import os, signal\nfrom local_cluster.members import Members\nmembers = "
        "Members('127.0.0.1:1').__enter__()\n"
        "member = members.start(group='g', topics=['t'], client_id='c')\nmember.pause()\n"
        "print(member.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    eventually(lambda: not psutil.pid_exists(int(parent.stdout)))


def test_assigned_partitions_add_up_as_the_protocol_has_it(tmp_path):
    class Consumer:
        """What the callbacks ask of it."""

        def memberid(self):
            return "m"

        def consumer_group_metadata(self):
            return b"CGMDv2:" + (7).to_bytes(4, sys.byteorder) + b"g\0m\0"

    def told(*, eager: bool) -> list[tuple[str, ...]]:
        with (tmp_path / f"{eager}").open("w+") as file:
            journal = member_process.Journal(file)
            callbacks = member_process.Callbacks(journal, eager=eager)
            of = [member_process.Confluent("t", number) for number in range(3)]
            callbacks.assigned(Consumer(), of[:2])
            callbacks.assigned(Consumer(), of[2:])
            callbacks.lost(Consumer(), of[2:])
            return sorted(journal.owned)

    assert told(eager=True) == []
    assert told(eager=False) == [("t", 0), ("t", 1)]
    assert member_process.generation(Consumer()) == 7


@pytest.mark.parametrize(("in_transactions", "later"), [(False, 0), (True, 5)])
def test_a_commit_is_over_once_it_was_answered_or_a_while_later(tmp_path, in_transactions, later):
    def at(second: int) -> datetime:
        return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)

    member = Member("g", "c", None, None, tmp_path, in_transactions=in_transactions)
    lines = [[at(0).isoformat(), "t", 1, 7]]
    for second, *end in [(1, 2, True), (3, 4, None), (5, 6, False)]:
        lines.append({"called": at(second).isoformat(), "offsets": {"1": second}})
        lines.append({"returned": at(end[0]).isoformat(), "is_committed": end[1]})
    lines.append({"called": at(8).isoformat(), "offsets": {"1": 9}})
    cut = '{"returned": "2026'
    (tmp_path / "work").write_text("".join(json.dumps(line) + "\n" for line in lines) + cut)
    assert member.done == [Done(at(0), tmp_path.name, 1, 7)]
    assert member.commits == [
        Commit(at(1), at(2 + later), 1, 1, is_certain=True),
        Commit(at(3), at(4 + 5), 1, 3, is_certain=False),
        Commit(at(8), at(8 + 5), 1, 9, is_certain=False),
    ]

"""Groups of every type as a real cluster's coordinators describe them, against what their members
say; also when one stops.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from local_cluster import LocalCluster
from local_cluster.members import Member, Members
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.outcomes import is_answered
from metadata_source.poller import Poller
from tests.support.beside import Beside, ask_beside
from tests.support.waiting import eventually

TOPIC = "groups-test"


@pytest.fixture(scope="module")
def members(cluster: LocalCluster, made_topic: Any) -> Iterator[dict[str, Member]]:
    """A group of each type, by its name, with one member that has all of a topic; and one that has
    none, `empty`.
    """
    with (
        made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3),
        Members(cluster.bootstrap_servers) as members,
    ):
        empty = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "empty"})
        empty.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        empty.close()
        yield {
            protocol: members.start(
                group=protocol, topics=[TOPIC], client_id=f"{protocol}-1", protocol=protocol
            )
            for protocol in ("classic", "consumer", "share", "streams")
        }


def ask(servers: str, between: Callable[[], Any] = lambda: None) -> Beside:
    """Poll, call `between`, then ask for groups."""
    options = parse({"kafka.bootstrap.servers": servers})
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as each:
        poll = each.poll()
        assert poll.metadata is not None, poll.error
        between()
        return ask_beside(each, subject(("groups",), poll.metadata))


def groups(enrichment: Beside) -> dict[str, dict[str, Any]]:
    assert is_answered(enrichment.outcomes["groups"])
    rows = enrichment.rows["groups"].values
    return {group["group_id"]: group for row in rows for group in row}


def settled(server: str) -> dict[str, dict[str, Any]]:
    """The groups, once all but the empty one are stable, and their members have something: a share
    group is stable before.
    """
    wanted = dict.fromkeys(("classic", "consumer", "share", "streams"), "Stable") | {
        "empty": "Empty"
    }
    seen: dict[str, Any] = {}

    def is_settled() -> bool:
        answered = ask(server)
        found = groups(answered) if is_answered(answered.outcomes["groups"]) else {}
        found = {name: group for name, group in found.items() if name in wanted}
        states = {name: group.get("error") or group["state"] for name, group in found.items()}
        of_all = [member for group in found.values() for member in group.get("members") or ()]
        seen.update(outcomes=answered.outcomes, states=states, found=found)
        return states == wanted and all(
            member.get("assigned") or member.get("active_tasks") for member in of_all
        )

    eventually(is_settled, lambda: f"groups: {seen}")
    settled_groups: dict[str, dict[str, Any]] = seen["found"]
    return settled_groups


def test_each_group_is_described_by_its_type(
    cluster: LocalCluster, members: dict[str, Member]
) -> None:
    servers = cluster.bootstrap_servers.split(",")
    found = settled(servers[0])
    assert {name: group["group_type"] for name, group in found.items()} == {
        "classic": "classic",
        "consumer": "consumer",
        "share": "share",
        "streams": "streams",
        "empty": "classic",
    }
    assert {
        name: group["protocol_type"] for name, group in found.items() if group["protocol_type"]
    } == {"classic": "consumer"}
    assert (found["empty"]["state"], found["empty"]["members"]) == ("Empty", [])
    assert not any(group.get("error") for group in found.values())

    eventually(lambda: members["classic"].owned and members["consumer"].owned)
    for name in ("classic", "consumer", "share", "streams"):
        (member,) = found[name]["members"]
        assert member["client_id"].startswith(f"{name}-1")  # streams says which thread it is
        assert member["client_host"] == "/127.0.0.1"
        if name in {"classic", "consumer"}:
            assert member["member_id"] == members[name].told[-1].member_id
        if name != "streams":
            assert member["topics"] == [TOPIC]
            ((assigned),) = member["assigned"]
            assert (assigned["topic"], assigned["partitions"]) == (TOPIC, [0, 1])

    (member,) = found["consumer"]["members"]
    assert member["epoch"] == members["consumer"].told[-1].generation
    assert member["target"] == member["assigned"]
    assert member["assigned"][0]["topic_id"]
    for name in ("consumer", "share", "streams"):
        group = found[name]
        assert group["group_epoch"] == group["target_epoch"] == group["members"][0]["epoch"] > 0
    assert found["classic"]["assignor"] == "range"
    assert "group_epoch" not in found["classic"]
    (member,) = found["streams"]["members"]
    assert [task["partitions"] for task in member["active_tasks"]] == [[0, 1]]
    assert member["target_active_tasks"] == member["active_tasks"]
    assert found["streams"]["topology_epoch"] == 0

    for server in servers[1:]:
        assert settled(server) == found, "whoever answered the poll"


@pytest.mark.soak
def test_while_a_coordinator_stops_groups_are_all_told_or_none(
    cluster: LocalCluster, members: dict[str, Member]
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    stopped = admin.describe_consumer_groups(["classic"])["classic"].result().coordinator.id
    server = next(
        server
        for node, server in enumerate(cluster.bootstrap_servers.split(","), 1)
        if node != stopped
    )
    before = settled(server)
    outcomes: list[str] = []

    def whole(between: Callable[[], Any] = lambda: None) -> bool:
        answered = ask(server, between)
        outcomes.append(answered.outcomes["groups"])
        if not is_answered(outcomes[-1]):
            assert outcomes[-1].startswith("failed: "), outcomes
            return False
        found = groups(answered)
        assert before.keys() <= found.keys(), "a group that is there was not told"
        assert "Dead" not in {group.get("state") for group in found.values()}
        return not any(found[name].get("error") for name in before)

    try:
        assert not whole(lambda: cluster.kill(stopped)), (
            "groups of a coordinator that died after the poll listed it"
        )
        eventually(whole)
    finally:
        cluster.start(stopped)
    end = time.monotonic() + 5
    eventually(lambda: whole() and time.monotonic() > end)

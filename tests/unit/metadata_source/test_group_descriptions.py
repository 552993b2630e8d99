"""Groups as coordinators describe them."""

from types import SimpleNamespace
from typing import Any

from metadata_source import group_descriptions
from metadata_source.errors import PollError
from metadata_source.many_brokers import Broker, Time
from metadata_source.messages import ShareGroupDescribeRequest
from metadata_source.protocol.group_specs import ASSIGNMENT, SUBSCRIPTION
from metadata_source.protocol.writing import write_message
from tests.support.coordinators import Cluster, Node, listed
from tests.support.group_answers import asked, entry, groups


def classic_member(
    member_id: str, metadata: bytes = b"", assignment: bytes = b""
) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "/10.0.0.1",
        "member_metadata": metadata,
        "member_assignment": assignment,
    }


def embedded(message: Any, version: int, **values: Any) -> bytes:
    return version.to_bytes(2) + write_message(message, version, {"user_data": None, **values})


CLIENT = {"client_id": "client", "client_host": "/10.0.0.1"}
SUBSCRIBED = embedded(
    SUBSCRIPTION, 3, topics=["b", "a"], owned_partitions=[], generation_id=1, rack_id="r1"
)
ASSIGNED = embedded(
    ASSIGNMENT,
    1,
    assigned_partitions=[{"topic": "b", "partitions": [2, 0]}, {"topic": "a", "partitions": [1]}],
)


def test_a_classic_group_has_what_its_members_told_each_other_while_it_is_stable():
    members = [classic_member("m2", SUBSCRIBED), classic_member("m1", SUBSCRIBED, ASSIGNED)]
    whole = {"protocol_data": "range", "members": members}
    connect = {
        "protocol_type": "connect",
        "protocol_data": "compatible",
        "members": [classic_member("w", SUBSCRIBED, ASSIGNED)],
    }
    cluster = Cluster(
        Node(
            {0: 5, 1: 5},
            [
                listed("stable"),
                listed("joining"),
                listed("workers", protocol="connect"),
                listed("made by hand", protocol=""),
            ],
            {
                "stable": entry("stable", "Stable", **whole),
                "joining": entry("joining", "PreparingRebalance", members=[classic_member("m1")]),
                "workers": entry("workers", "Stable", **connect),
                "made by hand": entry("made by hand", "Empty", protocol_type=""),
            },
        )
    )
    topics = [{"topic": "a", "partitions": [1]}, {"topic": "b", "partitions": [0, 2]}]
    consumer = {"group_type": "classic", "protocol_type": "consumer"}
    member = {**CLIENT, "rack": "r1", "topics": ["a", "b"]}
    assert groups(cluster) == {
        "stable": {
            **consumer,
            "state": "Stable",
            "assignor": "range",
            "members": [
                {"member_id": "m1", **member, "assigned": topics},
                {"member_id": "m2", **member, "assigned": []},
            ],
        },
        "joining": {
            **consumer,
            "state": "PreparingRebalance",
            "members": [{"member_id": "m1", **CLIENT}],
        },
        "workers": {
            "group_type": "classic",
            "protocol_type": "connect",
            "state": "Stable",
            "assignor": "compatible",
            "members": [{"member_id": "w", **CLIENT}],
        },
        "made by hand": {"group_type": "classic", "state": "Empty", "members": []},
    }


def test_a_streams_group_is_described_without_its_topology() -> None:
    """KIP-1331: from version 1 on (Kafka 4.4) a broker wants to know."""
    asked: list[Any] = []

    class Visits:
        def ask(self, _address: Any, question: Any, _deadline: float) -> Any:
            asked.append(question)
            return SimpleNamespace(groups=[])

    list(
        group_descriptions.describe(
            Visits(), Broker(0, ("host", 0)), "streams", ["g"], Time(60.0, 1e12)
        )
    )
    (question,) = asked
    bodies = [question.body(version).hex(" ") for version in (0, 1)]
    assert bodies == ["02 02 67 00 00", "02 02 67 00 00 00"]


def test_groups_are_described_by_the_request_of_their_type():
    topic_id = bytes(range(16))
    partitions = {
        "topic_partitions": [{"topic_id": topic_id, "topic_name": "t", "partitions": [1, 0]}]
    }
    tasks = {
        "active_tasks": [{"subtopology_id": "1", "partitions": [1, 0]}],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    member = {
        "member_id": "m",
        "instance_id": "i",
        "rack_id": "r",
        "member_epoch": 6,
        **CLIENT,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "assignment": {"topic_partitions": []},
        "target_assignment": partitions,
        "member_type": 1,
    }
    streams = {
        "topology_epoch": 2,
        "process_id": "p",
        "user_endpoint": None,
        "client_tags": [],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": tasks,
        "target_assignment": tasks | {"warmup_tasks": tasks["active_tasks"]},
        "is_classic": False,
    }
    epochs = {"group_epoch": 7, "assignment_epoch": 6, "assignor_name": "uniform"}
    topology = {"epoch": 3, "subtopologies": None}
    cluster = Cluster(
        Node(
            {0: 1, 1: 1},
            [
                listed("c", "consumer"),
                listed("s", "share", protocol="share"),
                listed("x", "streams"),
            ],
        )
    )
    cluster.nodes["host", 0].describes = {
        "c": entry("c", "Reconciling", members=[member], **epochs),
        "s": entry("s", "Stable", members=[member | {"assignment": partitions}], **epochs),
        "x": entry("x", "NotReady", members=[member | streams], **epochs, topology=topology),
    }
    in_words = [{"topic_id": "AAECAwQFBgcICQoLDA0ODw", "topic": "t", "partitions": [0, 1]}]
    in_tasks = [{"subtopology_id": "1", "partitions": [0, 1]}]
    common = {"group_epoch": 7, "target_epoch": 6, "assignor": "uniform"}
    who = {"member_id": "m", "rack": "r", "epoch": 6, **CLIENT}
    assert groups(cluster) == {
        "c": {
            **common,
            "group_type": "consumer",
            "state": "Reconciling",
            "members": [
                {**who, "instance_id": "i", "topics": ["t"], "assigned": [], "target": in_words}
            ],
        },
        "s": {
            **common,
            "group_type": "share",
            "state": "Stable",
            "members": [{**who, "topics": ["t"], "assigned": in_words}],
        },
        "x": {
            **common,
            "group_type": "streams",
            "state": "NotReady",
            "topology_epoch": 3,
            "members": [
                {
                    **who,
                    "instance_id": "i",
                    "active_tasks": in_tasks,
                    "standby_tasks": [],
                    "warmup_tasks": [],
                    "target_active_tasks": in_tasks,
                    "target_standby_tasks": [],
                    "target_warmup_tasks": in_tasks,
                }
            ],
        },
    }
    described = {
        name: request["group_ids"] for _, name, request in cluster.asked if "Describe" in name
    }
    assert described == {
        "ConsumerGroupDescribeRequest": ["c"],
        "ShareGroupDescribeRequest": ["s"],
        "StreamsGroupDescribeRequest": ["x"],
    }


def test_a_member_that_is_listed_twice_is_odd():
    members = [classic_member("m"), classic_member("n"), classic_member("m")]
    cluster = Cluster(
        Node({0: 1, 1: 1}, [listed("a")], {"a": entry("a", "Stable", members=members)})
    )
    twice = "a member is listed twice"
    described = groups(cluster, f": 1 of 1 groups could not be described: {twice}")
    assert (described["a"]["error"], described["a"]["state"]) == (f"failed: {twice}", "Stable")


def test_share_groups_are_not_described_in_the_version_of_early_access():
    """Version 0, of Kafka 4.0."""
    cluster = Cluster(Node({0: 1, 1: 1}, [listed("s", "share")], {"s": entry("s", "Stable")}))
    cluster.versions = {ShareGroupDescribeRequest.API_KEY: 0}
    described = groups(cluster, ": 1 of 1 groups could not be described: not_supported")
    assert described["s"]["error"] == "not_supported"
    assert not [name for _, name, _ in cluster.asked if "Describe" in name]


def test_a_group_that_cannot_be_described_is_never_dead():
    codes = {"moved": 16, "loading": 14, "converted": 69, "hidden": 30, "hidden topic": 29}
    cluster = Cluster(
        Node(
            {0: 1, 1: 1},
            [listed(name, "consumer") for name in codes]
            + [listed("gone"), listed("left out"), listed("of tomorrow", "galactic", protocol="")],
            {name: entry(name, "Dead" if code == 69 else "", code) for name, code in codes.items()}
            | {"gone": entry("gone", "Dead")},
        )
    )
    outcome, _ = asked(cluster)
    assert outcome.startswith("ok: 8 of 8 groups could not be described: not_allowed: 2; ")
    assert outcome.endswith("; and 2 more")
    described = groups(cluster, outcome.removeprefix("ok"))
    assert {name: group["error"].split(" (")[0] for name, group in described.items()} == {
        "moved": "failed: error 16",
        "loading": "failed: error 14",
        "converted": "failed: error 69",
        "hidden": "not_allowed",
        "hidden topic": "not_allowed",
        "gone": "failed: dead to this request: gone, or of another type, since it was listed",
        "left out": "failed: broker 0",
        "of tomorrow": "not_supported",
    }
    assert {group["state"] for group in described.values()} == {"Stable"}
    assert not any("members" in group for group in described.values())


def test_a_broker_that_describes_nothing_leaves_its_groups_as_listed():
    cluster = Cluster(Node({0: 1, 1: 1}, [listed("a"), listed("b", "share")]))
    ask = cluster.ask

    def asking(address, question, deadline):
        if question.name == "DescribeGroupsRequest":
            raise PollError("timeout", "host:0: no answer in time")
        if question.name == "ShareGroupDescribeRequest":
            raise PollError("unsupported_version", "host:0: this broker's version has none")
        return ask(address, question, deadline)

    cluster.ask = asking
    late = "broker 0 (host:0): no answer in time (10.0 s, see enrichTimeout)"
    missing = f": 2 of 2 groups could not be described: {late}: 1; not_supported: 1"
    assert {name: group["error"] for name, group in groups(cluster, missing).items()} == {
        "a": f"failed: {late}",
        "b": "not_supported",
    }

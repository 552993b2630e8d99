"""Offsets as coordinators and leaders tell them, and what is made of what they do not tell."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from metadata_source import ends
from metadata_source.columns.polls import OFFSET, OFFSETS, POLLS
from metadata_source.enrichment import Subject
from metadata_source.errors import PollError
from metadata_source.many_brokers import Broker
from metadata_source.offsets import Wanted
from metadata_source.options import TopicFilter
from metadata_source.questions import EARLIEST
from tests.support.beside import answered
from tests.support.coordinators import BEGIN, Cluster, Node, listed
from tests.support.for_each import for_each

GONE, NO_LEADER, NOT_LISTED = (
    "not among the partitions of the poll's answer",
    "it has no leader",
    77,
)
TOPICS = {("a", 0): 0, ("a", 1): 1, ("b", 0): 1}
"""Who leads what."""
EVERY = TopicFilter()
OFFSET_FETCH_KEY, LIST_OFFSETS_KEY = 9, 2
TIMES = [name for name in OFFSET.names if "_read_" in name]


def two_brokers() -> Cluster:
    """Of which each leads one partition of the offsets topic."""
    one = Node({0: 5}, [listed("one"), listed("kip-848", "consumer")], logs={("a", 0): (2, 100)})
    one.commits = {"one": {("a", 0): (90, 3), ("b", 0): (5, -1)}, "kip-848": {("a", 1): (7, 1)}}
    other = Node({1: 5}, [listed("other", "streams"), listed("idle"), listed("shared", "share")])
    other.commits = {"other": {("a", 0): (100, 3)}, "idle": {}}
    other.logs = {("a", 1): (0, 8), ("b", 0): (0, 6)}
    return Cluster(one, other)


def about(
    cluster: Cluster,
    leaders: dict[tuple[str, int], int] = TOPICS,
    topic_filter: TopicFilter = EVERY,
    groups_pattern: str | None = None,
) -> Subject:
    rows = [
        {"topic": topic, "partition": number, "leader": leader}
        for (topic, number), leader in leaders.items()
    ]
    schema = pa.schema(
        [
            ("topic", pa.dictionary(pa.int32(), pa.string())),
            ("partition", pa.int32()),
            ("leader", pa.int32()),
        ]
    )
    wanted = Wanted(pa.Table.from_pylist(rows, schema), topic_filter, groups_pattern)
    brokers = tuple(Broker(number, address) for number, address in enumerate(cluster.nodes))
    return Subject(("groups", "offsets"), [], [], brokers, offsets=wanted)


def asked(cluster: Cluster, subject: Subject | None = None) -> tuple[str, list[dict[str, Any]]]:
    """The outcome, and the rows in their order."""
    outcome, rows = answered("offsets", subject or about(cluster), cluster)
    if rows is None:
        return outcome, []
    assert rows.topics is None
    assert isinstance(rows.values, pa.Array)
    assert rows.values.type == POLLS.field("offsets").type == OFFSETS
    rows.values.validate(full=True)
    return outcome, [told for row in rows.values.to_pylist() for told in row]


def in_short(told: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        tuple(
            each[name] for name in OFFSET.names if name not in {*TIMES, "is_simple", "last_stable"}
        )
        for each in told
    ]


EVERYTHING = [
    ("idle", None, None, None, None, None, None, None),
    ("kip-848", "a", 1, 7, 1, 0, 8, None),
    ("one", "a", 0, 90, 3, 2, 100, None),
    ("one", "b", 0, 5, None, 0, 6, None),
    ("other", "a", 0, 100, 3, 2, 100, None),
]


def requests(cluster: Cluster, name: str) -> list[tuple[int, dict[str, Any]]]:
    return [(number, values) for number, asked, values in cluster.asked if asked == name]


def test_offsets_of_groups_come_from_coordinators_and_ends_from_leaders():
    cluster = two_brokers()
    outcome, told = asked(cluster)
    assert outcome == "ok"
    assert in_short(told) == EVERYTHING
    assert len(requests(cluster, "OffsetFetchRequest")) == 2, (
        "one for the groups of each coordinator"
    )
    ends = [
        (number, topic["name"], each["partition_index"], each["timestamp"])
        for number, values in requests(cluster, "ListOffsetsRequest")
        if not values["isolation_level"]
        for topic in values["topics"]
        for each in topic["partitions"]
    ]
    assert sorted(ends) == [
        (leader, *key, end) for key, leader in TOPICS.items() for end in (-2, -1)
    ], "both ends of each partition with a commit, once"


def test_the_last_stable_offset_is_asked_where_a_group_is_behind():
    cluster = two_brokers()
    one, other = cluster.nodes.values()
    one.commits["one"] = {("a", 0): (100, 3), ("b", 0): (5, -1)}
    one.commits["kip-848"] = {("a", 1): (1, 1)}
    other.stable = {("a", 1): 3}
    outcome, told = asked(cluster)
    assert outcome == "ok"
    stable = {(each["topic"], each["partition"]): each["last_stable"] for each in told}
    assert stable == {(None, None): None, ("a", 0): None, ("a", 1): 3, ("b", 0): 6}
    asked_for = [
        (number, topic["name"], [each["partition_index"] for each in topic["partitions"]])
        for number, values in requests(cluster, "ListOffsetsRequest")
        if values["isolation_level"]
        for topic in values["topics"]
    ]
    assert asked_for == [(1, "a", [1]), (1, "b", [0])], "of a partition at its end there is no need"
    assert cluster.stable.standing == {}
    asked(cluster)
    assert cluster.stable.standing == {("a", 1): 3}


def test_a_last_stable_offset_that_nobody_tells_is_null_beside_ends_that_are_known():
    cluster = two_brokers()
    cluster.nodes["host", 1].stable = {("a", 1): -1}
    _, told = asked(cluster)
    (untold,) = (each for each in told if each["topic"] == "a" and each["partition"] == 1)
    assert (untold["log_end"], untold["last_stable"]) == (8, None)
    assert untold["error"] == "the leader left it out of its answer"
    assert cluster.stable.standing == {}
    cluster.versions = {LIST_OFFSETS_KEY: 1}  # before Kafka 0.11
    outcome, told = asked(cluster)
    assert outcome == "ok"
    assert {each["last_stable"] for each in told} == {None}
    assert in_short(told) == EVERYTHING


@pytest.mark.parametrize("is_described", [False, True])
def test_a_group_that_no_member_ever_joined_only_commits(is_described):
    node = Node(
        {0: 5, 1: 5},
        [listed("simple", protocol=""), listed("old", "", protocol=""), listed("classic")],
    )
    node.lists += [listed("kip-848", "consumer", protocol=""), listed("left", state="Empty")]
    cluster = Cluster(node)
    if is_described:
        answered("groups", about(cluster), cluster)
    _, told = asked(cluster)
    simple = {each["group_id"]: each["is_simple"] for each in told}
    assert simple == {
        "simple": True,
        "old": True,
        "classic": False,
        "kip-848": False,
        "left": False,
    }


def test_commits_are_read_before_ends_and_both_have_bounds():
    cluster = two_brokers()
    _, told = asked(cluster)
    of_topics = [each for each in told if each["topic"] is not None]
    for each in of_topics:
        times = [each[name] for name in TIMES]
        assert times == sorted(times), "who reads lag of it has bounds"
        assert times[1] - times[0] <= timedelta(seconds=3)
        assert times[3] - times[2] >= timedelta(seconds=3), "two questions: the later end first"
        assert times[0] >= BEGIN
    assert max(each["commit_read_before"] for each in of_topics) < min(
        each["ends_read_after"] for each in of_topics
    )
    (idle,) = (each for each in told if each["group_id"] == "idle")
    assert [idle[name] is None for name in TIMES] == [False, False, True, True]


def test_groups_that_were_listed_for_another_question_are_not_listed_twice():
    cluster = two_brokers()
    assert answered("groups", about(cluster), cluster)[0].startswith("ok")
    assert in_short(asked(cluster)[1]) == EVERYTHING
    assert len(requests(cluster, "ListGroupsRequest")) == 2

    lost = two_brokers()
    lost.nodes["host", 1].error = PollError("timeout", "host:1: no answer in time")
    outcome, _ = answered("groups", about(lost), lost)
    count = len(lost.asked)
    assert asked(lost) == (outcome, [])
    assert outcome.startswith("failed: broker 1 (host:1): no answer in time")
    assert len(lost.asked) == count, "a listing that failed is not tried again at once"


def test_groups_may_be_chosen_by_a_pattern_and_topics_by_the_filter():
    cluster = two_brokers()
    outcome, told = asked(cluster, about(cluster, groups_pattern="o.*|idle"))
    assert outcome == "ok"
    assert in_short(told) == [row for row in EVERYTHING if row[0] != "kip-848"]
    fetched = [
        each["group_id"]
        for _, values in requests(cluster, "OffsetFetchRequest")
        for each in values["groups"]
    ]
    assert sorted(fetched) == ["idle", "one", "other"]
    cluster = two_brokers()
    for topic_filter in (TopicFilter(topics=("b",)), TopicFilter(pattern="b|c")):
        outcome, told = asked(cluster, about(cluster, topic_filter=topic_filter))
        assert in_short(told) == [
            *((group, None, None, None, None, None, None, None) for group in ("idle", "kip-848")),
            EVERYTHING[3],
            ("other", None, None, None, None, None, None, None),
        ], "commits of other topics are left out"
    assert asked(cluster, about(cluster, groups_pattern="none"))[1] == []


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (30, "not_allowed"),
        (14, "failed: error 14 (CoordinatorLoadInProgressError)"),
        (16, "failed: error 16 (NotCoordinatorError)"),
        (69, "failed: error 69 (GroupIdNotFoundError)"),
    ],
)
@for_each("version", [7, 9])
def test_a_group_whose_commits_are_refused_is_null_with_the_reason(
    code: int, error: str, version: int
):
    cluster = two_brokers()
    cluster.versions[OFFSET_FETCH_KEY] = version
    cluster.nodes["host", 0].commits["one"] = code
    outcome, told = asked(cluster)
    assert outcome == (
        f"ok: 1 of 4 groups could not be asked for their commits: {error.removeprefix('failed: ')}"
    )
    assert in_short(told) == [
        *EVERYTHING[:2],
        ("one", None, None, None, None, None, None, error),
        EVERYTHING[4],
    ]


def test_a_group_that_its_coordinator_leaves_out_is_null_with_the_reason():
    cluster = two_brokers()
    del cluster.nodes["host", 0].commits["one"]
    reason = "broker 0 (host:0): the coordinator left it out of its answer"
    outcome, told = asked(cluster)
    assert outcome == f"ok: 1 of 4 groups could not be asked for their commits: {reason}"
    assert ("one", None, None, None, None, None, None, f"failed: {reason}") in in_short(told)


@pytest.mark.parametrize("turned", [False, True])
def test_a_group_that_moves_is_told_by_whoever_has_its_commits(turned: bool):
    nodes = two_brokers().nodes.values()
    cluster = Cluster(*(reversed([*nodes]) if turned else nodes))
    moved = cluster.nodes["host", int(not turned)]
    moved.lists.append(listed("one"))
    moved.commits["one"] = 16
    leaders = {key: 1 - leader if turned else leader for key, leader in TOPICS.items()}
    outcome, told = asked(cluster, about(cluster, leaders))
    assert (outcome, in_short(told)) == ("ok", EVERYTHING)


def test_older_brokers_are_asked_for_one_group_after_the_other():
    for version in range(2, 8):
        cluster = two_brokers()
        cluster.versions = {OFFSET_FETCH_KEY: version, LIST_OFFSETS_KEY: 1}
        outcome, told = asked(cluster)
        expected = [row if version >= 5 else (*row[:4], None, *row[5:]) for row in EVERYTHING]
        assert (outcome, in_short(told)) == ("ok", expected)
        assert len(requests(cluster, "OffsetFetchRequest")) == 4


def test_partitions_whose_ends_nobody_tells_are_null_with_the_reason():
    cluster = two_brokers()
    one, other = cluster.nodes.values()
    one.commits["one"] |= {
        ("gone", 3): (12, 0),
        ("leaderless", 0): (1, 0),
        ("elsewhere", 0): (1, 0),
    }
    other.logs = {("a", 1): 6}  # NOT_LEADER_OR_FOLLOWER; b is left out
    one.logs[("a", 0)] = 29
    leaders = TOPICS | {("leaderless", 0): -1, ("elsewhere", 0): NOT_LISTED}
    outcome, told = asked(cluster, about(cluster, leaders))
    reasons = {
        (group, topic): (start, end, error)
        for group, topic, _, _, _, start, end, error in in_short(told)
    }
    unlisted = f"its leader, broker {NOT_LISTED}, is not among the brokers of the poll's answer"
    assert reasons == {
        ("idle", None): (None, None, None),
        ("kip-848", "a"): (None, None, "failed: error 6 (NotLeaderForPartitionError)"),
        ("one", "a"): (None, None, "not_allowed"),
        ("one", "b"): (None, None, "the leader left it out of its answer"),
        ("one", "elsewhere"): (None, None, unlisted),
        ("one", "gone"): (None, None, GONE),
        ("one", "leaderless"): (None, None, NO_LEADER),
        ("other", "a"): (None, None, "not_allowed"),
    }
    assert [each["committed_offset"] for each in told] == [None, 7, 90, 5, 1, 12, 1, 100], (
        "commits are known"
    )
    assert outcome.startswith("ok: 6 of 6 partitions have no ends of their log: ")


def test_one_end_may_be_known_without_the_other():
    cluster = two_brokers()
    ends = cluster.ends

    def refuses_earliest(node: Node, request: dict[str, Any]) -> dict[str, Any]:
        if request["topics"][0]["partitions"][0]["timestamp"] == EARLIEST:
            raise PollError("unreachable", "closed the connection")
        return ends(node, request)

    cluster.ends = refuses_earliest
    outcome, told = asked(cluster)
    assert [each["log_end"] for each in told] == [None, 8, 100, 6, 100]
    assert {each["log_start"] for each in told} == {None}
    assert all(each["ends_read_before"] > each["ends_read_after"] for each in told if each["topic"])
    assert [each["error"] for each in told] == [
        None,
        *(f"failed: broker {n} (host:{n}): closed the connection" for n in (1, 0, 1, 0)),
    ]
    assert outcome.startswith("ok: 3 of 3 partitions have no ends of their log: ")


def test_what_expired_is_no_commit():
    cluster = two_brokers()
    cluster.nodes["host", 0].commits = {
        "one": {("a", 0): (-1, -1), ("b", 0): (5, -1)},
        "kip-848": {("a", 1): (-1, -1)},
    }
    outcome, told = asked(cluster)
    assert (outcome, in_short(told)) == (
        "ok",
        [
            EVERYTHING[0],
            ("kip-848", None, None, None, None, None, None, None),
            EVERYTHING[3],
            EVERYTHING[4],
        ],
    )


@pytest.mark.parametrize("metadata", [None, "", "anything" * 4_000])
def test_metadata_of_commits_are_not_kept(metadata: str | None):
    cluster = two_brokers()
    cluster.metadata_of_commits = metadata
    assert in_short(asked(cluster)[1]) == EVERYTHING


def test_a_coordinator_that_does_not_answer_leaves_its_groups_null():
    cluster = two_brokers()
    assert answered("groups", about(cluster), cluster)[0].startswith("ok")
    cluster.nodes["host", 1].error = PollError("unreachable", "host:1: refused")
    outcome, told = asked(cluster)
    reason = "failed: broker 1 (host:1): refused"
    assert in_short(told) == [
        ("idle", None, None, None, None, None, None, reason),
        ("kip-848", "a", 1, 7, 1, None, None, reason),
        EVERYTHING[2],
        ("one", "b", 0, 5, None, None, None, reason),
        ("other", None, None, None, None, None, None, reason),
    ]
    assert outcome == (
        "ok: 2 of 4 groups could not be asked for their commits: broker 1 (host:1): refused; 2 of "
        "3 partitions have no ends of their log: broker 1 (host:1): refused"
    )


def test_nothing_is_asked_when_no_time_is_left():
    cluster = two_brokers()
    assert answered("groups", about(cluster), cluster)[0].startswith("ok")
    count, cluster.seconds = len(cluster.asked), 0.0
    outcome, told = asked(cluster)
    assert len(cluster.asked) == count
    assert {each["group_id"] for each in told} == {"idle", "kip-848", "one", "other"}
    assert all(
        "not asked, no time was left (0.0 s, see enrichTimeout)" in each["error"] for each in told
    )
    assert outcome.startswith("ok: 4 of 4 groups could not be asked for their commits: ")


def test_many_groups_are_asked_in_parts_and_answers_that_are_too_large_in_smaller_ones():
    names = [f"g-{n:03}" for n in range(120)]
    node = Node({0: 1, 1: 1}, [listed(name) for name in names], logs={("a", 0): (0, 9)})
    node.commits = {name: {("a", 0): (n, 0)} for n, name in enumerate(names)}
    cluster = Cluster(node)
    ask = cluster.ask

    def limited(address: Any, question: Any, deadline: float) -> Any:
        if question.name == "OffsetFetchRequest" and len(question.fields["groups"]) > 20:
            raise PollError("too_large", "host:0: an answer of more than maxResponseBytes")
        return ask(address, question, deadline)

    cluster.ask = limited
    outcome, told = asked(cluster, about(cluster, {("a", 0): 0}))
    assert outcome == "ok"
    assert [(each["group_id"], each["committed_offset"], each["log_end"]) for each in told] == [
        (name, n, 9) for n, name in enumerate(names)
    ]
    assert {len(values["groups"]) for _, values in requests(cluster, "OffsetFetchRequest")} <= {
        12,
        13,
        20,
    }


def test_many_partitions_are_asked_in_parts_and_stand_in_rows_of_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(ends, "_PARTITIONS_A_REQUEST", 700)
    partitions = {(f"t-{n % 3}", n): n for n in range(2_500)}
    node = Node(
        {0: 1, 1: 1}, [listed("g")], logs={key: (n, 2 * n) for key, n in partitions.items()}
    )
    node.commits = {"g": {key: (n, 1) for key, n in partitions.items()}}
    cluster = Cluster(node)
    _, rows = answered("offsets", about(cluster, dict.fromkeys(partitions, 0)), cluster)
    assert [len(row) for row in rows.values.to_pylist()] == [1_000, 1_000, 500]
    told = [each for row in rows.values.to_pylist() for each in row]
    assert [(each["topic"], each["partition"]) for each in told] == sorted(partitions)
    assert all(
        (each["committed_offset"], each["log_start"], each["log_end"])
        == (each["partition"], each["partition"], 2 * each["partition"])
        for each in told
    )
    assert len(requests(cluster, "ListOffsetsRequest")) == 3 * 4


def test_an_answer_that_lists_something_twice_is_refused():
    cluster = two_brokers()
    one, other = cluster.nodes.values()
    group = cluster.group

    def twice(group_id: str, commits: Any) -> dict[str, Any]:
        told = group(group_id, commits)
        return told | {"topics": told["topics"] * 2} if group_id == "one" else told

    cluster.group = twice
    ends = cluster.ends
    cluster.ends = lambda node, request: (
        ends(node, request)
        if node is one
        else (told := ends(node, request)) | {"topics": told["topics"] * 2}
    )
    outcome, told = asked(cluster)
    assert other.logs
    odd = "failed: broker {0} (host:{0}): its answer lists {1} twice, or a negative one"
    assert {each["error"] for each in told if each["group_id"] in {"one", "kip-848"}} == {
        odd.format(0, "a group or a partition")
    }
    assert outcome.startswith("ok: 2 of 4 groups could not be asked for their commits: ")

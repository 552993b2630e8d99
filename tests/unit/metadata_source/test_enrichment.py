"""What is asked beside metadata and what answers are taken to mean, in kafka-python's own messages;
when it is asked.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)

from metadata_source import connections, questions
from metadata_source.asking import Asking
from metadata_source.brokers import Brokers
from metadata_source.columns.polls import POLLS
from metadata_source.enrichment import Rows, Subject, subject
from metadata_source.errors import PollError
from metadata_source.many_brokers import Broker
from metadata_source.options import TopicFilter, parse
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.protocol.metadata import BROKERS, PARTITIONS, TOPICS, ClusterMetadata
from metadata_source.questions import MIN_ISR
from tests.support.beside import answered
from tests.support.messages import Answering

EVERY = tuple(ENRICHMENTS)
ASKED_OF_ONE = tuple(kind for kind in ENRICHMENTS if kind not in {"groups", "offsets"})


class Answered:
    """Keeps what is asked and answers with these messages, both as they come out of their bytes; or
    raises.
    """

    def __init__(self, *answers, supported: bool = True) -> None:
        self._answers = iter(answers)
        self._supported = supported
        self.asked = []

    def require(self, question) -> None:
        if not self._supported:
            raise PollError("unsupported_version", "one:9092: none")

    def ask(self, question):
        request, version = question.request, question.request.max_version
        asked = request(version=version, **question.fields)
        self.asked.append(request.decode(asked.encode(version=version), version=version))
        given = next(self._answers)
        if isinstance(given, Exception):
            raise given
        return given.decode(given.encode(version=version), version=version)


def about(*topics: str, reduced=()) -> Subject:
    return Subject(EVERY, list(topics), list(reduced))


def configs(*results: tuple) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        results=[
            result(
                error_code=code,
                error_message="",
                resource_type=2,
                resource_name=name,
                configs=[
                    config(
                        name=key, value=value, config_source=4 if key == MIN_ISR else 5, synonyms=[]
                    )
                    for key, value in values.items()
                ],
            )
            for name, code, values in results
        ]
    )


def reassignments(code: int = 0, **topics: list) -> ListPartitionReassignmentsResponse:
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    return ListPartitionReassignmentsResponse(
        error_code=code,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=[1, *adding, *removing],
                        adding_replicas=adding,
                        removing_replicas=removing,
                    )
                    for index, adding, removing in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def quorum(code: int = 0, inner: int = 0) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData
    replica = partition.ReplicaState
    described = partition(
        partition_index=0,
        error_code=inner,
        leader_id=3,
        leader_epoch=17,
        high_watermark=9,
        current_voters=[replica(replica_id=n, log_end_offset=1) for n in (1, 2, 3)],
        observers=[replica(replica_id=4, log_end_offset=1)],
    )
    topics = [] if code else [topic(topic_name="__cluster_metadata", partitions=[described])]
    return DescribeQuorumResponse(error_code=code, topics=topics, nodes=[])


def fenced(code: int = 0) -> DescribeClusterResponse:
    broker = DescribeClusterResponse.DescribeClusterBroker
    brokers = [
        broker(broker_id=n, host=f"b{n}", port=9092, rack="r" if n == 2 else None, is_fenced=n > 1)
        for n in (1, 2, 3)
    ]
    return DescribeClusterResponse(error_code=code, cluster_id="id", brokers=brokers)


def page(cursor: tuple[str, int] | None, **topics: list) -> DescribeTopicPartitionsResponse:
    """`topics`: name -> (partition, elr, last known elr, ISR unless empty) of each partition, or an
    error code.
    """
    response = DescribeTopicPartitionsResponse
    topic = response.DescribeTopicPartitionsResponseTopic
    return response(
        topics=[
            topic(
                error_code=partitions if isinstance(partitions, int) else 0,
                name=name,
                topic_id=None,
                partitions=[
                    topic.DescribeTopicPartitionsResponsePartition(
                        partition_index=index,
                        error_code=5,
                        leader_id=-1,
                        replica_nodes=[1, 2],
                        isr_nodes=isr,
                        eligible_leader_replicas=elr,
                        last_known_elr=last_known,
                        offline_replicas=[],
                    )
                    for index, elr, last_known, *isr in (
                        [] if isinstance(partitions, int) else partitions
                    )
                ],
            )
            for name, partitions in topics.items()
        ],
        next_cursor=None
        if cursor is None
        else response.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


EMPTY = {
    "configs": configs(("a", 0, {})),
    "reassignments": reassignments(),
    "quorum": quorum(),
    "elr": page(None, a=[]),
    "fenced": fenced(),
}
REFUSED = {
    "configs": lambda code: configs(("a", code, {})),
    "reassignments": reassignments,
    "quorum": quorum,
    "elr": lambda code: page(None, a=code),
    "fenced": fenced,
}
ONE = about("a", reduced=[("a", 1)])


def arrow(kind: str, rows: Rows) -> list:
    """The values as bronze holds them."""
    array = pa.array(rows.values, POLLS.field(kind).type)
    array.validate(full=True)
    return array.to_pylist()


def test_configs_are_of_every_topic_and_null_where_they_may_not_be_read():
    both = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    asker = Answered(configs(("a", 0, both), ("gone", 3, {}), ("secret", 29, {})))
    outcome, rows = answered("configs", about("a", "gone", "secret"), asker)
    assert (outcome, rows.topics) == ("ok", ["a", "secret"])
    assert arrow("configs", rows) == [
        [
            ("min.insync.replicas", {"value": "2", "source": "STATIC_BROKER_CONFIG"}),
            ("unclean.leader.election.enable", {"value": "false", "source": "DEFAULT_CONFIG"}),
        ],
        None,
    ]
    (request,) = asker.asked
    assert [(each.resource_type, each.resource_name) for each in request.resources] == [
        (2, "a"),
        (2, "gone"),
        (2, "secret"),
    ]
    assert {tuple(each.configuration_keys) for each in request.resources} == {tuple(both)}
    assert (request.include_synonyms, request.include_documentation) == (False, False)


def test_configs_of_many_topics_are_asked_for_in_parts():
    topics = [f"t{n}" for n in range(1_001)]
    asker = Answered(
        *(
            configs(*((name, 0, {}) for name in topics[begin : begin + 500]))
            for begin in (0, 500, 1_000)
        )
    )
    outcome, rows = answered("configs", about(*topics), asker)
    assert (outcome, rows.topics, len(asker.asked)) == ("ok", sorted(topics), 3)
    assert answered("configs", about(), Answered()) == ("ok", Rows([], []))


def test_configs_that_nobody_may_read_are_not_allowed():
    assert answered(
        "configs", about("a", "b"), Answered(configs(("a", 29, {}), ("b", 29, {})))
    ) == (
        "not_allowed",
        None,
    )


def test_reassignments_of_the_topics_that_are_covered():
    asker = Answered(reassignments(a=[(0, [3], [1]), (2, [], [2])], other=[(0, [1], [])]))
    outcome, rows = answered("reassignments", about("a", "b"), asker)
    assert (outcome, rows.topics) == ("ok", ["a"])
    assert arrow("reassignments", rows) == [
        [
            {"partition": 0, "adding": [3], "removing": [1]},
            {"partition": 2, "adding": [], "removing": [2]},
        ]
    ]
    assert asker.asked[0].topics is None


class WithZooKeeper(Answered):
    """A broker that is not the controller; the answers are those of brokers that are visited, at
    `visited`.
    """

    def __init__(self, *answers) -> None:
        super().__init__(reassignments(41), *answers)
        self.visited = []

    def visits(self):
        def visit(address, question, deadline):
            self.visited.append((address, deadline))
            return self.ask(question)

        return SimpleNamespace(ask=visit, deadline=7.0)


def test_reassignments_are_asked_of_the_controller_where_brokers_forward_nothing():
    brokers = (Broker(1, ("one", 9092)), Broker(2, ("two", 9092)))
    asker = WithZooKeeper(reassignments(a=[(0, [3], [1])]))
    outcome, rows = answered(
        "reassignments", replace(about("a"), brokers=brokers, controller_id=2), asker
    )
    assert (outcome, rows.topics, asker.visited) == ("ok", ["a"], [(("two", 9092), 7.0)])
    # It has moved meanwhile.
    asker = WithZooKeeper(reassignments(41))
    moved = answered("reassignments", replace(about("a"), brokers=brokers, controller_id=2), asker)
    assert moved == ("failed: error 41 (NotControllerError)", None)
    # None is named: nobody else is asked.
    asker = WithZooKeeper()
    unnamed = answered(
        "reassignments", replace(about("a"), brokers=brokers, controller_id=-1), asker
    )
    assert (unnamed, asker.visited) == (moved, [])


def test_the_quorum():
    asker = Answered(quorum())
    outcome, rows = answered("quorum", about(), asker)
    assert (outcome, rows.topics) == ("ok", None)
    assert arrow("quorum", rows) == [
        {"leader_id": 3, "leader_epoch": 17, "voters": [1, 2, 3], "observers": [4]}
    ]


def test_fenced_brokers():
    outcome, rows = answered("fenced", about(), Answered(fenced()))
    assert (outcome, rows.topics) == ("ok", None)
    assert arrow("fenced", rows) == [
        [
            {"broker_id": 2, "host": "b2", "port": 9092, "rack": "r"},
            {"broker_id": 3, "host": "b3", "port": 9092, "rack": None},
        ]
    ]


def test_eligible_leaders_come_in_pages_and_only_of_topics_that_may_have_some():
    asker = Answered(
        page(("b", 1), a=[(0, [2], []), (1, [], [])], b=[(0, None, None)]),
        page(None, b=[(1, [], [1])], gone=3),
        page(None, large=[(0, [1, 2], [3]), (1, [3], [], 1, 2), (2, [3], [], 1, 3)]),
    )
    reduced = [("a", 2), ("b", 2), ("gone", 1), ("large", 5_000)]
    outcome, rows = answered("elr", about("a", "b", "whole", reduced=reduced), asker)
    assert (outcome, rows.topics) == ("ok", ["a", "b", "large"])
    assert arrow("elr", rows) == [
        [{"partition": 0, "elr": [2], "last_known_elr": []}],
        [{"partition": 1, "elr": [], "last_known_elr": [1]}],
        # Its ISR is as large as its replicas, and lacks one.
        [
            {"partition": 0, "elr": [1, 2], "last_known_elr": [3]},
            {"partition": 2, "elr": [3], "last_known_elr": []},
        ],
    ]
    assert [[topic.name for topic in request.topics] for request in asker.asked] == [
        ["a", "b", "gone"],
        ["a", "b", "gone"],
        ["large"],
    ]
    assert [
        request.cursor and (request.cursor.topic_name, request.cursor.partition_index)
        for request in asker.asked
    ] == [
        None,
        ("b", 1),
        None,
    ]
    assert {request.response_partition_limit for request in asker.asked} == {2_000}


def test_no_eligible_leaders_are_asked_for_where_every_isr_is_whole():
    assert answered("elr", about("a"), Answered()) == ("ok", Rows([], []))
    assert answered("elr", about("a"), Answered(supported=False)) == ("not_supported", None)


@pytest.mark.parametrize("kind", ASKED_OF_ONE)
def test_outcomes(kind):
    assert answered(kind, ONE, Answered(EMPTY[kind]))[0] == "ok"
    for code in (29, 31):
        assert answered(kind, ONE, Answered(REFUSED[kind](code))) == ("not_allowed", None)
    assert answered(kind, ONE, Answered(REFUSED[kind](35))) == ("not_supported", None)
    assert answered(kind, ONE, Answered(REFUSED[kind](41))) == (
        "failed: error 41 (NotControllerError)",
        None,
    )
    unsupported = PollError(
        "unsupported_version", "one:9092: this broker's version has no such request"
    )
    assert answered(kind, ONE, Answered(unsupported)) == ("not_supported", None)
    timeout = PollError("timeout", "one:9092: no answer in time")
    assert answered(kind, ONE, Answered(timeout)) == ("failed: one:9092: no answer in time", None)
    stumbled = answered(kind, ONE, Answered(KeyError("two\nlines")))[0]
    assert stumbled.startswith(
        "failed: this program stumbled over what the broker answered (KeyError: "
    )


def test_brokers_may_list_things_in_any_order():
    """Equal answers are equal rows, and so have equal digests."""
    both = {"unclean.leader.election.enable": "false", "min.insync.replicas": "2"}
    reversed_quorum, reversed_brokers = quorum(), fenced()
    (described,) = reversed_quorum.topics[0].partitions
    described.current_voters.reverse()
    described.observers = [
        type(described.observers[0])(replica_id=n, log_end_offset=1) for n in (5, 4, 5, 4)
    ]
    one_observer_more = quorum()
    one_observer_more.topics[0].partitions[0].observers.append(described.observers[0])
    reversed_brokers.brokers.reverse()
    for kind, one, other in (
        (
            "configs",
            configs(("a", 0, both), ("b", 0, {})),
            configs(("b", 0, {}), ("a", 0, dict(reversed(both.items())))),
        ),
        (
            "reassignments",
            reassignments(a=[(0, [3, 4], [1]), (2, [], [2, 1])], b=[(0, [1], [])]),
            reassignments(b=[(0, [1], [])], a=[(2, [], [1, 2]), (0, [4, 3], [1])]),
        ),
        ("quorum", one_observer_more, reversed_quorum),
        ("fenced", fenced(), reversed_brokers),
        (
            "elr",
            page(None, a=[(0, [1], []), (1, [2], [3, 4])]),
            page(None, a=[(1, [2], [4, 3]), (0, [1], [])]),
        ),
    ):
        subject_of = about("a", "b", reduced=[("a", 2)])
        outcomes = [answered(kind, subject_of, Answered(each)) for each in (one, other)]
        assert outcomes[0][0] == "ok"
        assert outcomes[0] == outcomes[1]


def twice(response, kind: str):
    listed = {"configs": "results", "reassignments": "topics", "fenced": "brokers"}[kind]
    getattr(response, listed).append(getattr(response, listed)[0])
    return response


def voter_twice() -> DescribeQuorumResponse:
    response = quorum()
    voters = response.topics[0].partitions[0].current_voters
    voters.append(voters[0])
    return response


@pytest.mark.parametrize(
    ("kind", "given_answer", "problem"),
    [
        ("configs", twice(configs(("a", 0, {})), "configs"), "topic a is listed twice"),
        (
            "reassignments",
            twice(reassignments(a=[(0, [3], [])]), "reassignments"),
            "topic a is listed twice",
        ),
        (
            "reassignments",
            reassignments(a=[(7, [3], []), (7, [], [1])]),
            "topic a, partition 7 is listed twice",
        ),
        ("reassignments", reassignments(a=[(-2, [3], [])]), "topic a, partition -2 is negative"),
        (
            "reassignments",
            reassignments(a=[(0, [3, 3], [])]),
            "topic a, partition 0, adding: broker 3 is listed twice",
        ),
        ("quorum", voter_twice(), "voter 1 is listed twice"),
        ("fenced", twice(fenced(), "fenced"), "broker 1 is listed twice"),
        ("elr", page(None, a=[(0, [2], []), (0, [], [1])]), "topic a, partition 0 is listed twice"),
        (
            "elr",
            page(None, a=[(0, [2, 2], [])]),
            "topic a, partition 0, elr: broker 2 is listed twice",
        ),
    ],
)
def test_an_odd_answer_is_a_failure_of_its_kind(kind, given_answer, problem):
    assert answered(kind, ONE, Answered(given_answer)) == (f"failed: {problem}", None)


def test_a_configuration_that_is_listed_twice_is_odd():
    """A map of Spark has each key once."""
    response = configs(("a", 0, {"min.insync.replicas": "2"}))
    response.results[0].configs.append(response.results[0].configs[0])
    assert answered("configs", ONE, Answered(response)) == (
        "failed: topic a: configuration min.insync.replicas is listed twice",
        None,
    )


def test_an_error_of_the_quorums_partition_is_one():
    assert answered("quorum", about(), Answered(quorum(inner=31))) == ("not_allowed", None)
    assert answered("quorum", about(), Answered(quorum(inner=6)))[0].startswith("failed: error 6 (")


def metadata(*topics: tuple[str | None, int, list[tuple[list[int], list[int]]]]) -> ClusterMetadata:
    """`topics`: name, error code, replicas and ISR of each partition."""
    partitions = [
        {
            "topic": name,
            "partition": index,
            "error_code": 0,
            "leader": 1,
            "replicas": replicas,
            "isr": isr,
        }
        for name, _, entries in topics
        for index, (replicas, isr) in enumerate(entries)
    ]
    listed = [
        {"topic": name, "error_code": code, "partition_count": len(entries)}
        for name, code, entries in topics
    ]
    return ClusterMetadata(
        cluster_id="id",
        controller_id=1,
        throttle_time_ms=0,
        error_code=0,
        cluster_authorized_operations=None,
        brokers=BROKERS.empty_table(),
        topics=pa.Table.from_pylist(listed, TOPICS),
        partitions=pa.Table.from_pylist(partitions, PARTITIONS),
    )


def test_a_subject_is_the_topics_that_exist_and_those_with_a_reduced_isr():
    answered = metadata(
        ("whole", 0, [([1, 2], [2, 1])]),
        ("reduced", 0, [([1, 2], [2, 1]), ([1, 2], [1])]),
        # Members count, not sizes.
        ("as large", 0, [([1, 2], [1, 3])]),
        ("empty", 0, []),
        ("missing", 3, []),
        (None, 0, []),
        ("leaderless", 0, [([1], [])]),
    )
    made = subject({"configs", "elr", "fenced"}, answered)
    assert made.enrichments == ("fenced", "elr", "configs")
    assert made.topics == ["whole", "reduced", "as large", "empty", "leaderless"]
    assert made.reduced == [("reduced", 2), ("as large", 1), ("leaderless", 1)]
    assert subject({"configs"}, answered).reduced == []
    nothing = subject(EVERY, metadata())
    assert nothing == replace(
        made, enrichments=nothing.enrichments, topics=[], reduced=[], offsets=nothing.offsets
    )
    assert made.offsets is None
    wanted = subject({"offsets"}, answered, TopicFilter(pattern="x"), "g").offsets
    assert (wanted.topic_filter.pattern, wanted.groups_pattern) == ("x", "g")
    assert wanted.leaders.to_pylist() == [
        {name: each[name] for name in ("topic", "partition", "leader")}
        for each in answered.partitions.to_pylist()
    ]


def test_what_the_broker_forwards_is_asked_last():
    assert subject(EVERY, metadata()).enrichments[-2:] == ("reassignments", "quorum")
    assert sorted(subject(EVERY, metadata()).enrichments) == sorted(EVERY)


# When and over what: `asking`.


ADDRESS = ("one", 9092)


@pytest.fixture
def asking() -> Asking:
    cluster = parse({"kafka.bootstrap.servers": "one:9092"}).clusters[0]
    return Asking(cluster, Brokers(cluster.bootstrap_servers), 1_000)


def connect(asking: Asking, connection) -> None:
    """Let there be this connection."""
    asking._connections._kept[connection.address] = connection


class Connected(Answering):
    """A connection that answers with these messages, or raises."""

    def __init__(self, *answers) -> None:
        self.address = ("one", 9092)
        self.api_versions = dict.fromkeys(range(100), (0, 20))
        self.closed = False
        self._answers = iter(answers)

    def ask(self, request, deadline):
        assert not self.closed
        given = next(self._answers)
        if isinstance(given, Exception):
            raise given
        return given

    def close(self) -> None:
        self.closed = True


BEGAN = datetime.now(UTC)


def enriched(asking: Asking, *kinds: str):
    answers = list(asking.answers(Subject(kinds, [], []), ADDRESS))
    for each in answers:
        assert (each.asked_at is None) == each.outcome.startswith("failed: put off")
        assert (each.answered_at is not None) == (each.rows is not None) == (each.outcome == "ok")
        assert (
            each.answered_at is None
            or BEGAN <= each.asked_at <= each.answered_at <= datetime.now(UTC)
        )
    asked = [each.asked_at for each in answers if each.asked_at]
    assert asked == sorted(asked)
    return {each.enrichment: each.outcome for each in answers}


def test_a_connection_that_is_lost_is_made_again_for_the_rest(asking, monkeypatch):
    connect(
        asking,
        connection := Connected(
            PollError("protocol", "one:9092: ListGroupsResponse v4: groups: null")
        ),
    )
    monkeypatch.setattr(connections, "Connection", lambda *_: Connected(quorum()))
    assert enriched(asking, "reassignments", "quorum") == {
        "reassignments": "failed: one:9092: ListGroupsResponse v4: groups: null",
        "quorum": "ok",
    }
    assert connection.closed


def test_each_kind_has_its_time_and_those_that_fail_come_last(asking, monkeypatch):
    """One that gets no answer takes all of its time, time after time."""

    class Silent(Connected):
        def ask(self, request, deadline):
            if "Quorum" in type(request).__name__ or "Reassignments" in type(request).__name__:
                time.sleep(max(0.0, deadline - time.monotonic()))
                raise PollError("timeout", "one:9092: no answer in time")
            return super().ask(request, deadline)

    monkeypatch.setattr(connections, "Connection", lambda *_: Silent(fenced()))
    connect(asking, Silent(fenced()))
    asking._timeout_s = 0.1
    kinds, timed_out = ("reassignments", "fenced", "quorum"), "failed: one:9092: no answer in time"
    for order in (
        kinds,
        ("fenced", "reassignments", "quorum"),
        ("fenced", "reassignments", "quorum"),
    ):
        begin = time.monotonic()
        asked = enriched(asking, *kinds)
        assert list(asked) == list(order)
        assert asked == {"fenced": "ok", "reassignments": timed_out, "quorum": timed_out}
        assert 0.2 <= time.monotonic() - begin < 0.6


def test_a_refusal_leaves_the_connection_to_the_next(asking):
    connect(asking, connection := Connected(reassignments(31), quorum()))
    assert enriched(asking, "reassignments", "quorum") == {
        "reassignments": "not_allowed",
        "quorum": "ok",
    }
    connection.api_versions = {}
    assert enriched(asking, "reassignments", "elr") == {
        "reassignments": "not_supported",
        "elr": "not_supported",
    }
    assert not connection.closed


def test_throttling_is_obeyed(asking):
    throttled = fenced()
    throttled.throttle_time_ms = 200
    connect(asking, Connected(throttled, quorum()))
    begin = time.monotonic()
    assert enriched(asking, "fenced", "quorum") == {"fenced": "ok", "quorum": "ok"}
    assert 0.2 <= time.monotonic() - begin < 0.6
    asking._brokers.throttle(ADDRESS, 5_000)
    (said,) = enriched(asking, "quorum").values()
    assert said.startswith("failed: put off: throttled by the broker for another ")


def test_the_questions_of_a_kind_take_no_longer_than_they_may(asking, monkeypatch):
    asking._timeout_s = 2.0
    connect(asking, connection := Connected(fenced()))
    deadlines = []
    monkeypatch.setattr(
        questions.Question,
        "ask",
        lambda _, __, deadline: deadlines.append(deadline) or SimpleNamespace(),
    )
    begin = time.monotonic()
    list(asking.answers(Subject(("fenced",), [], []), ADDRESS))
    assert 1.9 < deadlines[0] - begin < 2.1
    assert not connection.closed

"""Questions beside metadata, and the meaning of answers, in kafka-python's own messages."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from metadata_source import enrichment
from metadata_source.columns.polls import POLLS
from metadata_source.enrichment import Rows, Subject, subject
from metadata_source.errors import PollError
from metadata_source.many_brokers import Broker
from metadata_source.options import TopicFilter
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.protocol.metadata import BROKERS, PARTITIONS, TOPICS, ClusterMetadata
from tests.support.beside import answered
from tests.support.enrichment_answers import NOW_MS, configs, fenced, page, quorum, reassignments

EVERY = tuple(ENRICHMENTS)
ASKED_OF_ONE = tuple(
    kind for kind in ENRICHMENTS if kind not in {"groups", "offsets", "transactions", "log_dirs"}
)


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
    ) == ("not_allowed", None)


def test_reassignments_of_the_topics_that_are_covered():
    asker = Answered(reassignments(a=[(0, [3], [1]), (2, [], [2])], other=[(0, [1], [])]))
    known = replace(about("a", "b"), brokers=(Broker(1, ("one", 9092)),), controller_id=1)
    outcome, rows = answered("reassignments", known, asker)
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
    (replicas,) = rows.beside["quorum_replicas"]
    at = datetime.fromtimestamp((NOW_MS + 9) / 1000, UTC)
    (told,) = pa.array([replicas], POLLS.field("quorum_replicas").type).to_pylist()
    assert told == [
        {"replica_id": n, "is_voter": n < 4, "is_behind": False, "log_end_offset": 9}
        | {"last_fetch_at": at, "last_caught_up_at": at}
        for n in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize(
    ("behind_ms", "behind"),
    [
        ({}, []),
        ({1: 2_000, 4: 9_000}, []),
        ({1: 2_001, 4: 9_001}, [[1, True], [4, False]]),
        ({2: None}, [[2, True]]),
        # A version that does not say when: nobody knows.
        (dict.fromkeys((1, 2, 3, 4)), None),
    ],
)
def test_who_is_behind_in_the_quorum(behind_ms, behind):
    _, rows = answered("quorum", about(), Answered(quorum(behind_ms=behind_ms)))
    assert [*rows.stands_out] == (behind or [])
    (replicas,) = rows.beside["quorum_replicas"]
    expected = None if behind is None else False
    assert [each["is_behind"] for each in replicas] == [
        [each["replica_id"], each["is_voter"]] in (behind or []) or expected for each in replicas
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
    ] == [None, ("b", 1), None]
    assert {request.response_partition_limit for request in asker.asked} == {2_000}


def test_a_topic_that_is_larger_than_a_page_is_asked_for_alone():
    """A question about no topic would be about every one."""
    asker = Answered(page(None, large=[(0, [1], [])]))
    assert answered("elr", about(reduced=[("large", 5_000)]), asker)[0] == "ok"
    assert [[topic.name for topic in request.topics] for request in asker.asked] == [["large"]]


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
        type(described.observers[0])(
            replica_id=n,
            log_end_offset=9,
            last_fetch_timestamp=NOW_MS + 9,
            last_caught_up_timestamp=NOW_MS + 9,
        )
        for n in (5, 4, 5, 4)
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
        # Of one that is there twice there are two.
        assert outcomes[0][1].stands_out == outcomes[1][1].stands_out == ()
        outcomes = [(outcome, replace(rows, beside={})) for outcome, rows in outcomes]
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


def test_an_answer_is_not_before_its_question_though_the_clock_is_set_back(monkeypatch):
    times = iter([datetime(2026, 11, 1, 12, tzinfo=UTC), datetime(2026, 11, 1, 11, tzinfo=UTC)])
    monkeypatch.setattr(enrichment, "datetime", SimpleNamespace(now=lambda _: next(times)))
    found = enrichment.answer("fenced", about(), Answered(fenced()))
    assert found.asked_at == found.answered_at == datetime(2026, 11, 1, 12, tzinfo=UTC)

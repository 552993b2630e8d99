"""Every request that the product sends, as its own functions make it; and by hand the fields that a
broker must read in it, by the names of Kafka's JSON: those of all versions together.
"""

import ast
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

import metadata_source
from metadata_source import group_descriptions, groups, questions
from metadata_source.attempts import Attempts
from metadata_source.errors import PollError
from metadata_source.features import features_request
from metadata_source.logs.cluster import controllers
from metadata_source.logs.topic.watcher import Led, LogWatcher
from metadata_source.many_brokers import Broker, Time
from metadata_source.probes import Prober
from metadata_source.questions import FetchFrom, Question, TopicQuestion
from metadata_source.raw_requests import RawRequest

CLIENT = "kafka-metadata-history"
CORRELATION = 7
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_ADDRESS = ("127.0.0.1", 9092)


class Asked(NamedTuple):
    """A request: API key, first and last version that may be negotiated, how it is sent, and what
    it must say.
    """

    versions: tuple[int, int, int]
    send: Callable[["_Wire", int], Any]
    fields: dict[str, Any]

    def frame(self, version: int) -> bytes:
        """The request with its header, without the length before it."""
        wire = _Wire()
        wire.api_versions = {self.versions[0]: (version, version)}
        with contextlib.suppress(_SentError):
            self.send(wire, version)
        return wire.frame


class _SentError(Exception):
    """Ends a question once its request has been sent."""


class _Wire:
    """In the place of a connection: keeps what is sent."""

    address = _ADDRESS
    sent_at = None
    frame = b""
    api_versions: dict[int, tuple[int, int]]

    def request(
        self,
        api_key: int,
        version: int,
        body: bytes,
        *,
        flexible: bool,
        deadline: float,
        with_features: bool = False,
    ) -> Any:
        self.ask(RawRequest(api_key, version, body, flexible), deadline)

    def ask(self, request: Any, deadline: float) -> Any:
        request.with_header(CORRELATION, CLIENT)
        framed = bytes(request.encode(framed=True, header=True))
        assert int.from_bytes(framed[:4]) == len(framed) - 4
        self.frame = framed[4:]
        raise _SentError


class _Questions:
    """In the place of whoever asks brokers: keeps the questions."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def ask_broker(self, _address: Any, question: Question, _deadline: float) -> Any:
        self.asked.append(question)
        raise PollError("timeout", "never sent")

    ask = ask_broker


def _by_question(question: Question, **fields: Any) -> Asked:
    return Asked(question.versions, lambda wire, _: question.ask(wire, 0.0), fields)


def _metadata(**fields: Any) -> dict[str, Any]:
    told = {"allowAutoTopicCreation": False, "includeClusterAuthorizedOperations": False}
    return told | {"includeTopicAuthorizedOperations": False} | fields


def _named(*names: str) -> list[dict[str, Any]]:
    return [{"topicId": _NO_ID, "name": name} for name in names]


def _polls() -> Iterator[Asked]:
    def send(names: tuple[str, ...] | None) -> Callable[[_Wire, int], Any]:
        cluster = SimpleNamespace(metadata_version=None)
        attempts = SimpleNamespace(_cluster=cluster, _filter=SimpleNamespace(topics=names))
        return lambda wire, _: Attempts._request(attempts, wire, 0.0, None)

    # Version 0 asks for all topics by naming none.
    yield Asked((3, 0, 0), send(None), _metadata(topics=[]))
    yield Asked((3, 1, 13), send(None), _metadata(topics=None))
    yield Asked(
        (3, 4, 13),
        send(("orders", "zahlungen-ü")),
        _metadata(topics=_named("orders", "zahlungen-ü")),
    )


def _topics() -> Iterator[Asked]:
    fields = _metadata(includeTopicAuthorizedOperations=True)
    for (first, last), topics in {(0, 0): [], (1, 9): None, (10, 13): _named("t")}.items():
        question = TopicQuestion("t")
        assert question.versions == (3, 0, 13)
        yield _by_question(question, **fields, topics=topics)._replace(versions=(3, first, last))


def _fetches() -> Iterator[Asked]:
    of_client = {
        "replicaId": -1,
        "replicaState": {"replicaId": -1, "replicaEpoch": -1},
        "maxWaitMs": 500,
    }
    of_client |= {"minBytes": 1, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1}
    of_client |= {"forgottenTopicsData": [], "rackId": ""}
    for topic, cluster_id in (("__consumer_offsets", None), (UUID(int=1), "a-cluster")):
        places = [FetchFrom(3, 77, 5, 4), FetchFrom(9, 2**40, -1)]
        question = questions.fetch(
            topic, places, most_bytes=1 << 22, partition_bytes=1 << 21, cluster_id=cluster_id
        )
        partitions = [
            {
                "partition": each.partition,
                "currentLeaderEpoch": each.leader_epoch,
                "fetchOffset": each.offset,
                "lastFetchedEpoch": each.last_epoch,
                "logStartOffset": -1,
                "partitionMaxBytes": 1 << 21,
            }
            for each in places
        ]
        named = {"topic": topic, "topicId": _TOPIC_ID, "partitions": partitions}
        fields = of_client | {"clusterId": cluster_id, "maxBytes": 1 << 22, "topics": [named]}
        yield _by_question(question, **fields)
        long = questions.fetch(
            topic,
            places,
            most_bytes=1 << 22,
            partition_bytes=1 << 21,
            cluster_id=cluster_id,
            wait_s=5.0,
        )
        yield _by_question(long, **fields | {"maxWaitMs": 5_000})


def _read_probe() -> Asked:
    partition = {
        "partition": 0,
        "currentLeaderEpoch": -1,
        "fetchOffset": 2**62,
        "lastFetchedEpoch": -1,
    }
    partition |= {"logStartOffset": -1, "partitionMaxBytes": 1}
    fields = {
        "replicaId": -1,
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": 1,
        "isolationLevel": 0,
        "sessionId": 0,
    }
    fields |= {"sessionEpoch": -1, "forgottenTopicsData": [], "rackId": ""}
    topics = [{"topic": "t", "partitions": [partition]}]
    return _by_question(questions.read_probe("t"), **fields, topics=topics)


def _snapshot() -> Asked:
    question = controllers._fetch_snapshot("a-cluster", controllers.SnapshotId(900, 8), 4096, 11)
    partition = {
        "partition": 0,
        "currentLeaderEpoch": 11,
        "snapshotId": {"endOffset": 900, "epoch": 8},
    }
    topics = [{"name": "__cluster_metadata", "partitions": [partition | {"position": 4096}]}]
    return _by_question(
        question, clusterId="a-cluster", replicaId=-1, maxBytes=1 << 20, topics=topics
    )


def _commits() -> Iterator[Asked]:
    groups_asked = [
        {"groupId": each, "memberId": None, "memberEpoch": -1, "topics": None}
        for each in ("g", "h")
    ]
    question = questions.commits(["g", "h"])
    yield _by_question(question, groupId="g", topics=None, groups=groups_asked, requireStable=False)


def _ends() -> Iterator[Asked]:
    topics = [("orders", [(0, -1), (5, 7)]), ("t", [(2, -1)])]
    told = [
        {
            "name": name,
            "partitions": [
                {
                    "partitionIndex": each,
                    "currentLeaderEpoch": epoch,
                    "timestamp": -2,
                    "maxNumOffsets": 1,
                }
                for each, epoch in partitions
            ],
        }
        for name, partitions in topics
    ]
    question = questions.ends(topics, questions.EARLIEST)
    yield _by_question(question, replicaId=-1, isolationLevel=0, topics=told, timeoutMs=5000)
    stable = questions.ends(topics, questions.EARLIEST, committed=True)
    yield _by_question(stable, replicaId=-1, isolationLevel=1, topics=told, timeoutMs=5000)


def _admin() -> dict[str, list[Asked]]:
    (configs,) = questions.topic_configs(
        ["orders", "t"], ("min.insync.replicas", "unclean.leader.election.enable")
    )
    keys = ["min.insync.replicas", "unclean.leader.election.enable"]
    resources = [
        {"resourceType": 2, "resourceName": each, "configurationKeys": keys}
        for each in ("orders", "t")
    ]
    quorum = [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]
    pages = [
        _by_question(
            questions.topic_partitions(["orders", "t"], cursor),
            topics=[{"name": "orders"}, {"name": "t"}],
            responsePartitionLimit=2000,
            cursor=cursor and {"topicName": cursor[0], "partitionIndex": cursor[1]},
        )
        for cursor in (None, ("orders", 7))
    ]
    of_configs = {"resources": resources, "includeSynonyms": False, "includeDocumentation": False}
    of_brokers = {
        "includeClusterAuthorizedOperations": False,
        "endpointType": 1,
        "includeFencedBrokers": True,
    }
    return {
        "questions.topic_configs": [_by_question(configs, **of_configs)],
        "questions.reassignments": [
            _by_question(questions.reassignments(), timeoutMs=5000, topics=None)
        ],
        "questions.quorum": [_by_question(questions.quorum(), topics=quorum)],
        "questions.brokers_with_fenced": [
            _by_question(questions.brokers_with_fenced(), **of_brokers)
        ],
        "questions.topic_partitions": pages,
        "questions.log_dirs": [
            _by_question(questions.log_dirs(), topics=None),
            _by_question(questions.log_dirs(bare=True), topics=[]),
        ],
    }


def _of_groups() -> dict[str, list[Asked]]:
    visits, broker, ids = _Questions(), Broker(1, _ADDRESS), ["g", "grüppe"]
    for type_ in ("classic", "consumer", "share", "streams"):
        list(group_descriptions.describe(visits, broker, type_, ids, Time(60.0, float("inf"))))
    asked = {"includeAuthorizedOperations": False, "includeTopologyDescription": False}
    described = [
        _by_question(each, **asked, **({"groups": ids} if not place else {"groupIds": ids}))
        for place, each in enumerate(visits.asked)
    ]
    assert [each.versions[0] for each in described] == [15, 69, 77, 89]

    listed = _by_question(groups._listing(), statesFilter=[], typesFilter=[])
    return {"group_descriptions.describe": described, "groups._listing": [listed]}


def _of_transactions() -> dict[str, list[Asked]]:
    of_long = {"stateFilters": ["Ongoing"], "producerIdFilters": [], "durationFilter": 10_000}
    of_producers = {"stateFilters": [], "producerIdFilters": [5, 2**40], "durationFilter": -1}
    long = questions.transactions(states=["Ongoing"], longer_ms=10_000)
    named = questions.transactions(producer_ids=[5, 2**40])
    ids, everywhere = ["app-1", "ä"], {"transactionalIdPattern": None}
    topics = [{"name": "t", "partitionIndexes": [0, 3]}]
    return {
        "questions.transactions": [
            _by_question(long, **of_long, **everywhere),
            _by_question(named, **of_producers, **everywhere),
        ],
        "questions.described_transactions": [
            _by_question(questions.described_transactions(ids), transactionalIds=ids)
        ],
        "questions.producers": [_by_question(questions.producers({"t": [3, 0]}), topics=topics)],
    }


def _of_watcher() -> Asked:
    asks, led = _Questions(), [Led(3, 5), Led(9, -1)]
    watcher = SimpleNamespace(_poller=asks, _topic="__consumer_offsets")
    with contextlib.suppress(PollError):
        LogWatcher._ends_of_epochs(watcher, _ADDRESS, {led[0]: 4, led[1]: 0}, 0.0)
    (epochs,) = asks.asked
    partitions = [
        {"partition": each.partition, "currentLeaderEpoch": each.epoch, "leaderEpoch": epoch}
        for each, epoch in zip(led, (4, 0), strict=True)
    ]
    topics = [{"topic": "__consumer_offsets", "partitions": partitions}]
    return _by_question(epochs, replicaId=-1, topics=topics)


def _of_probes() -> list[Asked]:
    asked: list[Question] = []

    def answer(question: Question) -> Any:
        asked.append(question)
        return SimpleNamespace(groups=[SimpleNamespace(error_code=30)])

    Prober._groups(SimpleNamespace(_ask=answer))
    described, listed = asked
    return [
        _by_question(
            described, groups=["kafka-metadata-history-probe"], includeAuthorizedOperations=False
        ),
        _by_question(listed, statesFilter=[], typesFilter=[]),
    ]


def _of_connections() -> list[Asked]:
    """The requests that the library makes when it connects, made in the same way
    (kafka/net/connection.py).
    """

    software = {
        "clientSoftwareName": CLIENT,
        "clientSoftwareVersion": "0",
        "clusterId": None,
        "nodeId": -1,
    }
    key, last = ApiVersionsRequest.API_KEY, ApiVersionsRequest.max_version
    library = {"client_software_name": "kafka-python", "client_software_version": "3"}
    its_own = {
        "clientSoftwareName": "kafka-python",
        "clientSoftwareVersion": "3",
        "clusterId": None,
        "nodeId": -1,
    }
    made = {
        ApiVersionsRequest: (0, last, library, its_own),
        SaslHandshakeRequest: (0, 1, {"mechanism": "PLAIN"}, {"mechanism": "PLAIN"}),
        SaslAuthenticateRequest: (
            *(0, SaslAuthenticateRequest.max_version),
            *({"auth_bytes": b"\0me\0secret"}, {"authBytes": "AG1lAHNlY3JldA=="}),
        ),
    }
    return [
        Asked(
            (key, 0, last),
            lambda wire, version: wire.ask(features_request({key: (0, version)}), 0.0),
            software,
        ),
        *(
            Asked(
                (request.API_KEY, first, highest),
                lambda wire, version, request=request, given=given: wire.ask(
                    request(version=version, **given), 0.0
                ),
                fields,
            )
            for request, (first, highest, given, fields) in made.items()
        ),
    ]


ASKED: dict[str, list[Asked]] = {
    "attempts._request": list(_polls()),
    "coordinators._led": list(_topics()),
    "watcher._find": list(_topics()),
    "questions.fetch": list(_fetches()),
    "questions.read_probe": [_read_probe()],
    "controllers._fetch_snapshot": [_snapshot()],
    "questions.commits": list(_commits()),
    "questions.ends": list(_ends()),
    **_admin(),
    **_of_groups(),
    **_of_transactions(),
    "watcher._ends_of_epochs": [_of_watcher()],
    "probes._groups": _of_probes(),
    "features.features_request": _of_connections(),
}
"""By the function of the product that makes them, `module.function`."""

_MAKERS = frozenset({"Question", "TopicQuestion", "RawRequest"})
_NOT_ASKED = frozenset(
    {"questions.body", "transport.begin", "transport.request", "tokens._granted"}
)
"""Functions that pass on what another one made, or that ask no broker."""


def functions_that_ask() -> set[str]:
    """The functions of the product, `module.function`, that make a question or a request."""
    found = set()
    for file in Path(metadata_source.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = (each.func for each in ast.walk(function) if isinstance(each, ast.Call))
                names = {getattr(each, "id", getattr(each, "attr", "")) for each in calls}
                if any(
                    name in _MAKERS or name.endswith("Request") or name == "encode_request"
                    for name in names
                ):
                    found.add(f"{file.stem}.{function.name}")
    return found - _NOT_ASKED

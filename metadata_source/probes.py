"""Questions that a user may ask of a cluster, found by asking; nothing is written, and no topic
comes into being by it.

Each probe is one request to the broker that answered the poll, whichever broker is responsible:
brokers check permissions before anything else (KafkaApis.scala), so that an answer such as
NOT_COORDINATOR says "allowed".
"""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from metadata_source import questions
from metadata_source.broker_errors import error_name
from metadata_source.errors import PollError, stumbled
from metadata_source.kafka_constants import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from metadata_source.questions import DENIED, MIN_ISR, NOT_CONTROLLER, Question
from metadata_source.transactions import NO_ID, NOT_FOUND
from metadata_source.transport import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metadata_source.addresses import Address
    from metadata_source.options import Cluster

ALLOWED: Final = frozenset({0, 1, 3, 5, 6, 14, 15, 16, 69})
"""No error, and those that come after the check of permissions: OFFSET_OUT_OF_RANGE,
UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, GROUP_ID_NOT_FOUND."""
_TIMEOUT_S: Final = 10.0
_DIGITS: Final = re.compile(r"[0-9]+")
_MOST: Final = 2**31 - 1
"""Of min.insync.replicas, which is an int."""
_OF_CLUSTER: Final = "--operation Describe --cluster"
_OF_LOG: Final = "--operation Read --topic {}"
_NO_GROUP = _NO_TOPIC = NO_ID
HANGING: Final = "hanging transactions"
"""The feature that is left out where its permission is missing, and all else of its question is
not."""
ALLOWED_ANSWER: Final = "allowed"
_NO_LOG: Final = "nothing to read: there is no topic {} (Kafka makes it for the first {})"
NO_LOG: Final = _NO_LOG.format(OFFSETS_TOPIC, "group")
"""The answer where the group coordinators' log may be read, and is not there."""
NO_TRANSACTION_LOG: Final = _NO_LOG.format(TRANSACTIONS_TOPIC, "transaction")
"""The same of the transaction coordinators'."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a feature's question was answered. `answer`: `allowed`, or what is missing, or why
    nobody knows. `acl`: what kafka-acls is given to allow it; None where nothing has to be allowed.
    """

    feature: str
    needs: str
    answer: str
    acl: str | None = None

    @property
    def is_missing(self) -> bool:
        """Whether brokers refuse the question."""
        return self.answer.startswith("missing")

    @property
    def is_allowed(self) -> bool:
        """Whether brokers answer the question."""
        return self.answer.startswith(ALLOWED_ANSWER)


@dataclass(frozen=True, slots=True)
class MinIsr:
    """Answers about `min.insync.replicas` of topics. `known`: its value, by topic. `errors`: how
    many topics were answered with an error code. `silent`: how many without a number. `problem`:
    why nobody knows anything.
    """

    known: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[int, int] = field(default_factory=dict)
    silent: int = 0
    problem: str | None = None

    @property
    def denied(self) -> int:
        """How many topics the user may not ask about, as the error code says."""
        return sum(count for code, count in self.errors.items() if code in DENIED)

    @property
    def unknown(self) -> str | None:
        """Why some are not known of topics that are there and that the user may ask about; None
        where all are.
        """
        return self.problem or "; ".join(self._whys()) or None

    def _whys(self) -> Iterator[str]:
        for code, count in sorted(self.errors.items()):
            # Of a topic that is gone since the poll brokers say so after the check of permissions.
            if code not in DENIED | {UNKNOWN_TOPIC_OR_PARTITION}:
                yield f"topics answered with error {code} ({error_name(code)}): {count}"
        if self.silent:
            yield f"topics of which the answer has no {MIN_ISR}: {self.silent}"


class Prober:
    """Asks one broker, each question over its own connection: one that fails costs no other."""

    def __init__(self, cluster: Cluster, address: Address) -> None:
        self._cluster = cluster
        self._address = address

    def min_isr(self, topics: Sequence[str]) -> MinIsr:
        """Return what these topics answer about `min.insync.replicas`. Never raises."""
        known: dict[str, int] = {}
        errors: Counter[int] = Counter()
        try:
            for question in questions.topic_configs(topics, (MIN_ISR,)):
                for result in self._ask(question).results:
                    values = [
                        config.value or "" for config in result.configs if config.name == MIN_ISR
                    ]
                    if result.error_code:
                        errors[result.error_code] += 1
                    elif values and _DIGITS.fullmatch(values[0]) and int(values[0]) <= _MOST:
                        known[result.resource_name] = int(values[0])
        except PollError as error:
            return MinIsr(problem=error.problem)
        except Exception as error:  # noqa: BLE001 - the other questions, and the other clusters, have answers
            return MinIsr(problem=stumbled(error))
        return MinIsr(known, errors, max(0, len(topics) - len(known) - errors.total()))

    def permissions(self) -> list[Permission]:
        """Return what cluster and group questions come to, for what is recorded now or will be."""
        cluster, groups = "DESCRIBE on the cluster", "DESCRIBE on the groups"
        ids, producers = "DESCRIBE on the transactional ids", "READ on the topics"
        # DescribeCluster needs a permission only for the authorized operations, which are not asked
        # for.
        fenced = "Kafka 4.0 or newer"
        return [
            Permission(
                "reassignments", cluster, self._try(self._reassignments, cluster), _OF_CLUSTER
            ),
            Permission("controller quorum", cluster, self._try(self._quorum, cluster), _OF_CLUSTER),
            Permission("fenced brokers", fenced, self._try(self._fenced, fenced)),
            Permission(
                "consumer groups",
                groups,
                self._try(self._groups, groups),
                "--operation Describe --group '*'",
            ),
            self._of_log("rebalance history", OFFSETS_TOPIC, NO_LOG),
            self._of_log("transactions", TRANSACTIONS_TOPIC, NO_TRANSACTION_LOG),
            Permission(
                "open transactions",
                ids,
                self._try(self._transactions, ids),
                "--operation Describe --transactional-id '*'",
            ),
            Permission(
                HANGING,
                producers,
                self._try(self._producers, producers),
                "--operation Read --topic '*'",
            ),
            Permission("log directories", cluster, self._try(self._log_dirs, cluster), _OF_CLUSTER),
        ]

    def _of_log(self, feature: str, topic: str, no_topic: str) -> Permission:
        needs = f"READ on topic {topic}"

        def read() -> int:
            return questions.fetch_error(self._ask(questions.read_probe(topic)))

        return Permission(feature, needs, self._try(read, needs, no_topic), _OF_LOG.format(topic))

    def _try(self, probe: Any, needs: str, no_topic: str = ALLOWED_ANSWER) -> str:
        try:
            code = probe()
        except PollError as error:
            return f"not known: {error.problem}"
        except Exception as error:  # noqa: BLE001 - the other questions, and the other clusters, have answers
            return f"not known: {stumbled(error)}"
        if code in DENIED:
            return f"missing: {needs}"
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            return no_topic
        if code in ALLOWED:
            return ALLOWED_ANSWER
        return f"not known: error {code} ({error_name(code)})"

    def _reassignments(self) -> int:
        code = int(self._ask(questions.reassignments()).error_code)
        # With ZooKeeper a broker that is not the controller says so after the check of permissions,
        # and forwards nothing.
        return 0 if code == NOT_CONTROLLER else code

    def _quorum(self) -> int:
        return int(self._ask(questions.quorum()).error_code)

    def _log_dirs(self) -> int:
        return questions.log_dirs_error(self._ask(questions.log_dirs(bare=True)))

    def _fenced(self) -> int:
        return int(self._ask(questions.brokers_with_fenced()).error_code)

    def _groups(self) -> int:
        # Not FindCoordinator, which makes __consumer_offsets where there is none.
        fields = {"groups": [_NO_GROUP], "include_authorized_operations": False}
        group = questions.the_one(
            self._ask(Question(DescribeGroupsRequest, fields)).groups, "group"
        )
        if group.error_code in DENIED:
            # Not every group; perhaps some: those that this broker knows are listed.
            listed = self._ask(
                Question(ListGroupsRequest, {"states_filter": [], "types_filter": []})
            )
            return int(group.error_code) if not listed.groups else 0
        return int(group.error_code)

    def _transactions(self) -> int:
        answer = self._ask(questions.described_transactions([NO_ID]))
        code = int(questions.the_one(answer.transaction_states, "transactional id").error_code)
        if code in DENIED and self._ask(questions.transactions()).transaction_states:
            # Not every id, but some: those that this broker knows are listed.
            return 0
        return 0 if code == NOT_FOUND else code

    def _producers(self) -> int:
        (told,) = self._ask(questions.producers({_NO_TOPIC: [0]})).topics
        return int(questions.the_one(told.partitions, "partition").error_code)

    def _ask(self, question: Question) -> Any:
        """Send a request and return its response. Raises PollError."""
        deadline = time.monotonic() + _TIMEOUT_S
        with closing(Connection(self._cluster, self._address, deadline)) as connection:
            return question.ask(connection, deadline)

"""How the coordinators describe groups to Kafka's own clients: when a group is quiet, and what its
members have then.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, MemberDescription
from py4j.java_gateway import JVMView

from local_cluster.member import java_machine, java_properties
from local_cluster.members import java_settings
from truth.groups.script import Kind
from truth.model.groups import Holder

SECONDS = 3.0
_ASK_SECONDS = 0.02
STABLE, RECONCILING, EMPTY = "stable", "reconciling", "empty"
_OF_THREAD = "-StreamThread-"
"""The text that KafkaStreams puts between its client id and the thread's number."""


@dataclass(frozen=True)
class Description:
    """A group as its coordinator describes it."""

    state: str
    """Kafka's word in lower case: stable, empty, ..."""
    holders: tuple[Holder, ...]
    coordinator: int


class Describer(Protocol):
    """Asks for one group; None when there is no answer, or no such group."""

    def __call__(self, group: str) -> Description | None:
        """Ask its coordinator."""


@contextmanager
def describer(kind: Kind, bootstrap_servers: str) -> Iterator[Describer]:
    """Who can describe groups of this kind."""
    if not kind.java:
        yield _ByConfluent(bootstrap_servers)
        return
    with java_machine(**java_settings(kind.protocol)) as jvm:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(
            java_properties(
                jvm,
                {
                    "bootstrap.servers": bootstrap_servers,
                    "default.api.timeout.ms": int(SECONDS * 1000),
                    "request.timeout.ms": 2000,
                },
            )
        )
        try:
            yield lambda group: _by_java(jvm, admin, kind, group)
        finally:
            admin.close()


class _ByConfluent:
    def __init__(self, bootstrap_servers: str) -> None:
        self._config = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._client = AdminClient(self._config)

    def __call__(self, group: str) -> Description | None:
        try:
            asked = self._client.describe_consumer_groups([group], request_timeout=SECONDS)
            found = asked[group].result(SECONDS + 1)
        except (KafkaException, TimeoutError):
            # It would go on asking the coordinator that it knows.
            self._client = AdminClient(self._config)
            return None
        return Description(
            found.state.name.lower(), tuple(map(_holder, found.members)), found.coordinator.id
        )


def _holder(member: MemberDescription) -> Holder:
    partitions = member.assignment.topic_partitions or ()
    return Holder(
        member.member_id,
        member.client_id,
        member.group_instance_id,
        frozenset((each.topic, each.partition) for each in partitions),
    )


def _by_java(jvm: JVMView, admin: Any, kind: Kind, group: str) -> Description | None:
    groups = jvm.java.util.ArrayList()
    groups.add(group)
    ask = admin.describeShareGroups if kind.protocol == "share" else admin.describeStreamsGroups
    asked = ask(groups).describedGroups().get(group)
    while not asked.isDone():  # default.api.timeout.ms ends it
        time.sleep(_ASK_SECONDS)
    # Nothing is to be raised: pyspark looks every gateway's exceptions up in Spark's own JVM, where
    # they are something else.
    if asked.isCompletedExceptionally():
        return None
    found = asked.get()
    return Description(
        _java_state(kind, found),
        tuple(_java_holder(kind, member) for member in found.members()),
        found.coordinator().id(),
    )


def _java_state(kind: Kind, found: Any) -> str:
    """Kafka's word, but for share groups: they are stable to it while somebody is there, here once
    all are at the group's epoch.
    """
    state = str(found.groupState().toString()).lower()
    if kind.protocol == "share" and state == STABLE:
        epochs = {
            found.targetAssignmentEpoch(),
            *(member.memberEpoch() for member in found.members()),
        }
        return STABLE if epochs == {found.groupEpoch()} else RECONCILING
    return state


def _java_holder(kind: Kind, member: Any) -> Holder:
    if kind.protocol == "share":
        member_id = member.consumerId()
        partitions = {
            (each.topic(), each.partition()) for each in member.assignment().topicPartitions()
        }
    else:
        member_id = member.memberId()
        partitions = {
            (tasks.subtopologyId(), partition)
            for tasks in member.assignment().activeTasks()
            for partition in tasks.partitions()
        }
    return Holder(member_id, member.clientId().split(_OF_THREAD)[0], None, frozenset(partitions))

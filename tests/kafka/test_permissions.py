"""The table of permissions in docs/permissions.md, row by row: what it asks for suffices, and
nothing of it can be left out.

Each set of permissions has a user of its own, made before anything is asked. Who is asked is a
cluster with something to tell in every row: a broker is fenced, so that a partition has an eligible
leader and a reassignment does not end; another one hangs while groups are asked for, which is when
a listing must know whose the partitions of the offsets topic are.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql.datasource import DataSource

from local_cluster import LocalCluster
from metadata_source import transactions
from metadata_source.datasource import KafkaMetadataSource
from metadata_source.enrichment import subject
from metadata_source.errors import LogError
from metadata_source.kafka_constants import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.transaction.datasource import KafkaTransactionLogSource
from metadata_source.options import parse
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.outcomes import NOT_ALLOWED, OK
from metadata_source.poller import Poller
from tests.support.beside import beside, outcomes_of
from tests.support.documents import section
from tests.support.waiting import eventually
from truth.administration import Administration, NewTopic
from truth.transactions.hanging import VERIFIED, write_alone

SECTION = section("permissions.md", "## On the cluster")

TOPIC, OTHER = "permissions-test", "permissions-test-other"
GROUP = TRANSACTIONAL_ID = "permissions-test"
ASKED, HANGING, FENCED = 1, 2, 3
"""Brokers."""
SUPER_USER = "super-user"
PASSWORD = "permissions-secret"  # noqa: S105
os.environ["PERMISSIONS_PASSWORD"] = PASSWORD
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": "7200000",
    VERIFIED: "false",
    "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
}


class Permission(NamedTuple):
    """An operation that a user may do on a resource."""

    operation: AclOperation
    kind: ResourceType
    name: str


Permissions = frozenset[Permission]

HANGS = "transactions, those that hang"
"""A row without a question of its own."""
OF_COORDINATORS = {"groups", "offsets", "transactions", HANGS}
LOGS: dict[str, type[DataSource]] = {
    "groupLog": KafkaGroupLogSource,
    "transactionLog": KafkaTransactionLogSource,
}
RESOURCES = {
    "the topics": (ResourceType.TOPIC, TOPIC),
    f"the topic `{OFFSETS_TOPIC}`": (ResourceType.TOPIC, OFFSETS_TOPIC),
    "all transactional ids": (ResourceType.TRANSACTIONAL_ID, "*"),
    "the transactional ids": (ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID),
    f"the topic `{TRANSACTIONS_TOPIC}`": (ResourceType.TOPIC, TRANSACTIONS_TOPIC),
    "the groups": (ResourceType.GROUP, GROUP),
    "the cluster": (ResourceType.BROKER, "kafka-cluster"),
}
"""What the table calls them -> what they are here."""
IMPLIED = {
    **dict.fromkeys(
        (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
        AclOperation.DESCRIBE,
    ),
    AclOperation.ALTER_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}
"""Operations that allow a smaller one too (StandardAuthorizerData.java)."""


# --- what the document says ---


def permissions(text: str) -> Permissions:
    """What a cell of the table asks for, such as "`DESCRIBE` on the groups and on the cluster"."""
    if text == "none besides":
        return frozenset()
    found = set()
    for part in text.split(", "):
        said = re.fullmatch(r"`([A-Z_]+)` on (.+)", part)
        assert said, f"the table of permissions says {part!r}, which this test does not understand"
        of = AclOperation[said[1]]
        found |= {Permission(of, *RESOURCES[name]) for name in said[2].split(" and on ")}
    return frozenset(found)


def of_every_user() -> Permissions:
    """What the command above the table gives; its topics, all of them, are the one here that is to
    be seen.
    """
    (operation,) = re.findall(
        r"^\$ kafka-acls\.sh .* --operation (\w+) --topic '\*'$", SECTION, re.MULTILINE
    )
    return frozenset({Permission(AclOperation[operation.upper()], *RESOURCES["the topics"])})


def table() -> dict[str, Permissions]:
    """What each row asks for beside that."""
    rows = (
        line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| `")
    )
    found = {
        feature.partition(" (")[0].replace("`", ""): permissions(needed)
        for feature, _, needed, *_ in rows
        if feature != "`enrich`"
    }
    assert set(found) == {*ENRICHMENTS, *LOGS, HANGS}
    return found


def lesser(needed: Permissions) -> Iterator[tuple[Permission, Permissions]]:
    """Each of them, and the others without it; and with what it implies in its place."""
    for each in sorted(needed):
        others = needed - {each}
        yield each, others
        if each.operation in IMPLIED:
            yield each, others | {each._replace(operation=IMPLIED[each.operation])}


BASE, TABLE = of_every_user(), table()
LESSER = [(feature, *less) for feature, needed in TABLE.items() for less in lesser(needed)]
SOME_CONFIGS = Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, OTHER)
"""Another topic is to be seen, of which no configuration is."""
USERS: dict[Permissions, str] = {
    allowed: f"user-{number}"
    for number, allowed in enumerate(
        dict.fromkeys(
            [
                frozenset(),
                *(BASE | needed for needed in TABLE.values()),
                *(BASE | needed for _, _, needed in LESSER),
                BASE | TABLE["configs"] | {SOME_CONFIGS},
            ]
        )
    )
}


# --- the cluster ---


def make_users(admin: AdminClient) -> None:
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    made = [
        UserScramCredentialUpsertion(user, scram, PASSWORD.encode())
        for user in (SUPER_USER, *USERS.values())
    ]
    for future in admin.alter_user_scram_credentials(made).values():
        future.result(30)
    acls = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for allowed, user in USERS.items()
        for operation, kind, name in allowed
    ]
    for future in admin.create_acls(acls).values():
        future.result(30)


def make_group(servers: str) -> None:
    member = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    member.subscribe([TOPIC])
    eventually(lambda: member.poll(0.1) or member.assignment(), "an assignment")
    member.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    member.close()


def make_transaction(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "permissions-1"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(OTHER, b"")
    producer.commit_transaction(30)


def leave_open(servers: str) -> Producer:
    """Write in a transaction that does not end."""
    given = {"transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": 7_200_000}
    writer = Producer({"bootstrap.servers": servers} | given)
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(TOPIC, b"v", partition=1)
    writer.flush(30)
    return writer


def leave_hanging(servers: str) -> None:
    options = parse({"kafka.bootstrap.servers": servers}, "batch")
    with (
        Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller,
        closing(poller.asking(8_000)) as asking,
    ):
        assert write_alone(poller, asking, (TOPIC, 0)) == 0


@pytest.fixture(scope="module")
def cluster(made_guarded: Callable[..., LocalCluster]) -> Iterator[LocalCluster]:
    with (
        pytest.MonkeyPatch.context() as patched,
        made_guarded(3, controllers=1, properties=PROPERTIES) as started,
    ):
        administration = Administration(started)
        two = (("min.insync.replicas", "2"),)
        topics = [
            NewTopic(OFFSETS_TOPIC, ((ASKED,),), (("cleanup.policy", "compact"),)),
            NewTopic(TRANSACTIONS_TOPIC, ((ASKED,),), (("cleanup.policy", "compact"),)),
            NewTopic(TOPIC, ((ASKED, FENCED), (ASKED, HANGING)), two),
            NewTopic(OTHER, ((ASKED,),)),
        ]
        administration.create_topics(topics)
        make_users(AdminClient({"bootstrap.servers": started.bootstrap_servers}))
        make_group(started.bootstrap_servers)
        make_transaction(started.bootstrap_servers)
        # It is there as long as the test's process is.
        patched.setattr(transactions, "LONG", timedelta(0))
        patched.setattr(transactions, "_LISTED_AFTER_MS", 0)
        writer = leave_open(started.bootstrap_servers)
        leave_hanging(started.bootstrap_servers)
        started.stop(FENCED)
        administration.reassign([(TOPIC, 1, (ASKED, FENCED))])
        for feature in TABLE:
            eventually(lambda of=feature: came_to(started, of, SUPER_USER)[1], feature)
        yield started
        del writer


# --- what is asked ---


def read(source: type[DataSource], options: dict[str, str]) -> list[dict[str, Any]]:
    made = source(options)
    reader = made.reader(made.schema())
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def reach(cluster: LocalCluster, user: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.sasl_ssl.bootstrap_servers.split(",")[ASKED - 1],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": user,
        "kafka.sasl.password": "env:PERMISSIONS_PASSWORD",
        "kafka.ssl.ca.location": str(cluster.sasl_ssl.ca_file),
    }


def polled(
    cluster: LocalCluster, user: str, **options: str
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The outcomes of questions beside a good poll, and the rows that are no headers."""
    rows = read(KafkaMetadataSource, reach(cluster, user) | options)
    (header,) = (row for row in rows if row["record"] == "poll")
    others = [row for row in rows if row["record"] not in ("poll", "answer")]
    return outcomes_of(rows)[header["cluster"], header["n"]], others


def came_to(cluster: LocalCluster, feature: str, user: str) -> tuple[str, list[Any]]:
    """What asking for a row's feature came to, in a word, and what was answered."""
    if feature in LOGS:
        return came_to_log(cluster, feature, user)
    if feature == HANGS:
        return came_to_those_that_hang(cluster, user)
    with hanging(cluster) if feature in OF_COORDINATORS else nullcontext():
        outcomes, rows = polled(cluster, user, enrich=feature, topicsPattern=TOPIC)
    return outcomes[feature], [
        (row["topic"], timeless(row[feature])) for row in rows if row["record"] == feature
    ]


def timeless(answer: Any) -> Any:
    """The rows without the times of asking, and without what changes between two of them."""
    if isinstance(answer, list):
        return [timeless(each) for each in answer]
    if isinstance(answer, dict):
        return {name: value for name, value in answer.items() if not isinstance(value, datetime)}
    return answer


def came_to_log(cluster: LocalCluster, feature: str, user: str) -> tuple[str, list[Any]]:
    try:
        rows = read(LOGS[feature], reach(cluster, user))
    except LogError as error:
        return error.kind, []
    return OK, [
        (row["offset"], row.get("group_id"), row.get("pattern"))
        for row in rows
        if row["record"] in {"record", "transactions"}
    ]


def came_to_those_that_hang(cluster: LocalCluster, user: str) -> tuple[str, list[Any]]:
    """After all partitions had two rounds."""
    options = parse(reach(cluster, user) | {"topicsPattern": TOPIC}, "batch")
    made = Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms)
    with hanging(cluster), made as poller, closing(poller.asking(5_000)) as asking:
        for _ in range(2):
            metadata = poller.poll().metadata
            assert metadata is not None
            assert poller.answerer is not None
            about = subject(("transactions",), metadata, options.topic_filter)
            answers = beside(asking.answers(about, poller.answerer))
            rows = answers.rows.get("transactions")
            if rows is None:
                return answers.outcomes["transactions"], []
    hang = [each for row in rows.values for each in row if each["is_hanging"]]
    errors = [each["error"] for each in hang if "error" in each]
    told = [timeless(each) for each in hang if "error" not in each]
    return (errors or [answers.outcomes["transactions"]])[0], told


@contextmanager
def hanging(cluster: LocalCluster) -> Iterator[None]:
    """A broker is listed and does not answer."""
    cluster.pause(HANGING)
    try:
        yield
    finally:
        cluster.resume(HANGING)
        # Controllers fence a broker that is paused for long, and others do not list it then.
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        eventually(lambda: HANGING in admin.list_topics(timeout=10).brokers, "it is listed again")


def test_topics_are_seen_by_who_may_describe_them(cluster: LocalCluster) -> None:
    for allowed, seen in ((frozenset(), set()), (BASE, {TOPIC})):
        _, rows = polled(cluster, USERS[allowed])
        assert {row["topic"] for row in rows} == seen


@pytest.mark.parametrize("feature", TABLE)
def test_what_a_row_asks_for_suffices(cluster: LocalCluster, feature: str) -> None:
    outcome, answer = came_to(cluster, feature, USERS[BASE | TABLE[feature]])
    assert outcome == OK
    assert answer
    assert answer == came_to(cluster, feature, SUPER_USER)[1]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("feature", "without", "allowed"),
    LESSER,
    ids=[
        f"{feature}-{without.operation.name}-{without.name}-{len(allowed)}"
        for feature, without, allowed in LESSER
    ],
)
def test_nothing_that_a_row_asks_for_can_be_left_out(
    cluster: LocalCluster, feature: str, without: Permission, allowed: Permissions
) -> None:
    outcome, answer = came_to(cluster, feature, USERS[BASE | allowed])
    assert answer == []
    if without.kind == ResourceType.GROUP:
        assert outcome == OK  # groups that may not be described are none that are there
    elif feature in OF_COORDINATORS and without.name in {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}:
        assert re.match(rf"failed: broker {HANGING} \(\S+\): no answer in time", outcome)
    else:
        assert outcome == NOT_ALLOWED


def test_configurations_that_may_not_be_read_are_null_beside_others(cluster: LocalCluster) -> None:
    outcomes, rows = polled(
        cluster, USERS[BASE | TABLE["configs"] | {SOME_CONFIGS}], enrich="configs"
    )
    assert outcomes == {"configs": OK}
    configs = {row["topic"]: row["configs"] for row in rows if row["record"] == "configs"}
    assert configs[OTHER] is None
    assert dict(configs[TOPIC])["min.insync.replicas"] == {
        "value": "2",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }

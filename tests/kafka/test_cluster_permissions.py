"""The rights that a reader of the controllers' log needs, and its errors without them."""

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_metadata_history.check import checked_log
from local_cluster import LocalCluster
from metadata_source.errors import ClusterLogError
from metadata_source.options import parse_cluster_log
from tests.support.cluster_spans import fates, options_of, read, records


def as_user(cluster: LocalCluster, name: str, **more: str) -> dict[str, str]:
    """Options of a user whose password is alice's."""
    return options_of(cluster, **more) | {
        "kafka.controller.security.protocol": "SASL_PLAINTEXT",
        "kafka.controller.sasl.mechanism": "PLAIN",
        "kafka.controller.sasl.username": name,
        "kafka.controller.sasl.password": "env:ALICE_PASSWORD",
    }


def test_cluster_action_is_all_that_it_takes(guarded: LocalCluster) -> None:
    alice = as_user(guarded, "alice")
    with pytest.raises(
        ClusterLogError, match=r"not_allowed: .* CLUSTER_ACTION on the cluster is missing \(kafka-"
    ):
        read(**alice)
    denied = checked_log(parse_cluster_log(alice), "default")
    assert denied is not None
    assert denied.problem is not None
    assert denied.problem.startswith("not_allowed: ")
    with pytest.raises(
        ClusterLogError, match=r"authentication: cluster default: .*check user and password"
    ):
        read(**as_user(guarded, "mallory"))
    with pytest.raises(ClusterLogError, match=r"unreachable|timeout"):
        read(**options_of(guarded, requestTimeout="1s"))
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    allowed = AclBinding(
        *(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:alice", "*"),
        *(AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW),
    )
    admin.create_acls([allowed])[allowed].result(30)
    rows = read(**alice)
    ((went, _, _),) = fates(rows)
    assert went == "read"
    assert "AccessControlEntryRecord" in {row["name"] for row in records(rows)}
    assert "User:alice" not in str(rows), "of what allows it there is the type alone"
    assert "RegisterControllerRecord" in {row["name"] for row in records(rows)}
    other = AclBinding(
        *(ResourceType.TOPIC, "any", ResourcePatternType.LITERAL, "User:alice", "*"),
        *(AclOperation.READ, AclPermissionType.ALLOW),
    )
    admin.create_acls([other])[other].result(30)
    told, before = ([row["name"] for row in records(each)] for each in (read(**alice), rows))
    assert told.count("AccessControlEntryRecord") == before.count("AccessControlEntryRecord") + 1

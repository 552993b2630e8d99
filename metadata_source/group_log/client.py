"""A consumer of confluent-kafka that reads the coordinators' log and leaves no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from metadata_source.errors import GroupLogError, OptionsError
from metadata_source.options import resolve_secret, sasl_credentials
from metadata_source.transport import format_address

if TYPE_CHECKING:
    from metadata_source.options import Cluster

GROUP_ID: Final = "kafka-metadata-history-group-log"
"""librdkafka wants one. Nothing subscribes or commits under it, so that no group of that name comes into being."""


def settings(cluster: Cluster) -> dict[str, Any]:
    """Return librdkafka's settings for a cluster, secrets resolved. Raises GroupLogError (`options`), never with a
    secret.
    """
    try:
        username, password = sasl_credentials(cluster) if cluster.sasl else (None, None)
        key_password = (
            resolve_secret("kafka.ssl.key.password", cluster.ssl_key_password) if cluster.ssl_key_password else None
        )
    except OptionsError as error:
        raise GroupLogError("options", error.problem) from None
    given = {
        "bootstrap.servers": ",".join(map(format_address, cluster.bootstrap_servers)),
        "client.id": cluster.client_id,
        "security.protocol": cluster.security_protocol,
        "sasl.mechanism": cluster.sasl_mechanism,
        "sasl.username": username,
        "sasl.password": password,
        "ssl.ca.location": cluster.ssl_ca_location,
        "ssl.certificate.location": cluster.ssl_certificate_location,
        "ssl.key.location": cluster.ssl_key_location,
        "ssl.key.password": key_password,
        "ssl.endpoint.identification.algorithm": "https" if cluster.ssl_check_hostname else "none",
        # What is wrong is found out by asking the cluster.
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    return {name: value for name, value in given.items() if value is not None}


def consumer(cluster: Cluster) -> Consumer:
    """Return a consumer of some partitions. Raises GroupLogError (`options`)."""
    reading = {
        "group.id": GROUP_ID,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Markers that end transactions are never shown. Waiting for them would let an open transaction hide what
        # coordinators write, which is never part of one; only offset commits are.
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        # By default a full queue stops fetching for a second, six times as long as it takes to empty it.
        "fetch.queue.backoff.ms": 1,
    }
    try:
        return Consumer(settings(cluster) | reading)
    except (KafkaException, ValueError) as error:
        # Files of certificates are read here.
        failed = error.args[0]
        problem = failed.str() if isinstance(failed, KafkaError) else str(error)
        raise GroupLogError("options", " ".join(problem.split())) from None

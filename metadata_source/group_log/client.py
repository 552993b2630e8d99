"""A consumer of confluent-kafka that reads the coordinators' log and leaves no trace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from metadata_source import tokens
from metadata_source.credentials import credentials
from metadata_source.errors import GroupLogError, OptionsError, TokenError
from metadata_source.references import resolve_secret
from metadata_source.transport import format_address

if TYPE_CHECKING:
    from metadata_source.options import Cluster

GROUP_ID: Final = "kafka-metadata-history-group-log"
"""librdkafka wants one. Nothing subscribes or commits under it, so that no group of that name comes into being."""

_TOKEN_S: Final = 10.0
"""librdkafka waits as long for its first token."""


def settings(cluster: Cluster) -> dict[str, Any]:
    """Return librdkafka's settings for a cluster, secrets resolved and a token asked for. Raises GroupLogError, never
    with a secret.
    """
    try:
        made = credentials(cluster, time.monotonic() + _TOKEN_S)
        key_password = (
            resolve_secret("kafka.ssl.key.password", cluster.ssl_key_password) if cluster.ssl_key_password else None
        )
    except OptionsError as error:
        raise GroupLogError("options", error.problem) from None
    except TokenError as error:
        raise GroupLogError(error.kind, error.problem) from None
    is_kerberos = cluster.sasl_mechanism == "GSSAPI"
    given = {
        "bootstrap.servers": ",".join(map(format_address, cluster.bootstrap_servers)),
        "client.id": cluster.client_id,
        "security.protocol": cluster.security_protocol,
        "sasl.mechanism": cluster.sent_mechanism,
        "sasl.username": made.username,
        "sasl.password": made.password,
        "sasl.kerberos.service.name": cluster.sasl_kerberos_service_name if is_kerberos else None,
        # Called for the first token too, from a thread of librdkafka's, and again when one is about to end.
        "oauth_cb": None if made.token is None else lambda _: _token(cluster),
        "ssl.ca.location": cluster.ssl_ca_location,
        "ssl.certificate.location": cluster.ssl_certificate_location,
        # One file may have both.
        "ssl.key.location": cluster.ssl_key_location or cluster.ssl_certificate_location,
        "ssl.key.password": key_password,
        "ssl.endpoint.identification.algorithm": "https" if cluster.ssl_check_hostname else "none",
        # What is wrong is found out by asking the cluster.
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _token(cluster: Cluster) -> tuple[str, float, str, dict[str, str]]:
    """Return a token, when it ends (seconds since 1970), no principal, and extensions: what `oauth_cb` is to return."""
    token = tokens.token(cluster, time.monotonic() + _TOKEN_S)
    return token.text, token.expires_at, "", dict(token.extensions)


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

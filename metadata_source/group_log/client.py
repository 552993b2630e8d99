"""What is asked of confluent-kafka: where the coordinators' log begins and ends, and a consumer that reads it and
leaves no trace.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from metadata_source import tokens
from metadata_source.credentials import credentials
from metadata_source.errors import GroupLogError, OptionsError, TokenError
from metadata_source.group_log.places import Log
from metadata_source.options import resolve_secret
from metadata_source.transport import format_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.options import Cluster

GROUP_ID: Final = "kafka-metadata-history-group-log"
"""librdkafka wants one. Nothing subscribes or commits under it, so that no group of that name comes into being."""

_TOKEN_S: Final = 10.0
"""librdkafka waits as long for its first token."""
_EARLIEST: Final = OffsetSpec.earliest()
_LATEST: Final = OffsetSpec.latest()
_KINDS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "not_allowed",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "not_allowed",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication",
    KafkaError._AUTHENTICATION: "authentication",  # noqa: SLF001 - librdkafka's own codes are public, underscore and all
    KafkaError._SSL: "tls",  # noqa: SLF001
    KafkaError._RESOLVE: "unreachable",  # noqa: SLF001
    KafkaError._TRANSPORT: "unreachable",  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN: "unreachable",  # noqa: SLF001
    KafkaError._TIMED_OUT: "timeout",  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT: "timeout",
    KafkaError.LEADER_NOT_AVAILABLE: "no_leader",
}


class Failures:
    """Remembers what a client's threads last said is wrong with the cluster: a call that timed out does
    not know why.
    """

    def __init__(self) -> None:
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take note of an error, as librdkafka's `error_cb`."""
        # That all brokers are down follows what is wrong with each.
        if self._last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self._last = error

    def forget(self) -> None:
        """Forget it: the cluster has answered."""
        self._last = None

    def explain(self, error: KafkaError) -> GroupLogError:
        """Return the error to raise for a call that failed with `error`."""
        timed_out = error.code() in {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE}  # noqa: SLF001
        cause = self._last if timed_out and self._last is not None else error
        return GroupLogError(_KINDS.get(cause.code(), "broker_error"), " ".join(cause.str().split()))


def settings(cluster: Cluster, failures: Failures) -> dict[str, Any]:
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
        # What is wrong is said by whoever asked.
        "log_level": 0,
        "error_cb": failures,
    }
    return {name: value for name, value in given.items() if value is not None}


def _token(cluster: Cluster) -> tuple[str, float, str, dict[str, str]]:
    """Return a token, when it ends (seconds since 1970), no principal, and extensions: what `oauth_cb` is to return."""
    token = tokens.token(cluster, time.monotonic() + _TOKEN_S)
    return token.text, token.expires_at, "", dict(token.extensions)


def consumer(cluster: Cluster) -> Consumer:
    """Return a consumer of a partition's log. Raises GroupLogError (`options`)."""
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
    return _made(Consumer, settings(cluster, Failures()) | reading)


def _made(client: Any, configuration: dict[str, Any]) -> Any:
    try:
        return client(configuration)
    except (KafkaException, ValueError) as error:
        # Files of certificates are read here.
        failed = error.args[0]
        problem = failed.str() if isinstance(failed, KafkaError) else str(error)
        raise GroupLogError("options", " ".join(problem.split())) from None


class LogWatcher:
    """Says of one cluster's log where it begins and ends; keeps its connections."""

    def __init__(self, cluster: Cluster, topic: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._timeout_s = timeout_ms / 1000
        self._failures = Failures()
        self._admin: AdminClient | None = None

    def look(self) -> Log:
        """Return what the log's offsets are now. Raises GroupLogError."""
        log: Log = self._asking(self._look)
        return log

    def starting(self, log: Log, starting: Literal["earliest", "latest"] | int) -> Mapping[int, int]:
        """Return the offsets to begin at, of the partitions with a leader. Raises GroupLogError."""
        if starting == "earliest":
            return log.begins
        if starting == "latest":
            return log.ends
        spec = OffsetSpec.for_timestamp(starting)
        found = self._asking(lambda admin: self._offsets(admin, spec, log.ends))
        # -1: nothing so late.
        return {partition: found[partition] if found[partition] >= 0 else end for partition, end in log.ends.items()}

    def _asking(self, ask: Any) -> Any:
        if self._admin is None:
            self._admin = _made(AdminClient, settings(self._cluster, self._failures))
        try:
            answer = ask(self._admin)
        except KafkaException as error:
            self._admin.poll(0)
            # Secrets may have changed meanwhile: they are resolved again for the next client.
            self._admin = None
            explained = self._failures.explain(error.args[0])
            if explained.kind == "authentication":
                tokens.forget(self._cluster)
            raise explained from None
        self._failures.forget()
        return answer

    def _look(self, admin: AdminClient) -> Log:
        cluster_id = admin.describe_cluster(request_timeout=self._timeout_s).result().cluster_id
        if self._cluster.cluster_id not in {None, cluster_id}:
            raise GroupLogError("wrong_cluster", f"{cluster_id} answered, not {self._cluster.cluster_id}")
        described = admin.describe_topics(
            TopicCollection([self._topic]), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        try:
            topic = described[self._topic].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return Log(cluster_id)
            raise
        # With DESCRIBE alone everything but reading would work.
        if AclOperation.READ not in topic.authorized_operations:
            raise GroupLogError("not_allowed", f"READ on topic {self._topic} is missing")
        led = [partition.id for partition in topic.partitions if partition.leader is not None]
        return Log(
            cluster_id,
            str(topic.topic_id),
            frozenset(partition.id for partition in topic.partitions),
            self._offsets(admin, _EARLIEST, led),
            self._offsets(admin, _LATEST, led),
        )

    def _offsets(self, admin: AdminClient, spec: OffsetSpec, partitions: Any) -> dict[int, int]:
        asked = {TopicPartition(self._topic, partition): spec for partition in partitions}
        if not asked:
            return {}
        answers = admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self._timeout_s
        )
        offsets = {}
        for partition, answer in answers.items():
            try:
                offsets[partition.partition] = answer.result().offset
            except KafkaException as error:
                # Another partition's leader may well answer: this one's offsets are not known now.
                if not error.args[0].retriable() and error.args[0].code() not in _KINDS:
                    raise
        return offsets

"""A cluster as options say how to reach it, and what of SASL and TLS goes together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata_source.errors import OptionsError
from metadata_source.options.given import Given, read
from metadata_source.options.table import OPTIONS, PASSWORD_MECHANISMS, SASL, SASL_MECHANISMS, TLS

if TYPE_CHECKING:
    from collections.abc import Mapping

_PASSWORD: Final = ("kafka.sasl.username", "kafka.sasl.password")
_CLIENT: Final = ("kafka.sasl.oauthbearer.client.id", "kafka.sasl.oauthbearer.client.secret")
_JAAS: Final = "kafka.sasl.jaas.config"
_EXPOSED: Final = {
    "PLAIN": "the password",
    "SCRAM-SHA-256": "a hash from which the password can be guessed",
    "SCRAM-SHA-512": "a hash from which the password can be guessed",
    "OAUTHBEARER": "the token",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to reach one cluster. Passwords, client secret, JAAS line: references, no secrets."""

    alias: str
    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    security_protocol: str
    max_response_bytes: int
    kind: str
    sasl_kerberos_service_name: str
    ssl_endpoint_identification_algorithm: str
    cluster_id: str | None = None
    metadata_version: int | None = None
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_jaas_config: str | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_id: str | None = None
    sasl_oauthbearer_client_secret: str | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_extensions: tuple[tuple[str, str], ...] = ()
    https_ca_location: str | None = None
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = None

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol in {"SSL", "SASL_SSL"}

    @property
    def ssl_check_hostname(self) -> bool:
        """Whether the broker's certificate has to name the host that was asked for."""
        return self.ssl_endpoint_identification_algorithm == "https"

    @property
    def sasl(self) -> bool:
        """Whether the connection authenticates with SASL."""
        return self.security_protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    @property
    def sent_mechanism(self) -> str | None:
        """The mechanism that a connection names to brokers: MSK takes its tokens by OAUTHBEARER."""
        return "OAUTHBEARER" if self.sasl_mechanism == "AWS_MSK_IAM" else self.sasl_mechanism

    @property
    def exposed(self) -> str | None:
        """The part of the credentials that anyone on the network can read, in a line; or None."""
        part = None if self.tls else _EXPOSED.get(self.sent_mechanism or "")
        return (
            part
            and f"{part} crosses the network unencrypted: set kafka.security.protocol to SASL_SSL"
        )


def field_of(name: str) -> str:
    """Return the name of an option, or of a key of a configuration, as fields have it:
    `sasl_username` of `kafka.sasl.username`, `cluster_id` of `clusterId`.
    """
    return re.sub(r"\.|(?=[A-Z])", "_", name.removeprefix("kafka.")).lower()


_PER_CLUSTER: Final = tuple(option for option in OPTIONS if option.per_cluster)
_FIELDS: Final = {
    each.name: field_of(each.name)
    for each in _PER_CLUSTER
    if field_of(each.name) in Cluster.__slots__
}
_ALIAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def checked_alias(alias: str, within: str = "") -> str:
    """Return the alias. Raises OptionsError where it cannot be one."""
    if not _ALIAS.fullmatch(alias):
        raise OptionsError(
            f"{within}the alias {alias!r} is not 1 to 100 letters, digits, '.', '_' or '-'"
        )
    return alias


def cluster_of(one: Given) -> Cluster:
    """Return how to reach a cluster. Raises OptionsError."""
    alias = checked_alias(one.alias, one.within)
    if "kafka.bootstrap.servers" not in one.given:
        raise one.error("kafka.bootstrap.servers: missing")
    values = read(one.given, _PER_CLUSTER, one.within)
    found = Cluster(
        alias,
        **{field: values[name] for name, field in _FIELDS.items() if values[name] is not None},
    )
    if found.cluster_id is not None and found.metadata_version in {0, 1}:
        raise one.error(
            f"clusterId: contradicts metadataVersion {found.metadata_version}, whose answers have "
            "none"
        )
    if problem := _problem(found, one.given):
        raise one.error(problem)
    return found


def _problem(cluster: Cluster, given: Mapping[str, str]) -> str | None:
    """Return what a cluster's protocol and mechanism lack, or have too much; None: nothing."""
    for begin, is_used, name in ((SASL, cluster.sasl, "SASL"), (TLS, cluster.tls, "TLS")):
        if not is_used and (needless := [option for option in given if option.startswith(begin)]):
            return (
                f"{needless[0]}: contradicts kafka.security.protocol {cluster.security_protocol}, "
                f"which has no {name}"
            )
    if cluster.sasl and (of_sasl := _sasl_problem(cluster, given)):
        return of_sasl
    for name in ("kafka.ssl.key.location", "kafka.ssl.key.password"):
        if name in given and cluster.ssl_certificate_location is None:
            return f"{name}: without kafka.ssl.certificate.location"
    return None


def _sasl_problem(cluster: Cluster, given: Mapping[str, str]) -> str | None:
    mechanism = cluster.sasl_mechanism
    if mechanism is None:
        return f"kafka.sasl.mechanism: missing, one of {', '.join(SASL_MECHANISMS)}"
    if mechanism == "AWS_MSK_IAM" and not cluster.tls:
        return (
            "kafka.sasl.mechanism: AWS_MSK_IAM contradicts kafka.security.protocol "
            f"{cluster.security_protocol}"
        )
    takes = {
        "OAUTHBEARER": (_JAAS, "kafka.sasl.oauthbearer.", "kafka.https."),
        "AWS_MSK_IAM": (_JAAS,),
        "GSSAPI": ("kafka.sasl.kerberos.",),
    }.get(mechanism, (*_PASSWORD, _JAAS))
    for name in given:
        if name.startswith(SASL) and not name.startswith(("kafka.sasl.mechanism", *takes)):
            return f"{name}: contradicts kafka.sasl.mechanism {mechanism}"
    if mechanism == "OAUTHBEARER":
        if cluster.sasl_oauthbearer_token_endpoint_url is None:
            return "kafka.sasl.oauthbearer.token.endpoint.url: missing"
        return _jaas_or_both(_CLIENT, given)
    return _jaas_or_both(_PASSWORD, given) if mechanism in PASSWORD_MECHANISMS else None


def _jaas_or_both(names: tuple[str, str], given: Mapping[str, str]) -> str | None:
    direct = [name for name in names if name in given]
    if _JAAS in given:
        return f"{direct[0]}: contradicts {_JAAS}, which has the same" if direct else None
    return (
        None
        if len(direct) == len(names)
        else f"{' and '.join(names)}: both are needed (or {_JAAS})"
    )

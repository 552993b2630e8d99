"""The credentials of a cluster's client: secrets resolved, a token asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metadata_source import tokens
from metadata_source.jaas import jaas_options
from metadata_source.options.table import PASSWORD_MECHANISMS
from metadata_source.references import resolve_secret

if TYPE_CHECKING:
    from metadata_source.options import Cluster
    from metadata_source.tokens import Token


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password, or a token, or nothing: what a cluster's SASL mechanism needs."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: Token | None = None


def credentials(cluster: Cluster, deadline: float) -> Credentials:
    """Return what to connect with, by `deadline` (of `time.monotonic`). Raises OptionsError and
    TokenError, never with a secret.
    """
    if not cluster.sasl or cluster.sasl_mechanism == "GSSAPI":
        return Credentials()
    if cluster.sasl_mechanism not in PASSWORD_MECHANISMS:
        return Credentials(token=tokens.token(cluster, deadline))
    module = "PlainLoginModule" if cluster.sasl_mechanism == "PLAIN" else "ScramLoginModule"
    jaas = jaas_options(cluster, module, needed=("username", "password"))
    password = jaas.get("password")
    if cluster.sasl_password is not None:
        password = resolve_secret("kafka.sasl.password", cluster.sasl_password)
    return Credentials(jaas.get("username", cluster.sasl_username), password)

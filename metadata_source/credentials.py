"""The credentials of a cluster's client: secrets resolved, a token asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from metadata_source import tokens
from metadata_source.errors import OptionsError
from metadata_source.jaas import jaas_options
from metadata_source.options.table import PASSWORD_MECHANISMS
from metadata_source.references import resolve_secret

if TYPE_CHECKING:
    from metadata_source.options import Cluster
    from metadata_source.tokens import Token

_PASSWORD_OPTIONS: Final = ("username", "password")


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password, or a token, or nothing: what a cluster's SASL mechanism needs."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: Token | None = None


def credentials(cluster: Cluster, deadline: float) -> Credentials:
    """Return what to connect with, by `deadline` (of `time.monotonic`). Raises OptionsError and TokenError, never with
    a secret.
    """
    if not cluster.sasl or cluster.sasl_mechanism == "GSSAPI":
        return Credentials()
    if cluster.sasl_mechanism not in PASSWORD_MECHANISMS:
        return Credentials(token=tokens.token(cluster, deadline))
    username, password = cluster.sasl_username, None
    if cluster.sasl_jaas_config is not None:
        module = "PlainLoginModule" if cluster.sasl_mechanism == "PLAIN" else "ScramLoginModule"
        jaas = jaas_options(cluster, module, _PASSWORD_OPTIONS)
        username, password = jaas.get("username"), jaas.get("password")
        if not username or not password:
            raise OptionsError(f"kafka.sasl.jaas.config: a line of {module} needs username and password")
    elif cluster.sasl_password is not None:
        password = resolve_secret("kafka.sasl.password", cluster.sasl_password)
    return Credentials(username, password)

"""One broker with a listener for each way to connect, and what its clients need."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from local_cluster import LocalCluster
from local_cluster.certificates import Authority
from local_cluster.listeners import LISTENER_HOST, Listener, scram_over_tls, server_certificate
from tests.support.token_endpoint import AUDIENCE, ISSUER, Signer, TokenEndpoint, token_endpoint

USER = "alice"
# Each has a mark, letters and digits that are the same however the rest is escaped
# (tests/support/marks.py).
PASSWORD = 'passMk7Qz2Wn4 word; "quoted" \\back'  # noqa: S105
CLIENT_SECRET = "clntMk8Rt5Xc1; secret & 100%"  # noqa: S105
KEY_PASSWORD = "keypMk3Lp9Vb6 password"  # noqa: S105
WRONG = "wrngMk5Hj2Tr8; not it"
"""In the place of any of them."""
SESSION_MS = 2_000
"""How long a session of SCRAM-SHA-256 lasts (KIP-368). One of OAUTHBEARER lasts as long as its
token.
"""

_SECURITY = "org.apache.kafka.common.security"
_VALIDATOR = f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


@dataclass(frozen=True)
class Files:
    """An authority's certificate, and that of a client with its encrypted key (PEM)."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, authority: Authority, folder: Path) -> "Files":
        """Write them."""
        folder.mkdir()
        files = cls(folder / "ca.pem", folder / "client.pem", folder / "client.key")
        authority.write_certificate(files.ca)
        authority.write_client_certificate(USER, files.certificate, files.key, KEY_PASSWORD)
        return files


@dataclass(frozen=True)
class Secured:
    """The cluster, its token endpoint, the files that it trusts, and those of somebody whom it does
    not know.
    """

    cluster: LocalCluster
    tokens: TokenEndpoint
    own: Files
    stranger: Files

    def set_password(self, user: str, password: str) -> None:
        """Let SCRAM's users have this password from now on."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        for mechanism in _MECHANISMS.values():
            change = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(mechanism, 4096), password.encode()
            )
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(10)


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    authority = Authority.create("secured")
    own, stranger = (
        Files.of(authority, folder / "own"),
        Files.of(Authority.create("stranger"), folder / "stranger"),
    )
    keystore, expired = folder / "server.pem", folder / "expired.pem"
    authority.write_server_keystore(LISTENER_HOST, keystore)
    authority.write_server_keystore(LISTENER_HOST, expired, expired=True)
    signer, jwks = Signer(), folder / "jwks.json"
    jwks.write_text(signer.jwks())
    sasl = _sasl_properties(jwks)
    trusting = {
        **server_certificate(keystore),
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(own.ca),
    }
    listeners = [
        Listener("SSL", "SSL", server_certificate(keystore)),
        Listener("EXPIRED", "SSL", server_certificate(expired)),
        Listener("MUTUAL", "SSL", trusting),
        Listener("SASL_PLAINTEXT", "SASL_PLAINTEXT", sasl),
        Listener("SASL_SSL", "SASL_SSL", sasl | server_certificate(keystore)),
        scram_over_tls(keystore, "SCRAM_ONLY"),
    ]
    # From 4.0 on a broker reads no other keys than those that its Java is told.
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"
    with (
        token_endpoint(signer, {USER: CLIENT_SECRET}, keystore) as tokens,
        LocalCluster(1, listeners=listeners, java_options=[allowed]) as cluster,
    ):
        made = Secured(cluster, tokens, own, stranger)
        made.set_password(USER, PASSWORD)
        yield made


def _sasl_properties(jwks: Path) -> dict[str, str]:
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    scram = f"{_SECURITY}.scram.ScramLoginModule required;"
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "plain.sasl.jaas.config": (
            f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{password}";'
        ),
        "scram-sha-256.sasl.jaas.config": scram,
        "scram-sha-512.sasl.jaas.config": scram,
        "scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
        "oauthbearer.sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        # Kafka 4.4 takes tokens of a named issuer alone.
        "oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
    }

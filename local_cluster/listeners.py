"""Listeners beside PLAINTEXT: how clients may connect to a broker."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SASL_SSL = "SASL_SSL"
SCRAM = "SCRAM-SHA-512"

# What these listeners advertise. Their certificates are for this name only, so connecting by
# address is a wrong host name.
LISTENER_HOST = "localhost"


@dataclass(frozen=True)
class Listener:
    """One listener, which every broker opens.

    `properties` are Kafka's, without the prefix `listener.name.NAME.`; of a mechanism's the prefix
    is part of the name (`scram-sha-512.sasl.jaas.config`).
    """

    name: str
    security_protocol: str
    properties: Mapping[str, str]

    def broker_properties(self) -> dict[str, str]:
        """As server.properties has them."""
        return {
            f"listener.name.{self.name.lower()}.{key}": value
            for key, value in self.properties.items()
        }


def server_certificate(keystore: Path) -> dict[str, str]:
    """The properties of a listener with TLS. `keystore` is PEM: key and certificate."""
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}


def scram_over_tls(keystore: Path, name: str = SASL_SSL) -> Listener:
    """TLS, and within it SCRAM-SHA-512 alone."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return Listener(
        name,
        "SASL_SSL",
        {
            **server_certificate(keystore),
            "sasl.enabled.mechanisms": SCRAM,
            f"{SCRAM.lower()}.sasl.jaas.config": login,
        },
    )

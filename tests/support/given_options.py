"""Options that are refused, and how cluster options begin in tests."""

from collections.abc import Mapping

import pytest

from metadata_source.errors import OptionsError
from metadata_source.options import Mode, parse

BOOTSTRAP = {"kafka.bootstrap.servers": "one:9092"}
SASL = BOOTSTRAP | {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "env:ALICE_PASSWORD",
}
BEARER = BOOTSTRAP | {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.example.com/token",
    "kafka.sasl.oauthbearer.client.id": "history",
    "kafka.sasl.oauthbearer.client.secret": "env:CLIENT_SECRET",
}


def without(options: dict[str, str], end: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if not name.endswith(end)}


def refused(given: Mapping[str, str], mode: Mode | None = None) -> str:
    """The one line that says what cannot be meant, with a bootstrap server unless one is given."""
    with pytest.raises(OptionsError) as caught:
        parse(BOOTSTRAP | given, mode)
    message = str(caught.value)
    begin = "[KAFKA_METADATA_OPTIONS] "
    assert message.startswith(begin)
    assert "\n" not in message
    assert "hunter2" not in message
    return message.removeprefix(begin)

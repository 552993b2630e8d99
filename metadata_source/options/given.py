"""Options as they are given: texts by name, of all clusters and of each, and how to read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from metadata_source.errors import OptionsError
from metadata_source.options.table import BY_NAME, CONTROLLERS, HOST_CHECK, SECURITY_PROTOCOLS
from metadata_source.references import REFERENCE
from metadata_source.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metadata_source.options.table import Mode, Option

# Other names of the same: librdkafka's, and those of Java from 4.1 on.
_SPELLINGS: Final = {
    "kafka.sasl.mechanisms": "kafka.sasl.mechanism",
    "kafka.sasl.oauthbearer.client.credentials.client.id": "kafka.sasl.oauthbearer.client.id",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": (
        "kafka.sasl.oauthbearer.client.secret"
    ),
}

# Names of Java and librdkafka for what has another form here.
_ELSEWHERE: Final = {
    "kafka.ssl.truststore.location": "use kafka.ssl.ca.location (a PEM file)",
    "kafka.ssl.truststore.certificates": "use kafka.ssl.ca.location (a PEM file)",
    "kafka.ssl.ca.pem": "use kafka.ssl.ca.location (a PEM file)",
    "kafka.ssl.keystore.location": (
        "use kafka.ssl.certificate.location and kafka.ssl.key.location (PEM files)"
    ),
    "kafka.ssl.keystore.certificate.chain": "use kafka.ssl.certificate.location (a PEM file)",
    "kafka.ssl.certificate.pem": "use kafka.ssl.certificate.location (a PEM file)",
    "kafka.ssl.keystore.key": "use kafka.ssl.key.location (a PEM file)",
    "kafka.ssl.key.pem": "use kafka.ssl.key.location (a PEM file)",
    "kafka.ssl.keystore.password": "use kafka.ssl.key.password",
    # Not needless: who passes it over trusts what it was to keep out.
    "kafka.ssl.crl.location": "leave it out: no lists of revoked certificates are read",
}
# And for what needs no option.
_TICKET: Final = (
    "leave it out: GSSAPI takes its ticket from the credential cache or the client keytab of "
    "Kerberos"
)
_NEEDLESS: Final = {
    "kafka.ssl.truststore.password": "leave it out: the PEM file of kafka.ssl.ca.location has none",
    "kafka.ssl.truststore.type": "leave it out: kafka.ssl.ca.location is a PEM file",
    "kafka.ssl.keystore.type": "leave it out: certificate and key are PEM files",
    "kafka.enable.ssl.certificate.verification": (
        "leave it out: who is trusted is kafka.ssl.ca.location"
    ),
    "kafka.sasl.login.callback.handler.class": "leave it out: OAUTHBEARER asks its token endpoint",
    "kafka.sasl.client.callback.handler.class": "leave it out: kafka.sasl.mechanism says all",
    "kafka.sasl.kerberos.keytab": _TICKET,
    "kafka.sasl.kerberos.principal": _TICKET,
    "kafka.sasl.kerberos.kinit.cmd": _TICKET,
}


@dataclass(frozen=True, slots=True)
class Given:
    """The options of one cluster by name; `within` says where they are, for an error's line."""

    alias: str
    given: Mapping[str, str]
    within: str = ""

    def error(self, problem: str) -> OptionsError:
        """Return the error of a problem of this cluster."""
        return OptionsError(self.within + problem)


def read(given: Mapping[str, str], options: Iterable[Option], within: str = "") -> dict[str, Any]:
    """Return the value of each option by its name: of the text that is given, else of its default,
    else None. Raises OptionsError.
    """
    values = {}
    for option in options:
        text = given.get(option.name, option.default)
        try:
            values[option.name] = None if text is None else option.read(text)
        except ValueError as error:
            raise OptionsError(f"{within}{option.name}: {error}") from None
    return values


def read_all(
    options: Mapping[str, str], known: Mapping[str, Option], mode: Mode | None
) -> tuple[dict[str, Any], list[Given]]:
    """Return the values of the options that hold for the whole read, and the options of each
    cluster: its own, and those that hold for all. Raises OptionsError.
    """
    given = by_name(options, known, mode)
    values = read(given, (option for option in known.values() if not option.per_cluster))
    common = {name: text for name, text in given.items() if known[name.lower()].per_cluster}
    if values["clusters"] is None:
        return values, [Given(values["cluster"], _by_protocol(common, ""))]
    for name in ("cluster", "clusterId"):
        if name in given:
            raise OptionsError(f"{name}: contradicts clusters, where each cluster has its own")
    return values, [
        Given(
            alias,
            _by_protocol(common | by_name(_texts(own, within), known, mode, within), within),
            within,
        )
        for alias, own in values["clusters"].items()
        for within in (f"clusters[{alias!r}]: ",)
    ]


def by_name(
    options: Mapping[str, str], known: Mapping[str, Option], mode: Mode | None, within: str = ""
) -> dict[str, str]:
    """Return the texts of options by their names as the table of those `known` spells them. Raises
    OptionsError, also for an option that a read of this mode does not have.
    """
    given: dict[str, str] = {}
    for key, value in options.items():
        option = known.get(_SPELLINGS.get(key.lower(), key.lower()))
        if option is None:
            raise OptionsError(f"{within}unknown option {key!r}{_hint(key, known)}")
        if within and not option.per_cluster:
            raise OptionsError(
                f"{within}{option.name}: one for the whole read, it cannot differ from cluster to "
                "cluster"
            )
        if option.name in given:
            raise OptionsError(f"{within}{option.name}: given twice, in two spellings")
        if not value.strip() and option.name.endswith(HOST_CHECK):
            value = "none"  # noqa: PLW2901 - how Java clients say it
        if not value.strip():
            raise OptionsError(f"{within}{option.name}: empty")
        if option.secret and not REFERENCE.fullmatch(value):
            # The value may be the secret itself: it is not shown.
            raise OptionsError(
                f"{within}{option.name}: not a reference: give env:NAME (an environment variable "
                "of the executors) or file:/path, so that no secret gets into a plan or a log"
            )
        if mode is not None and option.only and mode != option.only[0] and option.only[1]:
            raise OptionsError(f"{within}{option.name}: {option.only[1]}")
        given[option.name] = value.strip()
    return given


def client_option(name: str) -> Option | None:
    """Return the option that a file of a client calls `name`, with `kafka.` or without; None where
    no option is needed for it. Raises OptionsError for a name that is mistyped, and for what has
    another form here.
    """
    names = name.lower(), f"kafka.{name.lower()}"
    for each in names:
        if (option := BY_NAME.get(_SPELLINGS.get(each, each))) is not None:
            return option
    if any(each in _NEEDLESS for each in names):
        return None
    if any(each in _ELSEWHERE or _did_you_mean(each, BY_NAME) for each in names):
        raise OptionsError(f"unknown option {name!r}{_hint(name, BY_NAME)}")
    return None


def _hint(key: str, known: Mapping[str, Option]) -> str:
    names = key.lower(), f"kafka.{key.lower()}"
    for name in names:
        if todo := _ELSEWHERE.get(name) or _NEEDLESS.get(name):
            return f": {todo}"
        spelt = _SPELLINGS.get(name, name)
        if spelt in known:
            return f": did you mean {known[spelt].name!r}?"
    for name in names:
        if hint := _did_you_mean(name, known):
            return f": {hint}"
    if names[0].startswith("kafka."):
        return ": nothing here needs it, leave it out; docs/options.md has all options"
    return f": the options are {', '.join(option.name for option in known.values())}"


def _did_you_mean(name: str, known: Mapping[str, Option]) -> str:
    """Ask for the name that is meant, or nothing. Names of Kafka begin alike: one that differs in
    more than a letter or two is an option of its own.
    """
    return did_you_mean(
        name, known, "", lambda close: repr(known[close].name), 0.94 if "." in name else 0.8
    )


def _texts(own: Any, within: str) -> dict[str, str]:
    if not isinstance(own, dict):
        raise OptionsError(f"{within}not a JSON object of options")
    for key, value in own.items():
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise OptionsError(f"{within}{key}: neither text nor a whole number")
    return {key: str(value) for key, value in own.items()}


_PROTOCOL: Final = re.compile(rf"(?:^|(?<=,))\s*({'|'.join(SECURITY_PROTOCOLS)})://", re.IGNORECASE)


def _by_protocol(given: Mapping[str, str], within: str) -> dict[str, str]:
    """Return the options with the protocol of addresses such as `SASL_SSL://host:9092` as the
    option that it is.

    librdkafka takes such an address if the option says the same. Java passes the protocol over.
    """
    found = dict(given)
    for begin in ("kafka.", CONTROLLERS):
        servers, option = f"{begin}bootstrap.servers", f"{begin}security.protocol"
        text = given.get(servers, "")
        for protocol in _PROTOCOL.findall(text):
            if found.setdefault(option, protocol).upper() != protocol.upper():
                raise OptionsError(
                    f"{within}{servers}: {protocol}:// contradicts {option} {found[option]}"
                )
        if text:
            found[servers] = _PROTOCOL.sub("", text)
    return found

"""The section `notify` of the configuration: who gets messages, of what, and when nobody does."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from jobs.configuration.reading import as_duration, as_mapping, as_text, each_of, read
from jobs.configuration.severities import SEVERITIES, TICKET
from metadata_source.options.cluster import field_of
from metadata_source.options.readers import whole_number
from metadata_source.references import REFERENCE
from metadata_source.text import did_you_mean
from metadata_source.yaml_file import truth
from schemas import incidents

LAKE_UNREADABLE: Final = "lake_unreadable"
"""The kind of an alert: the lake cannot be read. It is no finding of a cluster."""
KINDS: Final = (*SEVERITIES, LAKE_UNREADABLE)
"""Kinds of the alerts that a message may be about."""
EVENTS_URL: Final = "https://events.pagerduty.com/v2/enqueue"
"""PagerDuty's Events API of the service region US."""
_LEAST_BEAT: Final = timedelta(seconds=10)


@dataclass(frozen=True)
class Target:
    """Who gets messages. `to`: the kind of receiver, a key of RECEIVERS; `url`, `routing_key`: a
    URL, or the reference to a secret. Empty `clusters` or `kinds`: all of them.
    """

    to: str
    url: str
    routing_key: str = ""
    severity: str = TICKET
    clusters: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Heartbeat:
    """A URL that is asked for as long as messages would be sent; or the reference to one."""

    url: str
    every: timedelta = timedelta(minutes=1)


@dataclass(frozen=True)
class Silence:
    """Alerts of which nobody gets messages: None is any. `marks`: in windows that people marked."""

    cluster: str | None = None
    broker: int | None = None
    kind: str | None = None
    until: datetime | None = None
    marks: bool = False


@dataclass(frozen=True)
class Notify:
    """The section as a whole. `pages`: where `serve` is reached; empty: messages have no link."""

    pages: str = ""
    targets: Mapping[str, Target] = field(default_factory=dict)
    heartbeat: Heartbeat | None = None
    silences: tuple[Silence, ...] = ()

    def check(self, aliases: Collection[str]) -> None:
        """Raise ValueError for a cluster that the configuration does not have."""
        named = [
            (f"targets.{name}", alias) for name, of in self.targets.items() for alias in of.clusters
        ]
        named += [("silences", each.cluster) for each in self.silences if each.cluster is not None]
        for where, alias in named:
            if alias not in aliases:
                hint = did_you_mean(alias, aliases, f"clusters are {', '.join(aliases)}")
                raise ValueError(f"notify.{where}: there is no cluster {alias}; {hint}")


def _url(name: str, value: Any) -> str:
    """A URL without credentials, or a reference. What is wrong is not shown: it may be a secret."""
    url = as_text(name, value)
    if REFERENCE.fullmatch(url):
        return url
    if (problem := problem_of(url)) is not None:
        raise ValueError(f"{name}: {problem}, nor a reference (env:NAME, file:/path)")
    if "@" in urlsplit(url).netloc:
        raise ValueError(f"{name}: it holds a user or a password: give env:NAME or file:/path")
    return url


def problem_of(url: str) -> str | None:
    """Return why a text is no URL that can be asked, without the text; None if it is one."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or not url.isprintable() or " " in url:
        return "it is no URL such as https://host/path"
    return None


def _secret(name: str, value: Any) -> str:
    given = as_text(name, value)
    if not REFERENCE.fullmatch(given):
        raise ValueError(
            f"{name}: not a reference: give env:NAME (an environment variable) or file:/path"
        )
    return given


def _names(name: str, value: Any) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in as_text(name, value).split(","))))


def _kinds(name: str, value: Any) -> tuple[str, ...]:
    return tuple(_kind(name, each) for each in _names(name, value))


def _kind(name: str, value: Any) -> str:
    return _one_of(KINDS)(name, value)


def _one_of(known: Collection[str]) -> Callable[[str, Any], str]:
    def read_one(name: str, value: Any) -> str:
        given = as_text(name, value)
        if given not in known:
            hint = did_you_mean(given, known, f"one of {', '.join(known)}")
            raise ValueError(f"{name}: {given!r} is not known; {hint}")
        return given

    return read_one


def _broker(name: str, value: Any) -> int:
    number = whole_number(as_text(name, value))
    if number is None or number < 0:
        raise ValueError(f"{name}: {value!r} is not the id of a broker, a whole number")
    return number


def _until(name: str, value: Any) -> datetime:
    try:
        at = datetime.fromisoformat(as_text(name, value))
    except ValueError:
        raise ValueError(f"{name}: {value!r} is no time like 2026-11-21T10:00:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _marks(name: str, value: Any) -> bool:
    found = truth(value)
    if found is None:
        raise ValueError(f"{name}: {value!r} is neither true nor false")
    return found


RECEIVERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "pagerduty": {"routingKey": (_secret, ""), "url": (_url, "")},
    "alertmanager": {"url": (_url, "")},
    "webhook": {"url": (_url, "")},
    "apprise": {"url": (_secret, "")},
}
"""Kind of a receiver -> its keys."""
_DEFAULTS: Final = {"pagerduty": {"url": EVENTS_URL}}
_NARROWS: Final = {
    "severity": (_one_of(incidents.SEVERITIES), ""),
    "clusters": (_names, ""),
    "kinds": (_kinds, ""),
}
_SILENCE: Final = {
    "cluster": (as_text, ""),
    "broker": (_broker, ""),
    "kind": (_kind, ""),
    "until": (_until, ""),
    "marks": (_marks, ""),
}


def _target(name: str, value: Any) -> Target:
    given = read(name, value, {**RECEIVERS, **_NARROWS})
    chosen = [each for each in RECEIVERS if each in given]
    if len(chosen) != 1:
        raise ValueError(f"{name}: give one of {', '.join(RECEIVERS)}")
    keys = _DEFAULTS.get(chosen[0], {}) | given.pop(chosen[0])
    if missing := [each for each in RECEIVERS[chosen[0]] if field_of(each) not in keys]:
        raise ValueError(f"{name}.{chosen[0]}.{missing[0]} is missing")
    return Target(chosen[0], **keys, **given)


def _targets(name: str, value: Any) -> dict[str, Target]:
    return each_of(_target)(name, value or {})


def _heartbeat(name: str, value: Any) -> Heartbeat | None:
    if value is None:
        return None
    given = read(name, value, {"url": (_url, ""), "every": (as_duration, "")})
    if "url" not in given:
        raise ValueError(f"{name}.url is missing")
    found = Heartbeat(**given)
    if found.every < _LEAST_BEAT:
        raise ValueError(f"{name}.every: less than 10s, the least")
    return found


def _silences(name: str, value: Any) -> tuple[Silence, ...]:
    given = value or []
    if not isinstance(given, list) or None in given:
        raise ValueError(f"{name} is not a list of silences")
    found = []
    for number, item in enumerate(given):
        where = f"{name}[{number}]"
        silence = Silence(**read(where, as_mapping(where, item), _SILENCE))
        if silence.until is None and not silence.marks:
            raise ValueError(f"{where}: say until when, or marks: true")
        found.append(silence)
    return tuple(found)


def _pages(name: str, value: Any) -> str:
    url = as_text(name, value)
    if url and (problem := problem_of(url)) is not None:
        raise ValueError(f"{name}: {problem}")
    return url.rstrip("/")


NOTIFY: Final[Mapping[str, Any]] = {
    "targets": (_targets, "Who gets messages: docs/notify.md. Default: nobody."),
    "pages": (_pages, "Where `serve` can be reached, for links. Default: messages have no link."),
    "heartbeat": (_heartbeat, "A URL to ask for as long as messages are sent. Default: none."),
    "silences": (_silences, "Of whom no message is sent, and until when. Default: none."),
}
"""Keys of the section -> the reader of the value, and its meaning."""

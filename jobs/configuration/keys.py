"""The keys of the configuration file: the reader of each value, and its meaning."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from jobs.configuration.histories import DECLARED
from jobs.configuration.severities import INFO, PAGE, SEVERITIES, TICKET, Severity
from metadata_source.options.cluster import field_of
from metadata_source.options.readers import duration_ms, whole_number
from metadata_source.options.table import OF_ONE_CLUSTER
from metadata_source.text import did_you_mean
from metadata_source.yaml_file import kind_of
from schemas.lake import Lake

_DAYS = re.compile(r"(\d+)\s*(?:d|days?)")
URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
"""The beginning of what is no folder of this machine."""


def duration(text: str) -> timedelta:
    """Days (`7d`, `2 days`), or what the data source's options take for a duration. Raises
    ValueError.
    """
    days = _DAYS.fullmatch(text.strip().lower())
    try:
        return timedelta(days=int(days[1])) if days else timedelta(milliseconds=duration_ms(text))
    except OverflowError:
        raise ValueError(f"{text!r} is longer than {timedelta.max.days}d") from None


def read(name: str, value: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a mapping, and of those in it, by fields. `name` is empty for the file."""
    given = _mapping(name or "the file", value)
    within = f"{name}." if name else ""
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known, f"known here: {', '.join(known)}", shown=within.__add__)
            raise ValueError(f"unknown key {within}{key}; {hint}")
    found: dict[str, Any] = {}
    for key, item in given.items():
        match known[key]:
            case reader, _:
                found[field_of(key)] = reader(f"{within}{key}", item)
            case section:
                found[key] = read(f"{within}{key}", item or {}, section)
    return found


# --- readers: each checks the value of a key, given by its whole name, and makes a field of it ---


def _each(reader: Callable[[str, Any], Any]) -> Callable[[str, Any], dict[str, Any]]:
    """Of a mapping with keys of any name."""
    return lambda name, value: {
        key: reader(f"{name}.{key}", item) for key, item in _mapping(name, value).items()
    }


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and None in value:
        raise ValueError(f"{name}: a name in it is nothing (null): quote it")
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} is not a mapping of names to values")
    return value


def _lake(name: str, value: Any) -> Lake:
    if isinstance(value, Mapping):
        catalog = read(name, value, {"catalog": (lambda _, catalog: catalog, "")}).get("catalog")
        if isinstance(catalog, str) and catalog:
            return Lake(catalog=catalog)
    elif isinstance(value, str) and value:
        return Lake(root=value)
    raise ValueError("lake is neither a folder or URI nor {catalog: NAME}")


def _folder(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is not a folder or URI")
    return value


def _docs(name: str, value: Any) -> str:
    return _here_only(name, value, "data docs")


def _spool(name: str, value: Any) -> str:
    return "" if value is None else _here_only(name, value, "a spool")


def _severity(name: str, value: Any) -> Severity:
    """Written as `ticket=1m, page=5m`, one of them, or `info`."""
    text = _text(name, value)
    found: dict[str, timedelta] = {}
    for each in () if text.strip() == INFO else text.split(","):
        word, _, after = (part.strip() for part in each.partition("="))
        if word not in {TICKET, PAGE} or word in found:
            raise ValueError(f"{name}: {text!r} is neither like 'ticket=1m, page=5m' nor {INFO!r}")
        found[word] = _duration(name, after)
    return Severity(**found)


AUTO = "auto"
"""The value of `upgrade`."""


def _upgrade(name: str, value: Any) -> str:
    if value not in (None, AUTO):
        raise ValueError(f"{name} is neither {AUTO} nor left out")
    return value or ""


def _here_only(name: str, value: Any, what: str) -> str:
    folder = _folder(name, value)
    if URI.match(folder):
        raise ValueError(
            f"{name}: {folder} is not a folder of this machine, the only place that {what} can be"
        )
    return folder


def _text(name: str, value: Any) -> str:
    """A text as it is written, or a list of them; empty where there is nothing."""
    if isinstance(value, list):
        return ",".join("" if item is None else str(item) for item in value)
    if value is None or isinstance(value, str):
        return value or ""
    # Not shown: it may be a secret that was meant to be a reference.
    raise ValueError(f"{name}: {kind_of(value)} is not text or a whole number")


CONTROLLER_RACKS = "controllerRacks"
"""Of a cluster: a key of this program's, not an option of the data source."""


def _of_cluster(name: str, value: Any) -> str | dict[int, str]:
    """An option of one cluster, or the racks of its controllers."""
    return (_racks if name.endswith(f".{CONTROLLER_RACKS}") else _option)(name, value)


def _racks(name: str, value: Any) -> dict[int, str]:
    """Racks of controllers, by id."""
    found = {}
    for node, rack in _mapping(name, value or {}).items():
        if not node.isdecimal():
            raise ValueError(f"{name}: {node!r} is not the id of a controller, a whole number")
        if not isinstance(rack, str) or not rack:
            raise ValueError(f"{name}.{node}: {kind_of(rack)} is not the name of a rack")
        found[int(node)] = rack
    return found


def _option(name: str, value: Any) -> str:
    """An option of the data source."""
    return _questions(name, value) if name.lower().endswith(".enrich") else _text(name, value)


def _questions(name: str, value: Any) -> str:
    """`enrich` as the data source takes it, of a mapping of questions to intervals, or None."""
    if not isinstance(value, Mapping):
        return _text(name, value)
    questions = {
        str(kind): None if beat is None else _text(f"{name}.{kind}", beat)
        for kind, beat in value.items()
    }
    return (
        ",".join(kind if beat is None else f"{kind}={beat}" for kind, beat in questions.items())
        or "none"
    )


def _options(name: str, value: Any) -> dict[str, str]:
    """Options that hold for all clusters."""
    given = _mapping(name, value or {})
    for key in given:
        if key.lower() in map(str.lower, OF_ONE_CLUSTER):
            raise ValueError(f"{name}.{key}: set it under clusters: it is of one cluster")
        if key.lower() == "spool":
            raise ValueError(f"{name}.{key}: it is a key of the file itself, beside {name}")
    return _each(_option)(name, given)


def _duration(name: str, value: Any) -> timedelta:
    try:
        return duration(str(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _age(name: str, value: Any) -> timedelta:
    """An age at which rows go. Days alone: who means months by `12M` would keep twelve minutes."""
    if not _DAYS.fullmatch(str(value).strip().lower()):
        raise ValueError(
            f"{name}: {value!r} is not a number of days: write it as 7d, a year as 365d"
        )
    if (age := _duration(name, value)) < _LEAST_AGE:
        raise ValueError(f"{name}: {value!r} is less than 1d, the least")
    return age


def _hand_over(name: str, value: Any) -> timedelta:
    found = _duration(name, value)
    if found < _LEAST_HAND_OVER:
        raise ValueError(
            f"{name}: {value!r} is less than 2m: of a log in which nothing happens a minute is "
            "one row"
        )
    return found


def _count(least: int, percent: int | None = None) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        number = whole_number(value) if isinstance(value, str) else None
        if number is None or number < least:
            shown = repr(value) if number is None else number
            raise ValueError(f"{name}: {shown} is not a whole number from {least} on")
        if percent is not None and number > percent:
            raise ValueError(f"{name}: {number} is more than {percent} percent")
        return number

    return read


REQUIRED = ("lake", "clusters")
_LEAST_HAND_OVER = timedelta(minutes=2)
_LEAST_AGE = timedelta(days=1)

FILE: Mapping[str, Any] = {
    "lake": (
        _lake,
        (
            "Where the tables are: a folder, beside this file if it is relative, a URI, or "
            "{catalog: NAME}."
        ),
    ),
    "checkpoints": (
        lambda name, value: None if value is None else _folder(name, value),
        (
            "Where the streaming queries keep their place. Default: LAKE/checkpoints; required "
            "with a catalog."
        ),
    ),
    "spool": (
        _spool,
        (
            "Folder of the machine that polls, in which polls wait. Default: CHECKPOINTS/spool, "
            "or see below."
        ),
    ),
    "upgrade": (
        _upgrade,
        "auto: `run` upgrades a lake of an older version before it begins. Default: it refuses it.",
    ),
    "clusters": (
        _each(_each(_of_cluster)),
        "For each alias, which is for good, how to reach that cluster.",
    ),
    "poll": (_options, "Options that hold for all clusters."),
    "groupLog": (
        _options,
        "Options of reading __consumer_offsets; may be empty. Default: nothing reads it.",
    ),
    "clusterLog": (
        _options,
        "Options of reading __cluster_metadata; may be empty. Default: nothing reads it.",
    ),
    "retention": {
        "bronze": (_age, "Age in days at which days of bronze go, once they became history."),
        "silver": (
            _age,
            "Age in days at which rows of silver go, by when they were over. Default: never.",
        ),
        "gold": (
            _age,
            "Age in days at which rows of gold go, by when they were over. Default: never.",
        ),
        **{
            each.retention_key: (
                _age,
                f"The same of {each.names_kept_apart}. Default: as gold.",
            )
            for each in DECLARED
            if each.kept_apart
        },
    },
    "thresholds": {
        "flaps": (
            _count(1),
            "A broker that leaves an ISR so many times within flapWindow is flapping.",
        ),
        "storm": (
            _count(2),
            "A group that rebalances so many times within stormWindow is in a storm.",
        ),
        "crashLoop": (
            _count(2),
            "A client that joins a group so many times in crashLoopWindow is in a crash loop.",
        ),
        "flapWindow": (_duration, "See flaps."),
        "stormWindow": (_duration, "See storm."),
        "crashLoopWindow": (_duration, "See crashLoop."),
    },
    "severities": {
        kind: (_severity, f"After how long {kind} is worth a ticket, or a page; `info`: never.")
        for kind in SEVERITIES
    },
    "history": {
        "pollsPerRound": (
            _count(1),
            "A round of history takes at most so many polls of each cluster.",
        ),
        "handOver": (
            _hand_over,
            "Polls make history once nobody read the controllers' log for so long; 2m at least.",
        ),
    },
    "validation": {"docs": (_docs, "Folder of the data docs. Default: LAKE/quality/data_docs.")},
    "status": {
        "window": (_duration, "Polls and gaps of so long before now count."),
        "lastGoodPoll": (
            _duration,
            "The last good poll may be so old. Default: two intervals and two minutes.",
        ),
        "failures": (_count(1), "So many failed polls in a row are too many."),
        "unanswered": (
            _count(1),
            "So many answers in a row to a question of enrich that failed are too many.",
        ),
        "failedPercent": (_count(0, percent=100), "More failed polls of a hundred are too many."),
        "latePercent": (_count(0, percent=100), "More late polls of a hundred are too many."),
        "gaps": (_count(0), "More gaps are too many."),
        "lostOffsets": (
            _count(0),
            "More offsets of the group log that were gone unread are too many.",
        ),
        "behind": (_duration, "History may be behind polls by so long."),
        "upkeep": (_duration, "The last upkeep may be so long ago."),
        "lakeBytes": (
            _count(1),
            "The tables, with their logs, may be so large. Default: any size.",
        ),
    },
}
"""Each key of the file -> the reader of its value, and its meaning; or the keys in it."""

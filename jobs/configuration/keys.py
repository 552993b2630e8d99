"""The keys of the configuration file: the reader of each value, and its meaning."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from jobs.configuration.histories import DECLARED
from jobs.configuration.notify import NOTIFY
from jobs.configuration.reading import DAYS, URI, as_duration, as_mapping, as_text, each_of, read
from jobs.configuration.severities import INFO, PAGE, SEVERITIES, TICKET, Severity
from jobs.configuration.spark import SPARK
from metadata_source.options.readers import whole_number
from metadata_source.options.table import OF_ONE_CLUSTER
from metadata_source.references import REFERENCE
from metadata_source.yaml_file import kind_of
from schemas.lake import Lake

# --- readers: each checks the value of a key, given by its whole name, and makes a field of it ---


def _lake(name: str, value: Any) -> Lake:
    if isinstance(value, Mapping):
        catalog = read(name, value, {"catalog": (lambda _, catalog: catalog, "")}).get("catalog")
        if isinstance(catalog, str) and catalog:
            return Lake(catalog=catalog)
    elif isinstance(value, str) and value:
        return Lake(root=value)
    raise ValueError("lake is neither a folder or URI nor {catalog: NAME}")


def _storage(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Options of an object store, by delta-rs' names. A secret is a reference."""
    given = {
        key.lower(): as_text(f"{name}.{key}", item)
        for key, item in as_mapping(name, value or {}).items()
    }
    for key, item in given.items():
        if SECRETS.search(key) and not REFERENCE.fullmatch(item):
            # Not shown: it may be the secret.
            raise ValueError(f"{name}.{key}: not a reference: give env:NAME or file:/path")
    return tuple(sorted(given.items()))


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
    text = as_text(name, value)
    found: dict[str, timedelta] = {}
    for each in () if text.strip() == INFO else text.split(","):
        word, _, after = (part.strip() for part in each.partition("="))
        if word not in {TICKET, PAGE} or word in found:
            raise ValueError(f"{name}: {text!r} is neither like 'ticket=1m, page=5m' nor {INFO!r}")
        found[word] = as_duration(name, after)
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


CONTROLLER_RACKS = "controllerRacks"
"""Of a cluster: a key of this program's, not an option of the data source."""


def _of_cluster(name: str, value: Any) -> str | dict[int, str]:
    """An option of one cluster, or the racks of its controllers."""
    return (_racks if name.endswith(f".{CONTROLLER_RACKS}") else _option)(name, value)


def _racks(name: str, value: Any) -> dict[int, str]:
    """Racks of controllers, by id."""
    found = {}
    for node, rack in as_mapping(name, value or {}).items():
        if not node.isdecimal():
            raise ValueError(f"{name}: {node!r} is not the id of a controller, a whole number")
        if not isinstance(rack, str) or not rack:
            raise ValueError(f"{name}.{node}: {kind_of(rack)} is not the name of a rack")
        found[int(node)] = rack
    return found


def _option(name: str, value: Any) -> str:
    """An option of the data source."""
    return _questions(name, value) if name.lower().endswith(".enrich") else as_text(name, value)


def _questions(name: str, value: Any) -> str:
    """`enrich` as the data source takes it, of a mapping of questions to intervals, or None."""
    if not isinstance(value, Mapping):
        return as_text(name, value)
    questions = {
        str(kind): None if beat is None else as_text(f"{name}.{kind}", beat)
        for kind, beat in value.items()
    }
    return (
        ",".join(kind if beat is None else f"{kind}={beat}" for kind, beat in questions.items())
        or "none"
    )


def _options(name: str, value: Any) -> dict[str, str]:
    """Options that hold for all clusters."""
    given = as_mapping(name, value or {})
    for key in given:
        if key.lower() in map(str.lower, OF_ONE_CLUSTER):
            raise ValueError(f"{name}.{key}: set it under clusters: it is of one cluster")
        if key.lower() == "spool":
            raise ValueError(f"{name}.{key}: it is a key of the file itself, beside {name}")
    return each_of(_option)(name, given)


def _age(name: str, value: Any) -> timedelta:
    """An age at which rows go. Days alone: who means months by `12M` would keep twelve minutes."""
    if not DAYS.fullmatch(str(value).strip().lower()):
        raise ValueError(
            f"{name}: {value!r} is not a number of days: write it as 7d, a year as 365d"
        )
    if (age := as_duration(name, value)) < _LEAST_AGE:
        raise ValueError(f"{name}: {value!r} is less than 1d, the least")
    return age


def _hand_over(name: str, value: Any) -> timedelta:
    found = as_duration(name, value)
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


SECRETS: Final = re.compile(r"secret|token(?!_file)|password|account_key|access_key$|sas_key")
"""Names of options of a store whose values let in; access_key_id is a name."""

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
    "storage": (
        _storage,
        (
            "Options of the object store of the lake, as delta-rs names them (aws_region, "
            "aws_endpoint_url, ...). Default: the machine's own."
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
        each_of(each_of(_of_cluster)),
        "For each alias, which is for good, how to reach that cluster.",
    ),
    "poll": (_options, "Options that hold for all clusters."),
    "groupLog": (
        _options,
        "Options of reading __consumer_offsets; may be empty. Default: nothing reads it.",
    ),
    "transactionLog": (
        _options,
        "Options of reading __transaction_state; may be empty. Default: nothing reads it.",
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
        "flapWindow": (as_duration, "See flaps."),
        "stormWindow": (as_duration, "See storm."),
        "crashLoopWindow": (as_duration, "See crashLoop."),
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
    "notify": NOTIFY,
    "spark": SPARK,
    "validation": {"docs": (_docs, "Folder of the data docs. Default: LAKE/quality/data_docs.")},
    "status": {
        "window": (as_duration, "Polls and gaps of so long before now count."),
        "lastGoodPoll": (
            as_duration,
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
        "behind": (as_duration, "History may be behind polls by so long."),
        "upkeep": (as_duration, "The last upkeep may be so long ago."),
        "lakeBytes": (
            _count(1),
            "The tables, with their logs, may be so large. Default: any size.",
        ),
    },
}
"""Each key of the file -> the reader of its value, and its meaning; or the keys in it."""

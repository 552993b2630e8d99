"""Where to look for what metadata does not show, and which commands tell more."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from jobs.rules.incidents.incident import MAINTENANCE
from kafka_metadata_history.answers.incidents import words
from kafka_metadata_history.answers.questions import filters_of, option
from kafka_metadata_history.names import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import Account, Incident

BEFORE, AFTER = timedelta(minutes=2), timedelta(minutes=1)
"""So much before an incident, and after it, is of use to whoever reads logs."""
COMMANDS: Final = 3
LOGS: Final = 3
_OF_GROUPS: Final = {"rebalance", "pause", "lag", "group_stuck", "group_stopped"}
_OF_BROKERS: Final = {
    "broker_down",
    "broker_hung",
    "controlled_shutdown",
    "log_dir_failed",
    "leader_stalled",
    "lagging",
    "stale",
}
"""Causes whose `cause_of` is a broker."""


@dataclass(frozen=True)
class Log:
    """A log of brokers or controllers to read. `hosts`: `broker 3 (host:port)`, each."""

    file: str
    hosts: Sequence[str]
    since: datetime
    until: datetime
    why: str = ""


def logs(of: Account) -> list[Log]:
    """Return which logs to read, from when to when; the nearest to the cause first."""
    return [*_logs(of)][:LOGS]


def _logs(of: Account) -> Iterator[Log]:
    since, until = _window(of)

    def log(file: str, nodes: Sequence[int], noun: str, why: str) -> Log:
        hosts = [
            f"{noun} {node} ({of.hosts[node]})" if node in of.hosts else f"{noun} {node}"
            for node in nodes
        ]
        return Log(file, hosts, since, until, why)

    suspects = _suspects(of.incident)
    if suspects:
        yield log("server.log", suspects, "broker", "")
    if of.controllers:
        yield log("controller.log", of.controllers, "controller", "the active one")
    if coordinators := _coordinators(of):
        yield log("server.log", coordinators, "broker", "the coordinator of groups")


def _window(of: Account) -> tuple[datetime, datetime]:
    """From when to when logs are of use. An incident that lasts does so as far as is recorded."""
    found = of.incident
    last = found.ended_before or of.recorded.until or found.began_before
    return (found.began_after or found.began_before) - BEFORE, last + AFTER


def _suspects(of: Incident) -> list[int]:
    who = of.cause_of
    if of.cause in _OF_BROKERS and who is not None and who.isdecimal():
        return [int(who)]
    return [*of.brokers]


def _coordinators(of: Account) -> list[int]:
    """The brokers that coordinate the groups of an incident since its moves of coordinators."""
    moved = [each for each in of.findings if each.kind == "coordinator_moved"]
    return sorted({to for each in moved for to in each.brokers if to != each.broker_id})


def commands(of: Account, config: str | None) -> list[str]:
    """Return the next COMMANDS commands as a shell takes them. `config`: the file, where named."""
    found = of.incident
    suspects, kinds = _suspects(found), {each.kind for each in of.findings}
    broker = suspects[0] if len(suspects) == 1 else None
    groups = [*found.group_ids, *(each.group_id for each in of.findings if each.group_id)]
    group = next((each for each in groups if _can_be_typed(each)), None)
    into = found.merged_into
    asked = [] if into is None else [_command(["explain", into], config)]
    asked.append(_query(of, "overview", config, broker=broker))
    if found.incident_class == MAINTENANCE:
        asked.append(_query(of, "restarts", config, broker=broker))
    if found.cause == "reassignment" or "reassignment" in kinds:
        asked.append(_query(of, "reassignments", config))
    if found.cause == "quorum" or found.kind.startswith("quorum"):
        asked.append(_query(of, "controllers", config))
    if found.cause == "log_dir_failed":
        asked.append(_query(of, "storage", config, broker=broker))
    if found.cause == "stale":
        asked.append(_query(of, "stale_brokers", config, broker=broker))
    if "stuck_transaction" in kinds:
        asked.append(_query(of, "stuck_transactions", config))
    if kinds & _OF_GROUPS:
        name = "rebalance_cost" if kinds & {"rebalance", "pause"} else "lag"
        asked.append(_query(of, name, config, group=group))
    asked.append(all_findings(of, config))
    return [*asked[: COMMANDS - 1], _last(of, config)]


def _last(of: Account, config: str | None) -> str:
    """The command for what comes next: another stop, the next failure, or the post-mortem."""
    found = of.incident
    others = [each for each in sorted(of.hosts) if each not in found.brokers]
    if found.is_open and found.incident_class == MAINTENANCE and others:
        return _command(["may-stop", str(others[0]), "--cluster", found.cluster], config)
    if found.is_open:
        return _query(of, "one_failure_from_offline", config)
    return _command(["report", *_options(of)], config)


def all_findings(of: Account, config: str | None) -> str:
    """Return the command that lists all findings of an incident."""
    return _command(["query", "incident_links", "--incident", of.incident.id], config)


def _query(of: Account, name: str, config: str | None, **filters: object) -> str:
    known = filters_of(name)
    narrowed = [
        word
        for of_filter, value in filters.items()
        if value is not None and of_filter in known
        for word in (option(of_filter), str(value))
    ]
    return _command(["query", name, *_options(of), *narrowed], config)


def _options(of: Account) -> list[str]:
    since, until = _window(of)
    found = of.incident
    end = [] if found.is_open else ["--until", _iso(until)]
    return ["--since", _iso(since), *end, "--cluster", found.cluster]


def _command(typed: Sequence[str], config: str | None) -> str:
    return shlex.join([NAME, *typed, *([] if config is None else ["--config", config])])


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _can_be_typed(text: str) -> bool:
    """Whether a name can be printed as it is, and be copied."""
    return text.isprintable() and 0 < len(text) <= words.LONGEST_NAME

"""The things that answers list: brokers, and those of each enrichment, over its own line of polls.

An answer says all there is of its enrichment, so what it does not list has ended. Between two
answers nothing is known of it, and what was said last holds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from jobs.rules.silver.intervals import Intervals, Key
from jobs.rules.silver.open_transactions import told_of, transaction
from jobs.rules.silver.state import Observation, Row
from jobs.rules.silver.topic_lives import GONE, NOT_POLLED, asked_for, in_order
from metadata_source.kafka_constants import KAFKA_STORAGE_ERROR, STATIC_SOURCES
from metadata_source.outcomes import is_answered
from schemas.silver import ENRICHMENTS

_GROUP_STATE = (
    "group_type",
    "protocol_type",
    "state",
    "group_epoch",
    "target_epoch",
    "topology_epoch",
    "assignor",
    "members",
)
_BY_TOPIC = {"configs", "reassignments", "elr"}
_ONE_A_ROW = {"configs", "quorum"}


def take(
    enrichment: str,
    rows: Iterable[Mapping[str, Any]],
    topic_filter: str | None,
    now: Observation,
    known: Intervals,
) -> None:
    """Bring the things of an enrichment up to an answer. `rows`: all that bronze has of it.

    Brokers count as one, too: the header lists them.
    """
    listed: set[Key] = set()
    rows, may_be_open = told_of(rows) if enrichment == "transactions" else (rows, None)
    silent: set[int] = set()
    for row in rows:
        if enrichment == "log_dirs" and row[enrichment] is None:
            silent.add(row["broker_id"])
        for said in [row[enrichment]] if enrichment in _ONE_A_ROW else row[enrichment] or ():
            key, state, is_whole = _thing(enrichment, row, said)
            listed.add(key)
            known.show(key, state, now.of(key), whole=is_whole)
            if enrichment == "quorum" and known.open[key]["first_poll"] == now.poll.id:
                # No part of the state: it differs with each answer.
                known.amend(key, {"behind": how_far_behind(said, row["quorum_replicas"])})
    ended = [
        key
        for key, row in known.open.items()
        if key not in listed
        and not (may_be_open and may_be_open(key, row))
        # Of a broker that was asked, and did not answer, nothing is known.
        and not (silent and key[0] in silent)
    ]
    asked = asked_for(topic_filter, {key[0] for key in ended}) if enrichment in _BY_TOPIC else None
    for key in ended:
        known.end(key, GONE if asked is None or key[0] in asked else NOT_POLLED, now.of(key))


def min_isr_of_changed(
    polls: Iterable[str], rows: Iterable[Mapping[str, Any]], live: Iterable[Mapping[str, Any]]
) -> dict[str, int]:
    """Of topics whose settings some of `polls` may tell otherwise, the highest min.insync.replicas
    known and told.

    `rows`: of bronze, record 'configs', all of these polls. `live`: current rows of
    silver.topic_configs. Where no min.insync.replicas is known or told the topic is left out: its
    partitions are looked at by no rule.
    """
    known = {row["topic"]: row for row in live}
    unlisted = {poll_id: set(known) for poll_id in polls}
    told: list[tuple[str, int | None]] = []
    for row in rows:
        topic, state = row["topic"], settings_of(_values(row["configs"]))
        unlisted[row["poll_id"]].discard(topic)
        before = known.get(topic, {})
        if any(before.get(name) != value for name, value in state.items()):
            told += [(topic, each.get("min_insync_replicas")) for each in (state, before)]
    told += [
        (topic, known[topic]["min_insync_replicas"])
        for topics in unlisted.values()
        for topic in topics
    ]
    # The last of each stays.
    return dict(sorted((topic, min_isr) for topic, min_isr in told if min_isr is not None))


def headers_of(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The headers of polls among rows of bronze, in the order of polling. Each has as `answers` the
    headers of the answers beside it that tell something, in the order in which they came.

    `offsets` has no table of silver: it tells something new with each poll, and wakes nobody.
    """
    headers, answers = [], defaultdict(list)
    for row in rows:
        if row["record"] == "poll":
            headers.append(row)
        elif (
            row["record"] == "answer" and row["kind"] in ENRICHMENTS and is_answered(row["outcome"])
        ):
            answers[row["cluster"], row["poll_id"]].append(row)
    return [
        {
            **header,
            "answers": sorted(
                answers[header["cluster"], header["poll_id"]], key=itemgetter("answered_at")
            ),
        }
        for header in sorted(headers, key=itemgetter("poll_id"))
    ]


def _thing(enrichment: str, row: Mapping[str, Any], said: Any) -> tuple[Key, Row, bool]:
    """Key and state of a thing that a row of bronze lists; whether None in it is an answer."""
    match enrichment:
        case "configs":
            return (row["topic"],), settings_of(_values(said)), False
        case "quorum":
            state = {"controller_id": said["leader_id"], "quorum_epoch": said["leader_epoch"]}
            state |= {name: in_order(said[name]) for name in ("voters", "observers")}
            return (), state | _behind(row["quorum_replicas"]), False
        case "reassignments":
            state = {f"{what}_replicas": in_order(said[what]) for what in ("adding", "removing")}
            return (row["topic"], said["partition"]), state, False
        case "elr":
            state = {name: in_order(said[name]) for name in ("elr", "last_known_elr")}
            return (row["topic"], said["partition"]), state, False
        case "groups":
            # One value, told or not as a whole: a classic group that was another type has no epoch
            # any more. An error that begins so: it could not be described this time.
            is_told = not (said.get("error") or "").startswith("failed")
            return (
                (said["group_id"],),
                {name: said[name] if is_told else None for name in _GROUP_STATE},
                is_told,
            )
        case "transactions":
            return *transaction(said), True
        case "log_dirs":
            state = {name: said[name] for name in ("error_code", "total_bytes")}
            # Other errors than that of a failed directory do not say.
            state["is_online"] = {0: True, KAFKA_STORAGE_ERROR: False}.get(said["error_code"])
            return (row["broker_id"], said["log_dir"]), state, True
        case _:
            # "No rack" is a state; Metadata v0 not saying is none.
            is_told = enrichment == "brokers" and (row["api_version"] or 0) >= 1
            return (
                (said["broker_id"],),
                {name: said[name] for name in ("host", "port", "rack")},
                is_told,
            )


def _behind(replicas: Iterable[Mapping[str, Any]] | None) -> Row:
    """The replicas of the controllers' log that are behind; None where that is not told."""
    told = [each for each in replicas or () if each["is_behind"] is not None]
    # One that came back with another directory is there twice.
    behind = {(each["replica_id"], each["is_voter"]) for each in told if each["is_behind"]}
    return {
        f"{of}_behind": sorted(each for each, votes in behind if votes is is_voter)
        if told
        else None
        for of, is_voter in (("voters", True), ("observers", False))
    }


def how_far_behind(
    said: Mapping[str, Any], replicas: Iterable[Mapping[str, Any]] | None
) -> list[Row] | None:
    """The replicas of the controllers' log that are behind, each with how far, as silver.quorum has
    them; None where that is not told. `said`: of the quorum. `replicas`: as in bronze, by id.
    """
    told = [each for each in replicas or () if each["is_behind"] is not None]
    if not told:
        return None
    ends = {each["replica_id"]: each["log_end_offset"] for each in told}
    end = ends.get(said["leader_id"])
    # One that came back with another directory is there twice; the last one is the closest.
    behind = {(each["replica_id"], each["is_voter"]): each for each in told if each["is_behind"]}
    return [
        {
            **{name: each[name] for name in ("replica_id", "is_voter")},
            "offsets": None
            if end is None or each["log_end_offset"] is None
            else max(0, end - each["log_end_offset"]),
            "caught_up_at": each["last_caught_up_at"],
        }
        for each in behind.values()
    ]


def static_configs(rows: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """The values that topics have of the answering broker's file, or of Kafka, by the name of the
    configuration.

    `rows`: of bronze, record 'configs', of one answer.
    """
    each = (config for row in rows for config in dict(row["configs"] or ()).items())
    return {name: config["value"] for name, config in each if config["source"] in STATIC_SOURCES}


def _values(configs: Any) -> dict[str, str | None]:
    """Configurations by name, as a row of bronze has them, without where they are set."""
    return {name: config["value"] for name, config in dict(configs or ()).items()}


def settings_of(configs: Mapping[str, str | None]) -> Row:
    """Columns of silver.topic_configs, of configurations by name; None where one is missing."""
    min_isr = configs.get("min.insync.replicas") or ""
    unclean = (configs.get("unclean.leader.election.enable") or "").lower()
    return {
        "min_insync_replicas": int(min_isr) if min_isr.isdecimal() else None,
        "unclean_leader_election_enable": {"true": True, "false": False}.get(unclean),
    }

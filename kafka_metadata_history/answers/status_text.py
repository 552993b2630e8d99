"""The status of a lake as text: a table for people, JSON, and what Prometheus reads."""

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.rules.ids import LOG, POLLS
from kafka_metadata_history.answers.status import Cluster, ClusterLog, LakeStatus, Size, Waiting
from kafka_metadata_history.answers.thresholds import (
    OF_CLUSTER,
    OF_LAKE,
    Crossed,
    believed,
    failures_by_kind,
    span,
    why,
)
from metadata_source.text import printable, text_table

PREFIX = "kafka_metadata_history"


def rendered(status: LakeStatus, crossed: Sequence[Crossed], form: str) -> str:
    """The status and the thresholds that it crosses, as `table`, `json` or `prometheus`."""
    return FORMS[form](status, crossed)


# --- for people ---

OF_LOG = "group log"
"""The name of the history for which rows of the coordinators' log wait."""


def as_table(status: LakeStatus, crossed: Sequence[Crossed]) -> str:
    """A line for each cluster, the sizes, a line for each threshold crossed. All is printable."""
    hurt = {each.cluster for each in crossed}
    upkeep = (
        "never"
        if status.upkeep_at is None
        else f"{_time(status.upkeep_at)}, {_ago(status.upkeep_at, status.at)}"
    )
    histories = list(dict.fromkeys(waiting.history for waiting in _waiting(status)))
    has_unanswered = any(_unanswered(each) for each in status.clusters)
    rows = [
        _line(
            each,
            histories,
            status.at,
            is_hurt=each.cluster in hurt,
            has_unanswered=has_unanswered,
        )
        for each in status.clusters
    ]
    lines = [
        f"{status.lake} at {_time(status.at)}; polls and gaps of the last {span(status.window)}",
        "",
        *text_table(_heading(histories, has_unanswered=has_unanswered), rows),
        "",
        *_sizes(status.sizes),
        "",
        f"last upkeep: {upkeep}; rounds of history: {status.rounds}",
        *(
            printable(
                f"of {cluster}, which the configuration lacks, {polls} poll(s) wait; "
                f"{believed(cluster)}"
            )
            for cluster, polls in sorted(status.waiting.items())
        ),
    ]
    if crossed:
        lines += [
            "",
            "thresholds that are crossed:",
            *(
                f"  {printable(f'{_whose(each)}: {each.threshold}: {each.says}')}"
                for each in crossed
            ),
        ]
    return "".join(f"{line}\n" for line in lines)


def _sizes(sizes: Sequence[Size]) -> list[str]:
    with_files = [each for each in sizes if each.files]
    rows = [(each.table, each.bytes, each.files, each.log_bytes) for each in with_files]
    in_all = (
        sum(each.bytes for each in sizes),
        sum(each.files for each in sizes),
        None
        if all(each.log_bytes is None for each in sizes)
        else sum(each.log_bytes or 0 for each in sizes),
    )
    table = text_table(("table", "bytes", "files", "bytes of its log"), [*rows, ("all", *in_all)])
    count = len(sizes) - len(with_files)
    return [*table, *([f"tables without a file: {count}"] if count else [])]


def _heading(histories: Iterable[str], *, has_unanswered: bool) -> tuple[str, ...]:
    return (
        *("cluster", "status", "last good poll", "age", "polls", "failed", "late", "gaps"),
        *(f"{name.split()[-1]} behind" for name in histories),
        *("told by", "controllers' log"),
        *(["no answer to"] if has_unanswered else []),
        "failed because",
    )


def _line(
    each: Cluster, histories: Iterable[str], at: datetime, *, is_hurt: bool, has_unanswered: bool
) -> tuple[object, ...]:
    polls, waiting = each.polls, {waiting.history: waiting for waiting in each.waiting}
    return (
        each.cluster,
        "unhealthy" if is_hurt else "ok",
        "never" if each.good_at is None else _time(each.good_at),
        None if each.good_at is None else span(at - each.good_at),
        polls.polls,
        sum(polls.failed.values()),
        polls.late,
        each.gaps,
        *(_behind_by(each, waiting[name], at) if name in waiting else None for name in histories),
        f"{POLLS}, not {LOG}"
        if each.cluster_log is not None and each.told_by == POLLS
        else each.told_by,
        None if each.cluster_log is None else _read(each.cluster_log, at),
        *([_unanswered(each)] if has_unanswered else []),
        why(polls) if polls.failing else failures_by_kind(polls),
    )


def _unanswered(each: Cluster) -> str:
    return ", ".join(
        f"{question.kind} {question.failing}" for question in each.asked if question.failing
    )


def _waiting(status: LakeStatus) -> list[Waiting]:
    """The rows that wait for each history of each cluster."""
    return [waiting for each in status.clusters for waiting in each.waiting]


def _behind_by(each: Cluster, waiting: Waiting, at: datetime) -> str:
    if waiting.history == OF_LOG and each.log is not None and each.log.never_read:
        return "nothing read"
    return span(_behind(waiting, at))


def _read(log: ClusterLog, at: datetime) -> str:
    if log.read_at is None:
        return "not read yet" if log.recorded_at is None else "read, not history yet"
    return f"read {_ago(log.read_at, at)}"


def _ago(then: datetime, at: datetime) -> str:
    """How long ago a time is, or how far ahead one is that is noted by a wrong clock."""
    return f"{span(at - then)} ago" if then <= at else f"{span(then - at)} ahead"


def _whose(each: Crossed) -> str:
    return "lake" if each.cluster is None else each.cluster


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _behind(waiting: Waiting, at: datetime) -> timedelta:
    return timedelta() if waiting.since is None else max(at - waiting.since, timedelta())


# --- for programs ---


def as_json(status: LakeStatus, crossed: Sequence[Crossed]) -> str:
    """One object: times are ISO 8601 in UTC, durations seconds."""
    clusters = []
    for each in status.clusters:
        behind = {
            f"{_name(waiting)}_behind": _behind(waiting, status.at) for waiting in each.waiting
        }
        since = {_name(waiting): waiting.since for waiting in each.waiting}
        age = None if each.good_at is None else status.at - each.good_at
        clusters.append({**asdict(each), "waiting": since, "age": age, **behind})
    told = {
        **asdict(status),
        "clusters": clusters,
        "bytes": status.bytes,
        "crossed": [vars(each) for each in crossed],
    }
    return f"{json.dumps(_plain(told), indent=1)}\n"


def _name(waiting: Waiting) -> str:
    """The name of a history in those of values and metrics."""
    return waiting.history.replace(" ", "_")


def _plain(value: Any) -> Any:
    """As JSON takes it; a duration's name ends with its unit."""
    if isinstance(value, Mapping):
        return {f"{k}_s" if isinstance(v, timedelta) else k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    return (
        value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        if isinstance(value, datetime)
        else value
    )


# --- for Prometheus ---

Labels = Mapping[str, str]
Samples = Iterable[tuple[Labels, float | datetime | timedelta | None]]
"""Labels and value of each. None: it is unknown, and left out."""


def as_prometheus(status: LakeStatus, crossed: Sequence[Crossed]) -> str:
    """The text format of Prometheus, version 0.0.4
    (prometheus.io/docs/instrumenting/exposition_formats).

    When something was is a time, and not how long ago: a file that is read later would say that
    wrongly.
    """
    hurt = {(each.cluster, each.threshold) for each in crossed}
    metrics = (*_of_clusters(status), *_of_lake(status), _of_thresholds(status, hurt))
    return "".join(
        line
        for name, says, samples in metrics
        for line in _lines(f"{PREFIX}_{name}", says, samples)
    )


Metric = tuple[str, str, Samples]
"""Name, what it says, samples. A name that ends with _total is a counter's, any other a gauge's."""


def _of_clusters(status: LakeStatus) -> Iterable[Metric]:
    def of_each(value: Callable[[Cluster], float | datetime | timedelta | None]) -> Samples:
        return [({"cluster": each.cluster}, value(each)) for each in status.clusters]

    failed = [
        ({"cluster": each.cluster, "kind": kind}, count)
        for each in status.clusters
        for kind, count in sorted(each.polls.failed.items())
    ]
    unanswered = [
        ({"cluster": each.cluster, "kind": question.kind}, question.failing)
        for each in status.clusters
        for question in each.asked
    ]
    logs = [
        ({"cluster": each.cluster}, each.log) for each in status.clusters if each.log is not None
    ]
    read = [(labels, log.read_at) for labels, log in logs]
    lost = [(labels, log.lost) for labels, log in logs]
    of_transactions = [
        ({"cluster": each.cluster}, each.transaction_log)
        for each in status.clusters
        if each.transaction_log is not None
    ]
    of_controllers = [
        (each, each.cluster_log) for each in status.clusters if each.cluster_log is not None
    ]
    told = [({"cluster": each.cluster}, float(each.told_by == LOG)) for each, _ in of_controllers]
    looked = [({"cluster": each.cluster}, log.read_at) for each, log in of_controllers]
    offsets = [
        ({"cluster": each.cluster}, each.offsets_at)
        for each in status.clusters
        if each.offsets_at is not None
    ]
    late = (
        "Good polls within the window that were sent more than half an interval after they were "
        "due."
    )
    gone = (
        "Offsets of the coordinators' log, within the window, that were gone before they could be "
        "read."
    )
    return (
        (
            "last_good_poll_timestamp_seconds",
            "When the last good poll was answered.",
            of_each(lambda c: c.good_at),
        ),
        (
            "poll_interval_seconds",
            "Time between two polls, as configured.",
            of_each(lambda c: c.interval),
        ),
        (
            "recent_polls",
            "Polls that were due within the window.",
            of_each(lambda c: c.polls.polls),
        ),
        ("recent_failed_polls", "Polls within the window that failed, by error_kind.", failed),
        (
            "failing_polls",
            "Polls within the window that failed, after the last good one.",
            of_each(lambda c: c.polls.failing),
        ),
        (
            "failing_answers",
            "Answers in a row to a question of enrich that failed or were refused.",
            unanswered,
        ),
        ("recent_late_polls", late, of_each(lambda c: c.polls.late)),
        (
            "recent_gaps",
            "Rows of silver.poll_gaps that ended within the window.",
            of_each(lambda c: c.gaps),
        ),
        ("recent_gap_seconds", "Length of these gaps together.", of_each(lambda c: c.gap_time)),
        *_behind_of(status),
        (
            "group_log_last_read_timestamp_seconds",
            "When the coordinators' log last had something new.",
            read,
        ),
        ("recent_lost_offsets", gone, lost),
        (
            "transaction_log_last_read_timestamp_seconds",
            "When the transaction coordinators' log last had something new.",
            [(labels, log.read_at) for labels, log in of_transactions],
        ),
        (
            "recent_lost_transaction_offsets",
            "The same of the transaction coordinators' log.",
            [(labels, log.lost) for labels, log in of_transactions],
        ),
        (
            "cluster_log_last_read_timestamp_seconds",
            "When the controllers' log was last read.",
            looked,
        ),
        (
            "offsets_last_told_timestamp_seconds",
            "When all groups last told their offsets.",
            offsets,
        ),
        (
            "cluster_log_tells",
            "1 where the controllers' log tells topics and partitions, 0 where polls do.",
            told,
        ),
    )


def _behind_of(status: LakeStatus) -> Iterable[Metric]:
    """How far each history is behind."""
    for name, says in {_name(waiting): waiting.says for waiting in _waiting(status)}.items():
        samples = [
            ({"cluster": each.cluster}, _behind(waiting, status.at))
            for each in status.clusters
            for waiting in each.waiting
            if _name(waiting) == name
        ]
        yield f"{name}_behind_seconds", says, samples


def _of_lake(status: LakeStatus) -> Iterable[Metric]:
    def of_each(value: Callable[[Size], float | None]) -> Samples:
        return [({"table": size.table}, value(size)) for size in status.sizes]

    return (
        (
            "table_bytes",
            "Bytes of the newest version of a table.",
            of_each(lambda size: size.bytes),
        ),
        (
            "table_files",
            "Files of the newest version of a table.",
            of_each(lambda size: size.files),
        ),
        (
            "table_log_bytes",
            "Bytes of Delta's log of a table.",
            of_each(lambda size: size.log_bytes),
        ),
        (
            "last_upkeep_timestamp_seconds",
            "When the tables were last kept up.",
            [({}, status.upkeep_at)],
        ),
        ("rounds_total", "Rounds of history that were made in this lake.", [({}, status.rounds)]),
        (
            "window_seconds",
            "Length of the window that the recent ones are of.",
            [({}, status.window)],
        ),
        ("status_timestamp_seconds", "When this status was taken.", [({}, status.at)]),
    )


def _of_thresholds(status: LakeStatus, hurt: Container[tuple[str | None, str]]) -> Metric:
    samples = [
        (
            {"cluster": each.cluster, "threshold": threshold},
            float((each.cluster, threshold) in hurt),
        )
        for each in status.clusters
        for threshold in OF_CLUSTER
    ]
    samples += [
        ({"threshold": threshold}, float((None, threshold) in hurt)) for threshold in OF_LAKE
    ]
    return (
        "threshold_crossed",
        "1 where a threshold of the configuration is crossed, else 0.",
        samples,
    )


def _lines(name: str, says: str, samples: Samples) -> Iterator[str]:
    yield f"# HELP {name} {says}\n"
    yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n"
    for labels, value in samples:
        if value is not None:
            yield f"{name}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Labels) -> str:
    return (
        f"{{{','.join(f'{name}={_quoted(value)}' for name, value in labels.items())}}}"
        if labels
        else ""
    )


def _number(value: float | datetime | timedelta) -> str:
    if isinstance(value, datetime):
        return repr(value.timestamp())
    return repr(value.total_seconds() if isinstance(value, timedelta) else value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


FORMS: Mapping[str, Callable[[LakeStatus, Sequence[Crossed]], str]] = {
    "table": as_table,
    "json": as_json,
    "prometheus": as_prometheus,
}

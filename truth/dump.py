"""The records of a metadata log, as Kafka's own DumpLogSegments prints them."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from kafka_metadata_history.jars.fetch import JARS, fetch_jars
from kafka_metadata_history.jars.java import java_command
from local_cluster.jars import kafka_jars
from truth.model.states import EPOCH

_TOOL_MOVED = (4, 3)
"""The first version whose DumpLogSegments is in kafka-tools."""

_BATCH = re.compile(r"^baseOffset: (\d+) .*?\bpartitionLeaderEpoch: (\d+) .*?\bCreateTime: (\d+)")
_RECORD = re.compile(r"^\| offset: (\d+) .*?\bpayload: (.*)$")
_LEADER_CHANGE = re.compile(
    r"^\| offset: (\d+) .*?\b(?:LeaderChange: (.*)|controlType: LEADER_CHANGE\(2\))$"
)
"""Old tools do not print its fields."""
LEADER_CHANGE: Final = "leader change"
"""The type of the control record by which a controller becomes the active one."""
_NO_OP = "NO_OP_RECORD"
"""Written while nothing happens: it says nothing, and history knows nothing of it."""
CONTROLS = {
    "LeaderChange": 2,
    "SnapshotHeader": 3,
    "SnapshotFooter": 4,
    "KRaftVersion": 5,
    "KRaftVoters": 6,
}
"""The types of control records, which the quorum writes for itself, by their names in a dump."""
_CONTROL = re.compile(rf"\b({'|'.join(CONTROLS)}|controlType): ")


class TruthError(RuntimeError):
    """Raised when a log cannot be read whole. One line."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the log as DumpLogSegments prints it."""

    offset: int
    at: datetime
    """When its batch was begun, to the millisecond (cut off): the controller commits it a moment
    later. Never before the record before it.
    """
    type: str
    data: Mapping[str, Any]


METADATA_DECODER: Final = "--cluster-metadata-decoder"
"""What DumpLogSegments is told to read the records of a metadata log."""


def dump(kafka_version: str, files: Sequence[Path], decoder: str = METADATA_DECODER) -> str:
    """The text that DumpLogSegments prints of the segments of a log."""
    quickly_started = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    tool = subprocess.run(
        dump_command(kafka_version, files, quickly_started, decoder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if tool.returncode != 0:
        raise TruthError(
            f"DumpLogSegments of Kafka {kafka_version} failed: "
            f"{(tool.stderr or tool.stdout)[-2000:]}"
        )
    return tool.stdout


def dump_command(
    kafka_version: str,
    files: Sequence[Path],
    java_options: Sequence[str] = (),
    decoder: str = METADATA_DECODER,
) -> list[str]:
    """The command that prints segments of a log with DumpLogSegments."""
    return [
        java_command(),
        *java_options,
        "-cp",
        ":".join(map(str, _jars(kafka_version))),
        _tool(kafka_version),
        decoder,
        "--files",
        ",".join(map(str, files)),
    ]


def records(lines: Iterable[str]) -> Iterator[Record]:
    """The metadata records of a dump, each when it is in effect: those of a transaction at its end,
    those of an aborted one never, and none before the one before it.

    Raises TruthError for a log that does not begin at its beginning, and for what the tool could
    not decode.
    """
    at = EPOCH
    for record in _in_effect(lines):
        # A controller of 3.3 may write its bootstrap record, with a later time, before the leader
        # change of its epoch.
        if record.type != _NO_OP:
            at = max(at, record.at)
            yield replace(record, at=at)
        else:
            yield record


def _in_effect(lines: Iterable[str]) -> Iterator[Record]:
    transaction: list[Record] | None = None
    for record in _printed(lines):
        if record.type == LEADER_CHANGE:
            yield record  # the quorum's own: of no transaction
        elif record.type == "BEGIN_TRANSACTION_RECORD":
            transaction = []
        elif record.type == "ABORT_TRANSACTION_RECORD":
            transaction = None
        elif record.type == "END_TRANSACTION_RECORD":
            yield from (replace(each, at=record.at) for each in transaction or ())
            transaction = None
        elif transaction is not None:
            transaction.append(record)
        else:
            yield record


def _printed(lines: Iterable[str]) -> Iterator[Record]:
    at, epoch = None, 0
    for line in lines:
        if batch := _BATCH.match(line):
            if at is None and batch[1] != "0":
                raise TruthError(f"the log begins at offset {batch[1]}: a snapshot cut it")
            at, epoch = EPOCH + timedelta(milliseconds=int(batch[3])), int(batch[2])
        elif record := _RECORD.match(line):
            try:
                payload = json.loads(record[2])
            except ValueError:
                raise TruthError(f"not decoded: {line[:300]}") from None
            assert at is not None  # noqa: S101 - a record follows its batch
            yield Record(int(record[1]), at, payload["type"], payload["data"])
        elif change := _LEADER_CHANGE.match(line):
            assert at is not None  # noqa: S101 - so here
            told = json.loads(change[2]) if change[2] else {}
            yield Record(
                int(change[1]),
                at,
                LEADER_CHANGE,
                {"leaderId": None, **told, "epoch": epoch},
            )
        elif line.startswith("|") and _CONTROL.search(line) is None:
            raise TruthError(f"not a record: {line[:300]}")


def _tool(kafka_version: str) -> str:
    moved = _numbers(kafka_version) >= _TOOL_MOVED
    return "org.apache.kafka.tools.DumpLogSegments" if moved else "kafka.tools.DumpLogSegments"


def _jars(kafka_version: str) -> list[Path]:
    jars = kafka_jars(kafka_version)
    if _numbers(kafka_version) < _TOOL_MOVED:
        return jars
    folder = JARS / f"kafka-tools-{kafka_version}"
    return jars + fetch_jars(
        "org.apache.kafka", "kafka-tools", kafka_version, folder, transitive=False
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])

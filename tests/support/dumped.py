"""The controllers' log as DumpLogSegments prints it, and a random log as it would."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from metadata_source.protocol.cluster_specs import (
    CONTROL_TYPES,
    COUNTED,
    RECORD_TYPES,
    WITHOUT_FIELDS,
)
from tests.support.cluster_logs import Entry, in_effect
from tests.support.cluster_records import expected, expected_control, from_json, number_of
from tests.support.kafka_classes import as_json
from truth.dump import CONTROLS, Record

RECORD = re.compile(
    r"^\| offset: (\d+) CreateTime: (\d+) keySize: -?\d+ valueSize: (\d+) .*? headerKeys: \[\] "
    r"(?:payload: (\{.*\})|(\w+):? ?(\{.*\}))$"
)


def printed_record(line: str) -> dict[str, Any]:
    """The row that a printed record must be, without nulls and the epoch of its batch."""
    match = RECORD.match(line)
    assert match, line
    offset, created, size, payload, control, data = match.groups()
    row = {"offset": int(offset), "timestamp_ms": int(created), "is_control": control is not None}
    if control is not None:
        told = json.loads(data)
        number, version = CONTROLS[control], told["version"]
        row |= expected_control(number, version, from_json(CONTROL_TYPES[number], version, told))
    else:
        told = json.loads(payload)
        number, version = number_of(told["type"]), told["version"]
        if (name := (COUNTED | WITHOUT_FIELDS).get(number)) is not None:
            row |= {"type": number, "version": version, "name": name}
        else:
            row |= expected(number, version, from_json(RECORD_TYPES[number], version, told["data"]))
    return row | {"size": int(size)}


def printed(entry: Entry) -> Record:
    """The record as DumpLogSegments prints it."""
    message = RECORD_TYPES[entry.number]
    data = {
        name: value
        for name, value in as_json(message.body, entry.values).items()
        if value is not None
    }
    data |= {
        name: None for name in ("rack", "value") if name not in data and entry.number in (0, 4)
    }
    words = "".join(f"_{each}" if each.isupper() else each.upper() for each in message.name)
    return Record(entry.offset, entry.at, words.strip("_"), data)


def times(entries: Sequence[Entry]) -> dict[int, datetime]:
    """When each record that counts was in effect: clocks of controllers differ, and no time is
    before another.
    """
    counted = in_effect(entries)
    every = {entry.offset: entry.at for entry in entries if entry.transaction is not None} | {
        entry.offset: entry.at for entry in counted
    }
    # Records of a transaction are in effect at its end, and so is its begin.
    ends = {entry.offset: entry.at for entry in counted}
    begin = None
    for entry in entries:
        if entry.transaction == 23:
            begin = entry.offset
        elif entry.transaction is not None and begin is not None:
            ends[begin], ends[entry.offset] = entry.at, entry.at
    return dict(
        zip(sorted(every), accumulate((ends[each] for each in sorted(every)), max), strict=True)
    )

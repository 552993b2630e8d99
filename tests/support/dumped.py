"""The controllers' log as DumpLogSegments prints it."""

import json
import re
from typing import Any

from metadata_source.protocol.cluster_specs import CONTROL_TYPES, COUNTED, RECORD_TYPES
from tests.support.cluster_records import expected, expected_control, from_json, number_of
from truth.dump import CONTROLS

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
        if number in COUNTED:
            row |= {"type": number, "version": version, "name": COUNTED[number]}
        else:
            row |= expected(number, version, from_json(RECORD_TYPES[number], version, told["data"]))
    return row | {"size": int(size)}

"""Kafka's own Java classes write answers to cold requests as they are read here, in kafka-python's
message classes: all that are asked for beside Metadata.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata_source.messages.reading import read_response, response_of
from tests.support.for_each import for_each
from tests.support.kafka_classes import MESSAGES, bytes_of, named, read_json
from tests.support.messages import REQUESTS
from tests.support.requests import ASKED

OWN = {3, 17, 18, 36}
"""Metadata has tables of our own; ApiVersions and SASL are read by the library's connection."""
DESCRIBE_CLUSTER = 60
VERSIONS = sorted(
    {
        (asked.versions[0], version)
        for each in ASKED.values()
        for asked in each
        for version in range(asked.versions[1], asked.versions[2] + 1)
        if asked.versions[0] not in OWN
    }
)
# None is the default of its field, which is not written where it is tagged.
SIMPLE = {f"int{bits}": st.integers(1, 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    "uint16": st.integers(1, 2**16 - 1),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9),
    "bytes": st.binary(max_size=9),
    "records": st.binary(max_size=9),
    "uuid": st.binary(min_size=16, max_size=16).filter(any),
    "bitfield": st.just(-(2**31)),
}


def structs(fields: Mapping[str, Any], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Values for the fields of a version."""
    there = {name: each for name, each in fields.items() if each.for_version_q(version)}
    return st.fixed_dictionaries({name: _value(each, version) for name, each in there.items()})


def _value(field: Any, version: int) -> st.SearchStrategy[Any]:
    made = _there(field, version)
    return made | st.none() if field.nullable_for_version_q(version) else made


def _there(field: Any, version: int) -> st.SearchStrategy[Any]:
    if field.is_struct():
        return structs(field.fields, version)
    if not field.is_array():
        return SIMPLE[field.type_str]
    entries = (
        structs(field.fields, version)
        if field.is_struct_array()
        else _there(field.array_of, version)
    )
    return st.lists(entries, min_size=int(field.tag is not None), max_size=3)


def as_json(fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    names = {name: field._json["name"] for name, field in fields.items()}
    return {
        f"{names[each][0].lower()}{names[each][1:]}": _json(fields[each], values[each])
        for each in values
    }


def _json(field: Any, value: Any) -> Any:
    if value is None:
        return None
    if field.is_struct_array():
        return [as_json(field.fields, each) for each in value]
    if field.is_struct():
        return as_json(field.fields, value)
    if field.is_array():
        return [_json(field.array_of, each) for each in value]
    if field.type_str == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def plain(told: Any, field: Any) -> Any:
    """Return the answer that was read, in the words of the one that was written."""
    if told is None:
        return -(2**31) if field.type_str == "bitfield" else None
    if field.is_struct_array():
        return [{name: plain(each[name], field.fields[name]) for name in each} for each in told]
    if field.is_struct():
        return {name: plain(told[name], field.fields[name]) for name in told}
    if field.is_array():
        return [plain(each, field.array_of) for each in told]
    return told.bytes if field.type_str == "uuid" else told


@for_each(("api_key", "version"), VERSIONS)
def test_what_kafka_answers_is_read_as_it_means_it(jvm: Any, api_key: int, version: int) -> None:
    response = response_of(REQUESTS[api_key])
    java = named(jvm, f"{MESSAGES}.{response.name}Data")
    if not java.LOWEST_SUPPORTED_VERSION <= version <= java.HIGHEST_SUPPORTED_VERSION:
        pytest.skip(f"{response.name} v{version} is not among the versions of these classes")

    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(structs(response.fields, version))
    def check(values: dict[str, Any]) -> None:
        text = json.dumps(as_json(response.fields, values))
        if api_key == DESCRIBE_CLUSTER:
            # The library calls it by another name.
            text = text.replace("authorized_operations", "clusterAuthorizedOperations")
        data = read_json(jvm, f"{MESSAGES}.{response.name}Data", json.loads(text), version)
        body = bytes_of(jvm, data, version)
        told = read_response(REQUESTS[api_key], version, body, deadline=math.inf).to_dict(
            json=False
        )
        assert {name: plain(told[name], response.fields[name]) for name in told} == values

    check()

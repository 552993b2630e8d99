"""Kafka's own Java classes read every request that the product sends, whole, and find in it what
was to be asked.
"""

import json
from typing import Any

from metadata_source.broker_errors import error_name
from tests.support.for_each import for_each
from tests.support.requests import ASKED, CLIENT, CORRELATION, Asked


def of_kafka(jvm: Any, api_key: int) -> Any:
    return getattr(jvm, "org.apache.kafka.common.message.ApiMessageType").fromApiKey(api_key)


def read(jvm: Any, frame: bytes) -> tuple[int, dict[str, Any]]:
    """How many bytes a broker leaves over, and the fields that it reads
    (``RequestContext.parseRequest``).
    """
    buffer = jvm.java.nio.ByteBuffer.wrap(frame)
    header = getattr(jvm, "org.apache.kafka.common.requests.RequestHeader").parse(buffer)
    assert (header.correlationId(), header.clientId()) == (CORRELATION, CLIENT)
    readable = jvm.org.apache.kafka.common.protocol.ByteBufferAccessor(buffer)
    name, version = (
        of_kafka(jvm, int.from_bytes(frame[:2])).newRequest().getClass().getName(),
        header.apiVersion(),
    )
    data = getattr(jvm, name)(readable, version)
    assert data.unknownTaggedFields().size() == 0
    return readable.remaining(), json.loads(
        getattr(jvm, f"{name}JsonConverter").write(data, version).toString()
    )


def wanted(fields: Any, there: Any) -> Any:
    """Of the fields that are wanted those that this version has."""
    if isinstance(there, dict) and isinstance(fields, dict):
        return {name: wanted(fields.get(name, "not asked"), each) for name, each in there.items()}
    if isinstance(there, list) and isinstance(fields, list) and len(there) == len(fields):
        return [wanted(field, each) for field, each in zip(fields, there, strict=True)]
    return fields


@for_each("asked", [asked for of_function in ASKED.values() for asked in of_function])
def test_kafka_reads_what_is_sent(jvm: Any, asked: Asked) -> None:
    api_key, first, last = asked.versions
    api = of_kafka(jvm, api_key)
    lowest, highest = api.lowestSupportedVersion(), api.highestSupportedVersion(True)
    versions = range(max(first, lowest), min(last, highest) + 1)
    # What only older brokers have is not asked of this one.
    assert versions or last < lowest
    for version in versions:
        left, fields = read(jvm, asked.frame(version))
        assert left == 0
        assert fields == wanted(asked.fields, fields)


def test_every_error_of_kafka_has_its_name(jvm: Any) -> None:
    errors = getattr(jvm, "org.apache.kafka.common.protocol.Errors").values()
    names = {each.code(): each.name() for each in errors}
    assert len(names) > 136
    assert [code for code in names if error_name(code) == error_name(9999)] == []
    # The library has spellings of its own for some older ones.
    new = {code: name for code, name in names.items() if code > 127}
    assert {code: error_name(code) for code in new} == {
        code: f"{name.replace('_', ' ').title().replace(' ', '')}Error"
        for code, name in new.items()
    }

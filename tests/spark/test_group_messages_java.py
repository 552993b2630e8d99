"""Kafka's own Java classes write requests and answers about groups as the tables do, also of types that no Python
library knows.
"""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from metadata_source.protocol.spec import Api, Message
from metadata_source.protocol.values import read_values
from metadata_source.protocol.wire import write_message
from tests.group_messages import structs
from tests.spark.test_group_records_java import as_json
from tests.support.coordinators import APIS

VERSIONS = [(api, version) for api in APIS for version in range(api.lowest, api.response.last_version + 1)]


def java_bytes(jvm: Any, message: Message, version: int, values: dict[str, Any]) -> bytes:
    """Return what Kafka's class writes."""
    node = jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(as_json(message.body, values)))
    data = getattr(jvm, f"org.apache.kafka.common.message.{message.name}DataJsonConverter").read(node, version)
    return bytes(jvm.org.apache.kafka.common.protocol.MessageUtil.toByteBufferAccessor(data, version).buffer().array())


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=str)
def test_messages_are_those_of_kafka(spark: Any, api: Api, version: int) -> None:
    check_messages(spark.sparkContext._jvm, api, version)


def check_messages(jvm: Any, api: Api, version: int) -> None:
    """Check that tables write what Kafka's classes write, and read it."""
    newest = getattr(jvm, f"org.apache.kafka.common.message.{api.response.name}Data").HIGHEST_SUPPORTED_VERSION
    if version > newest:
        pytest.skip(f"{api.response.name} v{version} is of a later Kafka than these classes, which end at v{newest}")

    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(structs(api.request.body, version), structs(api.response.body, version))
    def check(request: dict[str, Any], response: dict[str, Any]) -> None:
        for message, values in ((api.request, request), (api.response, response)):
            body = java_bytes(jvm, message, version, values)
            assert write_message(message, version, values) == body
            assert write_message(message, version, read_values(body, message, version)) == body

    check()

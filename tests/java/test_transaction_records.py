"""Kafka's own Java classes have the fields that the tables of transactions have, and what they
write decodes to what went in.
"""

from typing import Any

from hypothesis import HealthCheck, given, settings

from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.transaction_records import read_ids, read_values
from metadata_source.protocol.transaction_specs import KEY, STATES, VALUE
from tests.support.for_each import for_each
from tests.support.kafka_classes import check_schemas, java_message
from tests.support.transaction_log import binary
from tests.support.transaction_values import expected, ids, values

PACKAGE = "org.apache.kafka.coordinator.transaction.generated"
quickly = settings(
    max_examples=12,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@for_each("version", [0, 1])
def test_records_of_kafka_decode_to_what_went_in(jvm: Any, version: int) -> None:
    util = jvm.org.apache.kafka.common.protocol.MessageUtil

    @quickly
    @given(ids, values(version))
    def check(transactional_id: str, value: dict[str, Any]) -> None:
        key = java_message(jvm, PACKAGE, KEY, 0, {"transactional_id": transactional_id})
        written = java_message(jvm, PACKAGE, VALUE, version, value)
        raw_key = bytes(util.toCoordinatorTypePrefixedBytes(key))
        raw = bytes(util.toVersionPrefixedBytes(version, written))
        # One is read by the exact reader, many are read side by side.
        for count in (1, FEWEST):
            assert read_ids(binary(*[raw_key] * count)) == ([transactional_id] * count, {})
            found = read_values(binary(*[raw] * count))
            assert not found.errors
            told = {name: int(column[count - 1]) for name, column in found.numbers.items()}
            told["partitions"] = found.partitions[count - 1].as_py() or []
            told["partition_count"] = int(found.partition_counts[count - 1])
            assert told == expected(version, value)

    check()


@for_each("message", [KEY, VALUE])
def test_the_tables_are_the_schemas_of_kafka(jvm: Any, message: Any) -> None:
    check_schemas(jvm, PACKAGE, message)


def test_the_states_are_those_of_kafka(jvm: Any) -> None:
    states = getattr(jvm, "org.apache.kafka.coordinator.transaction.TransactionState").values()
    assert {each.id(): each.stateName() for each in states} == dict(enumerate(STATES))


def test_the_record_type_is_kafkas(jvm: Any) -> None:
    types = getattr(jvm, f"{PACKAGE}.CoordinatorRecordType").values()
    assert [
        (each.id(), each.lowestSupportedVersion(), each.highestSupportedVersion()) for each in types
    ] == [(KEY.api_key, 0, VALUE.last_version)]

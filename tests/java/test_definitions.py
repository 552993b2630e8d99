"""The tables of messages and records, and the classes of kafka-python that are used, are the
definitions in the jars of the newest Kafka that is tried.
"""

import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas import load_json

from local_cluster.cluster import KAFKA_VERSION
from local_cluster.jars import kafka_jars
from metadata_source import features, group_descriptions, groups, messages, probes, questions
from metadata_source.logs.cluster import controllers
from metadata_source.logs.topic import watcher
from tests.support.definitions import compare, definitions, different, fields_of, versions_of
from tests.support.for_each import for_each
from truth.versions import VERSIONS


@pytest.fixture(scope="module")
def kafka() -> dict[str, Any]:
    return definitions(kafka_jars(KAFKA_VERSION))


def test_the_newest_kafka_is_the_one_that_decoders_are_held_against() -> None:
    def number(version: str) -> tuple[int, ...]:
        return tuple(map(int, version.split(".")))

    assert max(number(each.kafka_version) for each in VERSIONS) == number(KAFKA_VERSION)


def test_the_tables_are_kafkas(kafka: dict[str, Any]) -> None:
    assert compare(kafka) == []


def of_kafka_python(*modules: ModuleType) -> list[str]:
    """Names of the requests of kafka-python's classes that these modules send, and of the
    answers.
    """
    found = (each for module in modules for each in vars(module).values() if isinstance(each, type))
    requests = sorted(
        {each.__name__ for each in found if issubclass(each, ApiMessage) and each is not ApiMessage}
    )
    return [*requests, *(each.replace("Request", "Response") for each in requests)]


ADDED = sorted(file.name for file in Path(messages.__path__[0]).glob("*.json"))


@for_each("name", ADDED)
def test_the_definitions_that_come_with_the_product_are_kafkas_own_files(name: str) -> None:
    (jar,) = (each for each in kafka_jars(KAFKA_VERSION) if each.name.startswith("kafka-clients-"))
    with zipfile.ZipFile(jar) as files:
        assert Path(messages.__path__[0], name).read_bytes() == files.read(f"common/message/{name}")
        assert Path(messages.__path__[0], "NOTICE").read_bytes() == files.read("NOTICE")


@for_each(
    "name",
    of_kafka_python(questions, watcher, controllers, group_descriptions, groups, probes, features),
)
def test_the_classes_of_kafka_python_are_kafkas(kafka: dict[str, Any], name: str) -> None:
    ours, theirs = (
        load_json(name, package=messages if f"{name}.json" in ADDED else None),
        kafka[name],
    )
    assert ours["apiKey"] == theirs["apiKey"]
    first, last = versions_of(theirs)
    versions = range(first, min(versions_of(ours)[1], last) + 1)
    assert versions
    for version in versions:
        # How it is written follows from the fields and from whether they are flexible.
        assert [*different(fields_of(ours, version), fields_of(theirs, version))] == []
        flexible = [versions_of(each, "flexibleVersions") for each in (ours, theirs)]
        assert [version in range(first, last + 1) for first, last in flexible] in (
            [True, True],
            [False, False],
        )


def changed(of: str, **to: Any) -> Any:
    """Change a definition, or its first field (`field`), or add one (`more`)."""

    def change(kafka: dict[str, Any]) -> dict[str, Any]:
        definition = {**kafka[of], "fields": [*kafka[of]["fields"]]}
        if "field" in to:
            definition["fields"][0] = {**definition["fields"][0], **to["field"]}
        definition["fields"] += to.get("more", [])
        definition |= {each: value for each, value in to.items() if each not in {"field", "more"}}
        return {**kafka, definition["name"]: definition}

    return change


METADATA = "MetadataRequest"
LATER_FIELD = {"name": "Later", "type": "bool", "versions": "13+"}
TAGGED = {"versions": "0+", "taggedVersions": "0+", "tag": 0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            changed(METADATA, more=[LATER_FIELD]),
            [f"{METADATA} v13: later is missing here, 3 bool in Kafka"],
        ),
        (
            changed(METADATA, validVersions="0-14"),
            [f"{METADATA}: ends with version 13 here, with 14 in Kafka"],
        ),
        (changed(METADATA, apiKey=90), [f"{METADATA}: key 3 here, 90 in Kafka"]),
        (
            changed("TopicRecord", validVersions="0-1"),
            ["TopicRecord: versions (0, 0) here, (0, 1) in Kafka"],
        ),
        (
            changed("TopicRecord", flexibleVersions="none"),
            ["TopicRecord v0: flexible True here, False in Kafka"],
        ),
        (
            changed("TopicRecord", field={"type": "bytes"}),
            ["TopicRecord v0: name is 0 string here, 0 bytes in Kafka"],
        ),
        (
            changed("TopicRecord", field={"nullableVersions": "0+"}),
            ["TopicRecord v0: name is 0 string here, 0 string or null in Kafka"],
        ),
        (
            changed("TopicRecord", field={"type": "[]string"}),
            [
                "TopicRecord v0: name is 0 string here, missing in Kafka",
                "TopicRecord v0: name[] is missing here, 0 string in Kafka",
            ],
        ),
        (
            changed("ProducerIdsRecord", field=TAGGED | {"default": "7"}),
            [
                "ProducerIdsRecord v0: brokerid is 0 int32 here, tag 0 int32, else 7 in Kafka",
                "ProducerIdsRecord v0: brokerepoch is 1 int64 here, 0 int64 in Kafka",
                "ProducerIdsRecord v0: nextproducerid is 2 int64 here, 1 int64 in Kafka",
            ],
        ),
        (
            changed("TopicRecord", name="NewRecord", apiKey=30),
            ["NewRecord: type 30 in Kafka, unknown here"],
        ),
        (
            lambda kafka: {name: each for name, each in kafka.items() if name != "NoOpRecord"},
            ["NoOpRecord: not in Kafka"],
        ),
    ],
)
def test_what_differs_is_said(kafka: dict[str, Any], change: Any, said: list[str]) -> None:
    assert compare(change(kafka)) == said

"""Kafka's jars, and the classes that a broker loads."""

from pathlib import Path

from kafka_metadata_history.jars.fetch import JARS, fetch_jars


def kafka_jars(version: str) -> list[Path]:
    """The jars of a Kafka broker, with a logger: Kafka's own packages bring only the interface
    (slf4j-api).

    With Kafka 2.8 comes log4j, without a configuration: SLF4J would take it for the logger, and
    nothing would be logged.
    """
    jars = fetch_jars("org.apache.kafka", "kafka_2.13", version, JARS / f"kafka-{version}")
    jars = [jar for jar in jars if not jar.name.startswith("slf4j-log4j12-")]
    (api,) = (jar for jar in jars if jar.name.startswith("slf4j-api-"))
    slf4j = api.stem.removeprefix("slf4j-api-")
    logger = fetch_jars(
        "org.slf4j", "slf4j-simple", slf4j, JARS / f"slf4j-simple-{slf4j}", transitive=False
    )
    return jars + logger


def kafka_classes(version: str) -> Path:
    """The classes that a broker of this version loads, as Java keeps them (JEP 350): a file that
    tools/class_archive.py may have made. With it a broker starts in half the time.
    """
    return JARS / f"kafka-{version}.jsa"

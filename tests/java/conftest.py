"""The JVM of the tests that hold readers and writers against Kafka's own classes."""

import os
from collections.abc import Iterator

import pytest
from py4j.java_gateway import JVMView

from kafka_metadata_history.jars.java import java_command
from local_cluster.cluster import KAFKA_VERSION
from local_cluster.jars import kafka_jars
from local_cluster.member import java_machine


@pytest.fixture(scope="session")
def jvm() -> Iterator[JVMView]:
    """A small JVM that has the classes of a Kafka broker, and nothing else."""
    class_path = os.pathsep.join(map(str, kafka_jars(KAFKA_VERSION)))
    with java_machine(class_path, java_command()) as machine:
        yield machine

"""The command lines of Kafka's processes."""

from collections.abc import Sequence

from kafka_metadata_history.jars.java import java_command
from local_cluster.files import NodeFiles
from local_cluster.jars import kafka_classes, kafka_jars
from local_cluster.nodes import Node

_SMALL_JVM = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",  # its files outlive a SIGKILL
)
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    # The whole configuration, several times a start.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
)


def kafka_java(version: str, options: Sequence[str]) -> list[str]:
    """Return the `java` of a version of Kafka, with more options, up to the class to run."""
    class_path = ":".join(map(str, kafka_jars(version)))
    kept = kafka_classes(version)
    # Java says nothing where it cannot take them, and loads classes as ever.
    classes = [f"-XX:SharedArchiveFile={kept}", "-Xlog:cds*=off"] if kept.exists() else []
    return [java_command(), *_SMALL_JVM, *classes, *_LOGGING, *options, "-cp", class_path]


def node_command(java: Sequence[str], node: Node, files: NodeFiles) -> list[str]:
    """Return the command that runs a node."""
    names = [f"-Djdk.net.hosts.file={files.hosts}"] if files.hosts.exists() else []
    return [*java, *names, *end_of_command(node, files)]


def end_of_command(node: Node, files: NodeFiles) -> list[str]:
    """Return the last arguments of the command, by which the node's process can be found."""
    return [node.main_class, str(files.config)]

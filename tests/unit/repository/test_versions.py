"""The newest Kafka is one number: what names it beside the code names the same."""

import re

from local_cluster.cluster import KAFKA_VERSION
from tests.support.documents import ROOT
from tests.support.for_each import for_each

NAMED = {
    "README.md": r"to (\S+) with KRaft: \[docs/versions",
    "CONTRIBUTING.md": r"`\.jars/kafka-(\S+)\.jsa`",
    "docs/versions.md": r"^\| (\S+), KRaft \|",
    "docs/design/logs.md": r"of all types up to Kafka (\S+) are decoded",
    "metadata_source/messages/__init__.py": r"in the jar kafka-clients (\S+) ",
    "tools/class_archive.py": r"\.jars/kafka-(\S+)\.jsa",
}
"""File -> where it names the newest Kafka. The first place counts."""


@for_each("name", NAMED)
def test_it_names_the_newest_kafka(name: str) -> None:
    found = re.search(NAMED[name], (ROOT / name).read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == KAFKA_VERSION

"""Fixtures of the tests of Spark."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def jvm(spark: Any) -> Any:
    """The JVM of the session, with Kafka's own classes."""
    return spark.sparkContext._jvm

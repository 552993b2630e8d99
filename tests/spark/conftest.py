"""What the tests of Spark share."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def jvm(spark: Any) -> Any:
    """Kafka's own classes are in it."""
    return spark.sparkContext._jvm

from collections.abc import Iterator

import pytest

from local_cluster import LocalCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers in three racks, shared: a test leaves all of them running as it found them."""
    with LocalCluster(brokers=3, racks=["a", "b", "c"]) as started:
        yield started


@pytest.fixture(scope="session")
def sasl_ssl_cluster() -> Iterator[LocalCluster]:
    """One broker that also has a SASL_SSL listener, shared."""
    with LocalCluster(brokers=1, sasl_ssl=True) as started:
        yield started

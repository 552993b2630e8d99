from collections.abc import Iterator

import pytest

from local_cluster import LocalCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers in three racks, shared: a test leaves all of them running as it found them."""
    with LocalCluster(brokers=3, racks=["a", "b", "c"]) as started:
        yield started

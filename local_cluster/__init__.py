"""A real Kafka of several brokers on this machine, for the demo, the tests and benchmarks."""

from local_cluster.cluster import LocalCluster, SaslSsl
from local_cluster.errors import LocalClusterError

__all__ = ["LocalCluster", "LocalClusterError", "SaslSsl"]

"""A real multi-broker Kafka (KRaft, or with ZooKeeper) on this machine, for the demo, the tests and
the benchmarks.
"""

from local_cluster.cluster import LocalCluster, SaslSsl
from local_cluster.errors import LocalClusterError

__all__ = ["LocalCluster", "LocalClusterError", "SaslSsl"]

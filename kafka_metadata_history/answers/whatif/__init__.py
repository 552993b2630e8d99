"""The effects of a loss of brokers or controllers on a cluster, by one state of it."""

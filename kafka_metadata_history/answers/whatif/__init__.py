"""What the loss of brokers or controllers would do to a cluster, by one recorded state of it."""

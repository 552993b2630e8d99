"""The controllers' own log, `__cluster_metadata`, as a Spark data source."""

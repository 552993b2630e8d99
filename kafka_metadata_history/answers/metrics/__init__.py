"""Kafka's state as metrics for Prometheus: docs/metrics.md."""

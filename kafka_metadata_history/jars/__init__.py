"""Jars by name and checksum: Delta's for the command, and Kafka's for local clusters."""

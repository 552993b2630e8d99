"""Jars by name and checksum: Delta's for the command, and Kafka's for what starts a local
cluster.
"""

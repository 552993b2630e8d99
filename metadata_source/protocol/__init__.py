"""Kafka's messages as tables, and their bytes as Arrow: Metadata, with the digest of a topic, and
the records of group coordinators.
"""

"""Kafka's Metadata messages: their tables, their decoder into Arrow, and the digest of a topic."""

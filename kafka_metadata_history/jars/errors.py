"""The error of jars."""

from metadata_source.errors import KafkaMetadataHistoryError


class JarsError(KafkaMetadataHistoryError, RuntimeError):
    """Raised when jars cannot be had, or are not those that are trusted. One line."""

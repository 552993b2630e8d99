"""The name of the command, and its exit statuses beside 0 and those of errors."""

from typing import Final

NAME: Final = "kafka-metadata-history"
FAILED, INTERRUPTED = 1, 130

"""The command `kafka-metadata-history`: everything that a person does with a lake of Kafka's
history.
"""

NAME = "kafka-metadata-history"
FAILED, INTERRUPTED = 1, 130
"""Exit statuses of the command, beside 0 and those of errors."""

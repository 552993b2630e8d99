"""The coordinators' log with options, without a source of Spark."""

from metadata_source.logs.group.log import GroupLog
from metadata_source.options import parse_group_log


def log_of(topic: str, timeout_ms: int = 10_000, **options: str) -> GroupLog:
    """As a task has it that reads a topic."""
    given = {"kafka.bootstrap.servers": "not-asked:1", "requestTimeout": f"{timeout_ms}ms"}
    return GroupLog(parse_group_log(given | options), topic)

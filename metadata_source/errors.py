"""Errors, one class a kind, each message one clear line."""

from typing import Any, Self

from metadata_source.text import LONGEST, printable


class ProtocolError(ValueError):
    """Bytes that are not the message they should be.

    `version` is the message's version, `path` the field (``topics[3].partitions[17].isr_nodes``), `offset` the byte of
    the body where that field's reading failed, `problem` what was read there.
    """

    def __init__(self, problem: str, *, message: str, version: int, path: str, offset: int) -> None:
        super().__init__(f"{message} v{version}: {path} at byte {offset}: {problem}")
        self.problem = problem
        self.message = message
        self.version = version
        self.path = path
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        places = {"message": self.message, "version": self.version, "path": self.path, "offset": self.offset}
        return _protocol_error, (type(self), self.problem, places)


class TooSlowError(ProtocolError):
    """Bytes whose reading took longer than they were given; they may be the message."""


def _protocol_error(kind: type[ProtocolError], problem: str, places: dict[str, Any]) -> ProtocolError:
    """Rebuild an error on the other side of a pickle (Spark workers send errors that way)."""
    return kind(problem, **places)


class OptionsError(ValueError):
    """Options that cannot be meant: unknown, contradictory or not readable."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"[KAFKA_METADATA_OPTIONS] {problem}")
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        return OptionsError, (self.problem,)


class TokenError(RuntimeError):
    """No token for SASL OAUTHBEARER. `kind` is a word of PollError's, `problem` one line without secrets."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"[KAFKA_METADATA_TOKEN] {kind}: {problem}")
        self.kind = kind
        self.problem = problem


def stumbled(error: Exception) -> str:
    """Return the problem, one line, where this program's own code stumbled over an answer; its kind is `protocol`."""
    what = printable(" ".join(f"{type(error).__name__}: {error}".split())[:LONGEST])
    return f"this program stumbled over what the broker answered ({what})"


class PollError(RuntimeError):
    """A poll that got no usable answer.

    `kind` is the stable word that bronze keeps as `error_kind` (see `metadata_source.poller`), `problem` one line
    without secrets.
    """

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"[KAFKA_METADATA_POLL] {kind}: {problem}")
        self.kind = kind
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        return PollError, (self.kind, self.problem)


class LogError(RuntimeError):
    """A log of a cluster that cannot be read.

    `kind` is one stable word: not_allowed, no_leader, or one of those of a poll (see `metadata_source.poller`);
    `problem` one line without secrets.
    """

    name = "LOG"

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"{self.mark()} {kind}: {problem}")
        self.kind = kind
        self.problem = problem

    @classmethod
    def mark(cls) -> str:
        """Return how each message begins, also once Spark has wrapped the error."""
        return f"[KAFKA_METADATA_{cls.name}]"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.problem)

    def of(self, alias: str) -> Self:
        """Return the error with the name of its cluster."""
        return type(self)(self.kind, f"cluster {alias}: {self.problem}")


class GroupLogError(LogError):
    """The coordinators' log of a cluster that cannot be read."""

    name = "GROUP_LOG"


class ClusterLogError(LogError):
    """The controllers' log of a cluster, or its files, that cannot be read. A kind of its own is `not_controller`."""

    name = "CLUSTER_LOG"

"""Errors, one class a kind, each message one clear line; the base of all that are raised here."""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Any, ClassVar, Self

from metadata_source.text import LONGEST, printable


class KafkaMetadataHistoryError(Exception):
    """The base of every error of this product. `exit_status`: of a command that ends with it."""

    exit_status: ClassVar[int] = 1


class Retry(Enum):
    """Whom it helps to ask after an error."""

    AGAIN = auto()
    """All, more than once and another broker first: it may be over soon."""
    OTHERS = auto()
    """Each broker once."""
    REMEMBERED = auto()
    """Nobody, if it is the error of a bootstrap server. An address that was only remembered may be
    another cluster's by now: then the bootstrap servers.
    """
    NOBODY = auto()
    """No broker has a part in it."""


class ErrorKind(StrEnum):
    """Each kind of error, one stable word, and whom it helps to ask then. Bronze keeps a poll's as
    `error_kind`.
    """

    retry: Retry

    def __new__(cls, word: str, retry: Retry = Retry.OTHERS) -> Self:
        """Return the kind of a word."""
        kind = str.__new__(cls, word)
        kind._value_, kind.retry = word, retry
        return kind

    UNREACHABLE = "unreachable", Retry.AGAIN
    TIMEOUT = "timeout", Retry.AGAIN
    # An empty list of brokers: that of a broker that is starting.
    NO_BROKERS = "no_brokers", Retry.AGAIN
    BROKER_ERROR = "broker_error", Retry.AGAIN
    NO_LEADER = "no_leader", Retry.AGAIN  # of a log: nobody says where it ends
    # The poll was not sent, since the one before was still running.
    OVERLAPPED = "overlapped", Retry.AGAIN
    # The poll was recorded, and the spool has not kept it, or what it follows.
    LOST = "lost", Retry.AGAIN
    # The poll was made, and the spool had no room for its rows.
    SPOOL_FULL = "spool_full", Retry.AGAIN
    # The poll is in the spool of a recorder that another one has replaced.
    HANDED_OVER = "handed_over", Retry.AGAIN
    # The clock is this machine's, which is not believed yet (`metadata_source.clock`).
    CLOCK = "clock", Retry.AGAIN
    TLS = "tls"
    PROTOCOL = "protocol"  # bytes that are no answer, or over which the code stumbled
    ODD_ANSWER = "odd_answer"  # it lists something twice, or without a name (`protocol.oddities`)
    UNSUPPORTED_VERSION = "unsupported_version"
    NOT_CONTROLLER = "not_controller"
    AUTHENTICATION = "authentication", Retry.REMEMBERED
    AUTHORIZATION = "authorization", Retry.REMEMBERED
    # Of a log: what may be read of it takes another permission.
    NOT_ALLOWED = "not_allowed", Retry.REMEMBERED
    TOO_LARGE = "too_large", Retry.REMEMBERED
    WRONG_CLUSTER = "wrong_cluster", Retry.REMEMBERED
    # The answer has none, where history needs one.
    NO_CLUSTER_ID = "no_cluster_id", Retry.REMEMBERED
    OPTIONS = "options", Retry.NOBODY
    TOO_MANY_FILES = "too_many_files", Retry.NOBODY  # this process may open no more


class ProtocolError(KafkaMetadataHistoryError, ValueError):
    """Bytes that are not the message they should be.

    `version` is the message's version, `path` the field (``topics[3].partitions[17].isr_nodes``),
    `offset` the byte of the body where that field's reading failed, `problem` what was read there.
    """

    def __init__(self, problem: str, *, message: str, version: int, path: str, offset: int) -> None:
        super().__init__(f"{message} v{version}: {path} at byte {offset}: {problem}")
        self.problem = problem
        self.message = message
        self.version = version
        self.path = path
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        places = {
            "message": self.message,
            "version": self.version,
            "path": self.path,
            "offset": self.offset,
        }
        return _protocol_error, (type(self), self.problem, places)


class TooSlowError(ProtocolError):
    """Bytes whose reading took longer than they were given; they may be the message."""


def _protocol_error(
    kind: type[ProtocolError], problem: str, places: dict[str, Any]
) -> ProtocolError:
    """Rebuild an error on the other side of a pickle (Spark workers send errors that way)."""
    return kind(problem, **places)


class OptionsError(KafkaMetadataHistoryError, ValueError):
    """Options that cannot be meant: unknown, contradictory or not readable."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"[KAFKA_METADATA_OPTIONS] {problem}")
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        return OptionsError, (self.problem,)


def stumbled(error: Exception) -> str:
    """Return the line to say where this program's own code stumbled; its kind is `protocol`."""
    what = printable(" ".join(f"{type(error).__name__}: {error}".split())[:LONGEST])
    return f"this program stumbled over what the broker answered ({what})"


class ClusterError(KafkaMetadataHistoryError, RuntimeError):
    """Whoever was asked about a cluster gave nothing of use. `kind`: a word of `ErrorKind`;
    `problem`: one line without secrets.
    """

    name: ClassVar[str]

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(f"{self.mark()} {kind}: {problem}")
        self.kind = ErrorKind(kind)
        self.problem = problem

    @property
    def retry(self) -> Retry:
        """Whom it helps to ask now."""
        return self.kind.retry

    @classmethod
    def mark(cls) -> str:
        """Return how each message begins, also once Spark has wrapped the error."""
        return f"[KAFKA_METADATA_{cls.name}]"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self.kind), self.problem)


class TokenError(ClusterError):
    """No token for SASL OAUTHBEARER."""

    name = "TOKEN"


class PollError(ClusterError):
    """A poll, or a question beside it, that got no usable answer."""

    name = "POLL"


class LogError(ClusterError):
    """A log of a cluster that cannot be read."""

    name = "LOG"

    @classmethod
    def of(cls, alias: str, error: Exception) -> Self:
        """Return an error as one of this log, with the name of its cluster."""
        known = error if isinstance(error, LogError) else LogError("protocol", stumbled(error))
        return cls(known.kind, f"cluster {alias}: {known.problem}")


class GroupLogError(LogError):
    """The coordinators' log of a cluster that cannot be read."""

    name = "GROUP_LOG"


class TransactionLogError(LogError):
    """The transaction coordinators' log of a cluster that cannot be read."""

    name = "TRANSACTION_LOG"


class ClusterLogError(LogError):
    """The controllers' log of a cluster, or its files, that cannot be read."""

    name = "CLUSTER_LOG"

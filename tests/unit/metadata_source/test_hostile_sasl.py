"""A peer that speaks SASL and means no good is refused in bounded time, with a line of bounded
length.
"""

import base64
import errno
import os
import time

import pytest

from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.transport import Connection
from tests.support.for_each import for_each
from tests.support.sasl_peer import Answer, SaslStep, sasl_peer


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")


def refused(mechanism: str, *steps: SaslStep, username: str = "alice") -> PollError:
    with sasl_peer(mechanism, *steps) as address:
        options = {
            "kafka.bootstrap.servers": address,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.username": username,
            "kafka.sasl.password": "env:KAFKA_PASSWORD",
        }
        (cluster,) = parse(options).clusters
        with pytest.raises(PollError) as caught:
            Connection(cluster, cluster.bootstrap_servers[0], time.monotonic() + 10)
    assert "hunter2" not in str(caught.value)
    return caught.value


def first_answer(iterations: str) -> SaslStep:
    """Return the first answer of a SCRAM server (RFC 5802)."""

    def answer(token: bytes) -> Answer:
        nonce = token.rpartition(b"r=")[2].decode()
        salt = base64.b64encode(b"salt").decode()
        return 0, None, f"r={nonce}server,s={salt},i={iterations}".encode()

    return answer


@for_each("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@for_each("iterations", ["1", "4095", "1000001", "99999999999999999999", "x", "-5000"])
def test_iterations_that_are_too_few_or_too_many_are_refused(
    mechanism: str, iterations: str
) -> None:
    answered = []
    error = refused(
        mechanism, first_answer(iterations), lambda token: answered.append(token) or (0, None, b"")
    )
    assert error.kind == "protocol"
    assert "SCRAM wants 4,096 to 1,000,000 iterations (RFC 5802, RFC 7677)" in error.problem
    assert not answered, "a proof for few iterations is a password to guess"


def test_iterations_within_the_bounds_are_answered() -> None:
    answered = []
    error = refused(
        "SCRAM-SHA-256",
        first_answer("4096"),
        lambda token: answered.append(token) or (58, "no", b""),
    )
    assert answered
    assert error.kind == "authentication"


@for_each("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@for_each(
    ("username", "sent"),
    [
        ("alice", b"alice"),
        ("team=a", b"team=3Da"),
        ("team,b", b"team=2Cb"),
        ("=3D,=2C", b"=3D3D=2C=3D2C"),
        # No SASLprep, in which this would be "IX": Java sends it as it is.
        ("I\u00adX \u2168", "I\u00adX \u2168".encode()),
    ],
)
def test_of_a_users_name_scrams_own_signs_are_escaped(
    mechanism: str, username: str, sent: bytes
) -> None:
    """RFC 5802, 5.1."""
    begun: list[bytes] = []
    refused(mechanism, lambda token: begun.append(token) or (58, "no", b""), username=username)
    assert begun[0].startswith(b"n,,n=" + sent + b",r=")
    assert begun[0].count(b",") == 3


@pytest.mark.parametrize("what", ["transport.NetworkSelector", "sockets.socket.create_connection"])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_process_that_may_open_no_more_files_says_so(
    what: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(f"metadata_source.{what}", full)
    (cluster,) = parse({"kafka.bootstrap.servers": "127.0.0.1:1"}).clusters
    with pytest.raises(PollError) as caught:
        Connection(cluster, cluster.bootstrap_servers[0], time.monotonic() + 10)
    assert caught.value.kind == "too_many_files"
    assert (
        "no more files may be opened here: raise the limit (ulimit -n, LimitNOFILE)"
        in caught.value.problem
    )


def test_of_a_brokers_own_text_the_begin_is_kept() -> None:
    error = refused("PLAIN", lambda _: (58, "go \x1b[2J away\n" * 2_000, b""))
    assert error.kind == "authentication"
    assert len(error.problem) < 700
    assert error.problem.isprintable()
    assert r"go \x1b[2J away go" in error.problem
    assert error.problem.endswith(" ... (check user and password)")

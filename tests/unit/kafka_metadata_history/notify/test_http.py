"""Requests to receivers that refuse, redirect, ask to wait, or are not there."""

import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from kafka_metadata_history.notify import http
from kafka_metadata_history.notify.http import Address, SendError, address_of, ask
from local_cluster.certificates import Authority
from metadata_source.errors import OptionsError
from tests.support.http_receiver import Answer, HttpReceiver, receiving


def refusal(receiver: HttpReceiver, answer: Answer, body: bytes | None = b"{}") -> SendError:
    receiver.answers = [answer]
    with pytest.raises(SendError) as raised:
        ask(Address(f"{receiver.url}/secretpath", {}), body, hidden="hunter2")
    return raised.value


def test_a_body_is_posted_and_without_one_it_gets(receiver: HttpReceiver) -> None:
    ask(Address(f"{receiver.url}/a", {"Authorization": "x"}), b'{"b": 1}', {"Idempotency-Key": "k"})
    ask(Address(receiver.url, {}))
    posted, got = receiver.got
    assert (posted.method, posted.path, posted.body) == ("POST", "/a", {"b": 1})
    assert (posted.headers["authorization"], posted.headers["idempotency-key"]) == ("x", "k")
    assert (got.method, got.body) == ("GET", None)


@pytest.mark.parametrize(
    ("status", "is_refused"),
    [(400, True), (401, True), (404, True), (408, False), (429, False), (500, False), (503, False)],
)
def test_what_a_status_says_of_the_message(
    receiver: HttpReceiver, status: int, is_refused: bool
) -> None:
    error = refusal(receiver, Answer(status, text="no hunter2 at /secretpath"))
    assert str(error) == f"HTTP {status}: no ... at /..."
    assert (error.is_refused, error.wait_s) == (is_refused, None)


def test_retry_after_is_seconds_or_a_date_and_bounded(receiver: HttpReceiver) -> None:
    late = format_datetime(datetime.now(UTC) + timedelta(hours=9))
    before = "Sun, 01 Nov 2020 12:00:00 GMT"
    given = {"120": 120, "999999": 3600, late: 3600, before: 0, "soon": None}
    for text, expected in given.items():
        assert refusal(receiver, Answer(429, {"Retry-After": text})).wait_s == expected


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("body", [b"{}", None])
def test_no_redirect_is_followed(receiver: HttpReceiver, status: int, body: bytes | None) -> None:
    error = refusal(receiver, Answer(status, {"Location": f"{receiver.url}/elsewhere"}), body)
    assert "it redirects, which is not followed" in str(error)
    assert len(receiver.got) == 1


def test_a_receiver_that_hangs_has_a_deadline(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "TIMEOUT_S", 0.2)
    error = refusal(receiver, Answer(hangs=True))
    assert (str(error), error.is_refused) == ("timed out", False)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SendError, match="Connection refused"):
        ask(Address(f"http://127.0.0.1:{port}", {}), b"")


def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE names an authority of one's own, as for every program with OpenSSL."""
    authority, keystore, trusted = Authority.create("ours"), tmp_path / "key", tmp_path / "ca"
    authority.write_server_keystore("localhost", keystore)
    authority.write_certificate(trusted)
    monkeypatch.setenv("no_proxy", "localhost")
    with receiving(keystore) as receiver:
        with pytest.raises(SendError, match="certificate verify failed"):
            ask(Address(receiver.url, {}), b"{}")
        assert receiver.got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        ask(Address(receiver.url, {}), b"{}")
        assert len(receiver.got) == 1


def test_an_address_of_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOOK", "https://me:hunter%202@x:1/y?z")
    found = address_of("notify.url", "env:KAFKA_HOOK")
    assert (found.url, found.headers) == (
        "https://x:1/y?z",
        {"Authorization": "Basic bWU6aHVudGVyIDI="},
    )
    assert {"hunter 2", "hunter%202", "bWU6aHVudGVyIDI="} <= {*found.secrets}
    assert found.below("/a") == replace(found, url="https://x:1/y/a?z")
    monkeypatch.setenv("KAFKA_HOOK", "ftp://hunter2")
    with pytest.raises(SendError, match=r"notify\.url: it is no URL") as raised:
        address_of("notify.url", "env:KAFKA_HOOK")
    assert "hunter2" not in str(raised.value)
    monkeypatch.delenv("KAFKA_HOOK")
    with pytest.raises(OptionsError, match="KAFKA_HOOK is not set"):
        address_of("notify.url", "env:KAFKA_HOOK")

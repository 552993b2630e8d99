"""TLS settings, made of files that options name."""

import ssl
from pathlib import Path

import pytest

from local_cluster.certificates import Authority
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.tls import tls_context

PASSWORD = "s3cret"  # noqa: S105 - of a key of this test


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an authority, and a client's certificate and key with a password."""
    authority = Authority.create("tests")
    authority.write_certificate(tmp_path / "ca.pem")
    authority.write_client_certificate(
        "history", tmp_path / "client.pem", tmp_path / "client.key", PASSWORD
    )
    monkeypatch.setenv("KEY_PASSWORD", PASSWORD)
    monkeypatch.setenv("WRONG", "wrong")
    monkeypatch.setenv("LONG", "x" * 2_000)
    return tmp_path


def made(**given: str) -> ssl.SSLContext | None:
    named = {f"kafka.ssl.{name.replace('_', '.')}": text for name, text in given.items()}
    servers = {"kafka.bootstrap.servers": "one:9092", "kafka.security.protocol": "SSL"}
    return tls_context(parse(servers | named).clusters[0])


def mutual(files: Path, **given: str) -> dict[str, str]:
    own = {"ca_location": files / "ca.pem", "certificate_location": files / "client.pem"}
    own |= {"key_location": files / "client.key", "key_password": "env:KEY_PASSWORD"}
    return {name: str(value) for name, value in (own | given).items()}


def test_hosts_are_checked_unless_options_say_otherwise(files):
    for more, is_checked in ({}, True), ({"endpoint_identification_algorithm": "none"}, False):
        context = made(**mutual(files), **more)
        assert (context.check_hostname, context.verify_mode) == (is_checked, ssl.CERT_REQUIRED)
        (trusted,) = context.get_ca_certs()
        assert trusted["subject"] == ((("commonName", "tests"),),)
    assert tls_context(parse({"kafka.bootstrap.servers": "one:9092"}).clusters[0]) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"key_password": "env:WRONG"},
            "{0}/client.pem and {0}/client.key: no PEM files, or kafka.ssl.key.password is not the",
        ),
        (
            {"key_password": "env:LONG"},
            "kafka.ssl.key.password: longer than 1,024 bytes, or not UTF-8 text",
        ),
        ({"key_location": "/none.key"}, "client.pem and /none.key: no such file or directory"),
        ({"ca_location": "/none.pem"}, "kafka.ssl.ca.location: /none.pem: no such file or dir"),
        ({"key_password": "env:NOT_SET"}, "environment variable NOT_SET is not set where the con"),
    ],
)
def test_files_that_cannot_be_used_are_one_line_without_a_secret(files, given, said):
    with pytest.raises(PollError) as caught:
        made(**mutual(files, **given))
    assert caught.value.kind == "options"
    assert said.format(files) in caught.value.problem
    assert "x" * 9 not in caught.value.problem


def test_no_terminal_is_asked_for_the_password_of_a_key(files):
    given = mutual(files)
    del given["key_password"]
    with pytest.raises(PollError, match=r"kafka\.ssl\.key\.password is not the key's"):
        made(**given)

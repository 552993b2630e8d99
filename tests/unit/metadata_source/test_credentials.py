"""Credentials: secrets resolved where the connection is made."""

from metadata_source.credentials import Credentials, credentials
from metadata_source.options import parse
from tests.support.given_options import BOOTSTRAP, SASL


def test_a_password_is_resolved_and_not_shown(monkeypatch):
    monkeypatch.setenv("ALICE_PASSWORD", "s3cret")
    (cluster,) = parse(SASL).clusters
    assert "s3cret" not in repr(cluster)
    made = credentials(cluster, 0)
    assert (made.username, made.password) == ("alice", "s3cret")
    assert "s3cret" not in repr(made)


def test_who_needs_no_secret_has_none():
    kerberos = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "GSSAPI"}
    for options in (BOOTSTRAP, BOOTSTRAP | kerberos):
        assert credentials(parse(options).clusters[0], 0) == Credentials()

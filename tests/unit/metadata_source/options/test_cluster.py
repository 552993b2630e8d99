"""A cluster as options say how to reach it: what of SASL and TLS goes together."""

import pytest

from metadata_source.errors import OptionsError
from metadata_source.options import parse
from tests.support.given_options import BEARER, BOOTSTRAP, SASL, refused, without


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metadataVersion": "1", "clusterId": "x"}, "clusterId: contradicts metadataVersion 1"),
        ({"kafka.bootstrap.servers": "SASL_SSL://one:1"}, "kafka.sasl.mechanism: missing"),
        ({"cluster": "a b"}, "the alias 'a b' is not"),
        ({"clusters": '{"": {}}'}, "the alias '' is not"),
        (
            {"kafka.sasl.username": "a"},
            "kafka.sasl.username: contradicts kafka.security.protocol PLAINTEXT",
        ),
        (
            {"kafka.ssl.ca.location": "/a"},
            "kafka.ssl.ca.location: contradicts kafka.security.protocol",
        ),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism: missing"),
        (
            SASL | {"kafka.sasl.mechanism": "GSSAPI"},
            "kafka.sasl.username: contradicts kafka.sasl.mechanism GSSAPI",
        ),
        (
            SASL | {"kafka.sasl.oauthbearer.scope": "s"},
            "kafka.sasl.oauthbearer.scope: contradicts kafka.sasl.me",
        ),
        (
            SASL | {"kafka.https.ca.location": "/a"},
            "kafka.https.ca.location: contradicts kafka.sasl.mechanism",
        ),
        (
            {"kafka.https.ca.location": "/a"},
            "kafka.https.ca.location: contradicts kafka.security.pr",
        ),
        (
            BEARER | {"kafka.sasl.username": "a"},
            "kafka.sasl.username: contradicts kafka.sasl.mechanism OAUTHB",
        ),
        (
            without(BEARER, "token.endpoint.url"),
            "kafka.sasl.oauthbearer.token.endpoint.url: missing",
        ),
        (
            without(BEARER, "client.secret"),
            "kafka.sasl.oauthbearer.client.id and kafka.sasl.oauthbearer.client.",
        ),
        (
            BEARER | {"kafka.sasl.jaas.config": "env:J"},
            "client.id: contradicts kafka.sasl.jaas.config",
        ),
        (
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "AWS_MSK_IAM"},
            "AWS_MSK_IAM contradicts kafka.security.protocol SASL_PLAINTEXT",
        ),
        (
            SASL | {"kafka.sasl.jaas.config": "env:J"},
            "kafka.sasl.username: contradicts kafka.sasl.jaas.config",
        ),
        (
            SASL | {"kafka.ssl.key.location": "/k"},
            "kafka.ssl.key.location: without kafka.ssl.certificate.location",
        ),
        (
            SASL | {"kafka.ssl.key.password": "env:K"},
            "kafka.ssl.key.password: without kafka.ssl.certificate.location",
        ),
    ],
)
def test_what_contradicts_itself_is_one_clear_line(given, said):
    assert said in refused(given)


@pytest.mark.parametrize(
    ("given", "where"), [({}, r"\] "), ({"clusters": '{"a": {}, "b": {}}'}, r"clusters\['a'\]: ")]
)
def test_bootstrap_servers_are_needed(given, where):
    with pytest.raises(OptionsError, match=where + r"kafka\.bootstrap\.servers: missing"):
        parse(given)


def test_user_without_password_is_an_error():
    with pytest.raises(OptionsError, match="both are needed"):
        parse(without(SASL, ".password"))


@pytest.mark.parametrize(
    ("algorithm", "checked"), [(None, True), ("HTTPS", True), ("none", False), ("", False)]
)
def test_hosts_are_checked_unless_the_algorithm_is_none_or_empty(algorithm, checked):
    given_one = (
        {} if algorithm is None else {"kafka.ssl.endpoint.identification.algorithm": algorithm}
    )
    assert parse(SASL | given_one).clusters[0].ssl_check_hostname is checked


@pytest.mark.parametrize(
    ("protocol", "mechanism", "exposed"),
    [
        ("SASL_PLAINTEXT", "PLAIN", "the password"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512", "a hash from which the password can be guessed"),
        ("SASL_SSL", "PLAIN", None),
    ],
)
def test_credentials_that_cross_the_network_unencrypted_are_said(protocol, mechanism, exposed):
    named = {"kafka.security.protocol": protocol, "kafka.sasl.mechanism": mechanism}
    who = {"kafka.sasl.username": "alice", "kafka.sasl.password": "env:ALICE"}
    (cluster,) = parse(BOOTSTRAP | named | who).clusters
    told = (
        exposed
        and f"{exposed} crosses the network unencrypted: set kafka.security.protocol to SASL_SSL"
    )
    assert cluster.exposed == told


def test_nothing_is_exposed_where_nobody_authenticates():
    assert parse(BOOTSTRAP).clusters[0].exposed is None

"""Options as they are given: names, spellings, of all clusters and of each."""

import json

import pytest

from metadata_source.errors import OptionsError
from metadata_source.options import parse, parse_cluster_log
from metadata_source.options.table import OPTIONS
from tests.support.for_each import for_each
from tests.support.given_options import BEARER, BOOTSTRAP, SASL, refused, without


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pollIntervall": "1s"}, "unknown option 'pollIntervall': did you mean 'pollInterval'?"),
        ({"bootstrap.servers": "x:1"}, "did you mean 'kafka.bootstrap.servers'?"),
        ({"kafka.ssl.truststore.location": "/t"}, "use kafka.ssl.ca.location (a PEM file)"),
        (
            {"ssl.truststore.password": "p"},
            "leave it out: the PEM file of kafka.ssl.ca.location has",
        ),
        (
            {"kafka.ssl.crl.location": "/t"},
            "leave it out: no lists of revoked certificates are read",
        ),
        *(
            ({f"kafka.{name}": "x"}, f"unknown option 'kafka.{name}': nothing here needs it")
            for name in (
                "ssl.cipher.suites",
                "ssl.enabled.protocols",
                "ssl.keymanager.algorithm",
                "ssl.engine.factory.class",
                "sasl.login.class",
                "sasl.oauthbearer.jwks.endpoint.url",
                "group.id",
                "enable.auto.commit",
            )
        ),
        ({"clusters": '{"a": {"requestTimeout": "5s"}}'}, "requestTimeout: one for the whole read"),
        ({"qqqqq": "1"}, "the options are kafka.bootstrap.servers, "),
        ({"topics": " "}, "topics: empty"),
        ({"pollsPerBatch": "2"}, "unknown option 'pollsPerBatch'"),
        ({"spool": " "}, "spool: empty"),
        (
            {"kafka.bootstrap.servers": "PLAINTEXT://one:1,SSL://two:2"},
            "kafka.bootstrap.servers: SSL:// contradicts kafka.security.protocol PLAINTEXT",
        ),
        (
            {"kafka.bootstrap.servers": "SSL://one:1", "kafka.security.protocol": "plaintext"},
            "kafka.bootstrap.servers: SSL:// contradicts kafka.security.protocol plaintext",
        ),
        (
            {
                "clusters": (
                    '{"a": {"kafka.bootstrap.servers": "ssl://one:1", "kafka.security.protocol": '
                    '"PLAINTEXT"}}'
                )
            },
            (
                "clusters['a']: kafka.bootstrap.servers: ssl:// contradicts "
                "kafka.security.protocol PLAINTEXT"
            ),
        ),
        ({"clusters": '{"a": 1}'}, "clusters['a']: not a JSON object of options"),
        ({"clusters": '{"a": {"clusterid": true}}'}, "clusterid: neither text nor a whole number"),
        ({"clusters": '{"a": {"topics": "t"}}'}, "topics: one for the whole read"),
        ({"clusters": '{"a": {"clusterID": "x", "clusterId": "y"}}'}, "clusterId: given twice"),
        ({"clusters": '{"a": {}}', "cluster": "b"}, "cluster: contradicts clusters"),
        ({"clusters": '{"a": {}}', "clusterId": "b"}, "clusterId: contradicts clusters"),
        (
            SASL | {"kafka.sasl.mechanisms": "PLAIN"},
            "kafka.sasl.mechanism: given twice, in two spellings",
        ),
        (
            SASL | {"kafka.ssl.truststore.password": "p"},
            "leave it out: the PEM file of kafka.ssl.ca.location has",
        ),
        (
            SASL | {"ssl.keystore.key": "p"},
            "unknown option 'ssl.keystore.key': use kafka.ssl.key.location",
        ),
        (SASL | {"kafka.sasl.kerberos.keytab": "/k"}, "leave it out: GSSAPI takes its ticket from"),
        (
            BEARER | {"kafka.sasl.login.callback.handler.class": "x"},
            "leave it out: OAUTHBEARER asks its token",
        ),
        (SASL | {"sasl.mechanisms": "PLAIN"}, "did you mean 'kafka.sasl.mechanism'?"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(given, said):
    assert said in refused(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"clusters": '{"a": {"pollInterval": "1s"}}'},
            "clusters['a']: pollInterval: not in a batch",
        ),
        ({"newestStream": "20261101T110000Z-00000000"}, "newestStream: not in a batch read"),
        ({"pollInterval": "1s"}, "pollInterval: not in a batch read, which polls once"),
        *(
            ({name: "1"}, f"{name}: not in a batch read, which polls once")
            for name in ("spool", "commitInterval", "minCommitInterval", "knownIds", "recorder")
        ),
    ],
)
def test_what_a_batch_read_does_not_have(given, said):
    assert said in refused(given, "batch")


def test_keys_are_case_insensitive_as_spark_lowers_them():
    given_keys = {
        "KAFKA.Bootstrap.Servers": "one:9092",
        "pollinterval": "5s",
        "COMMITINTERVAL": "12s",
    }
    options = parse(given_keys, "stream")
    assert (options.polling["default"].interval_ms, options.commit_interval_ms) == (5_000, 12_000)


def test_clusters_differ_from_what_is_common():
    clusters = {
        "east": {"kafka.bootstrap.servers": "e1:1,e2:2", "clusterId": "abc"},
        "west": {
            "kafka.bootstrap.servers": "[::1]:3",
            "metadataVersion": 9,
            "kafka.client.id": "w",
        },
    }
    east, west = parse({"clusters": json.dumps(clusters), "kafka.client.id": "all"}).clusters
    assert (east.alias, east.bootstrap_servers, east.cluster_id, east.client_id) == (
        "east",
        (("e1", 1), ("e2", 2)),
        "abc",
        "all",
    )
    assert (west.bootstrap_servers, west.metadata_version, west.client_id) == (
        (("::1", 3),),
        9,
        "w",
    )


@pytest.mark.parametrize(
    ("servers", "protocol"),
    [
        ("one:9092,", "PLAINTEXT"),
        (" one:9092 , ", "PLAINTEXT"),
        ("SSL://one:9092", "SSL"),
        ("ssl://one:9092,", "SSL"),
    ],
)
def test_servers_as_people_have_them(servers, protocol):
    for given_options in ({}, {"kafka.security.protocol": protocol}):
        (cluster,) = parse(given_options | {"kafka.bootstrap.servers": servers}).clusters
        assert (cluster.bootstrap_servers, cluster.security_protocol) == (
            (("one", 9092),),
            protocol,
        )
    own = {"kafka.bootstrap.servers": "b:1", "kafka.controller.bootstrap.servers": servers}
    (cluster,) = parse_cluster_log({"clusters": json.dumps({"a": own})}).clusters
    assert (cluster.bootstrap_servers, cluster.security_protocol) == ((("one", 9092),), protocol)


def test_the_names_of_java_and_librdkafka_are_the_same_options():
    named = without(BEARER, ".client.id") | {
        "kafka.sasl.oauthbearer.method": "OIDC",
        "kafka.sasl.oauthbearer.client.credentials.client.id": "history",
        "kafka.sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-a",
    }
    java = {
        "kafka.sasl.mechanisms" if name == "kafka.sasl.mechanism" else name: value
        for name, value in named.items()
    }
    (cluster,) = parse(java).clusters
    assert cluster == parse(named).clusters[0]
    assert (cluster.sasl_mechanism, cluster.sasl_oauthbearer_client_id) == (
        "OAUTHBEARER",
        "history",
    )
    assert cluster.sasl_oauthbearer_extensions == (
        ("logicalCluster", "lkc-1"),
        ("identityPoolId", "pool-a"),
    )


@for_each("name", [option.name for option in OPTIONS if option.secret])
@for_each("within_clusters", [False, True])
def test_a_literal_secret_is_refused_and_not_repeated(name, within_clusters):
    own = {name: "hunter2"}
    given_options = BOOTSTRAP | ({"clusters": json.dumps({"a": own})} if within_clusters else own)
    with pytest.raises(
        OptionsError, match=r"not a reference: give env:NAME|one for the whole read"
    ) as caught:
        parse(given_options)
    assert "hunter2" not in str(caught.value)

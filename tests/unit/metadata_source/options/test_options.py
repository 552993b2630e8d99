import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.credentials import credentials
from metadata_source.errors import OptionsError
from metadata_source.options import Polling, TopicFilter, parse, parse_cluster_log
from metadata_source.options.readers import duration_ms
from metadata_source.options.table import OPTIONS
from metadata_source.references import resolve_secret
from tools.reference import option_table

BOOTSTRAP = {"kafka.bootstrap.servers": "one:9092"}
SASL = BOOTSTRAP | {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "env:ALICE_PASSWORD",
}

BEARER = BOOTSTRAP | {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.example.com/token",
    "kafka.sasl.oauthbearer.client.id": "history",
    "kafka.sasl.oauthbearer.client.secret": "env:CLIENT_SECRET",
}


def without(options: dict[str, str], end: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if not name.endswith(end)}


def test_defaults():
    options = parse(BOOTSTRAP)
    (cluster,) = options.clusters
    assert (cluster.alias, cluster.bootstrap_servers) == ("default", (("one", 9092),))
    assert (cluster.security_protocol, cluster.max_response_bytes, cluster.metadata_version) == (
        "PLAINTEXT",
        16777216,
        None,
    )
    assert (options.entity, options.spool, options.recorder) == ("polls", None, None)
    assert (
        options.polling["default"].interval_ms,
        options.commit_interval_ms,
        options.min_commit_interval_ms,
    ) == (
        30_000,
        60_000,
        1_000,
    )
    assert options.topic_filter.to_json() is None


def test_the_kind_of_each_cluster():
    assert parse(BOOTSTRAP).clusters[0].kind == "kafka"
    clusters = {"a": BOOTSTRAP, "b": BOOTSTRAP | {"kind": "EventHubs"}}
    options = parse({"clusters": json.dumps(clusters), "kind": "automq"})
    assert [cluster.kind for cluster in options.clusters] == ["automq", "eventhubs"]
    for wrong, hint in (
        ("warpstrem", "did you mean warpstream?"),
        ("x", "known are kafka, confluent, redpanda, "),
    ):
        with pytest.raises(
            OptionsError, match=rf"clusters\['a'\]: kind: '{wrong}' is no kind of cluster; {hint}"
        ):
            parse({"clusters": json.dumps({"a": BOOTSTRAP | {"kind": wrong}})})


def test_keys_are_case_insensitive_as_spark_lowers_them():
    given_keys = {
        "KAFKA.Bootstrap.Servers": "one:9092",
        "pollinterval": "5s",
        "COMMITINTERVAL": "12s",
    }
    options = parse(given_keys, "stream")
    assert (options.polling["default"].interval_ms, options.commit_interval_ms) == (5_000, 12_000)


def test_what_the_jobs_say_of_the_lake_and_of_the_recorder():
    own = {
        "knownIds": '{"default": "abc"}',
        "recorder": "run-1",
        "spool": " /var/spool/kmh ",
        "minCommitInterval": "2s",
    }
    options = parse(BOOTSTRAP | own, "stream")
    assert (options.known_ids, options.recorder, options.spool) == (
        {"default": "abc"},
        "run-1",
        "/var/spool/kmh",
    )
    assert options.min_commit_interval_ms == 2_000


@pytest.mark.parametrize(
    ("given_options", "timeout_ms"),
    [
        ({}, 10_000),
        ({"pollInterval": "2s"}, 2_000),
        ({"pollInterval": "200ms"}, 1_000),
        ({"pollInterval": "1s", "requestTimeout": "25s"}, 25_000),
        ({"clusters": '{"a": {}, "b": {"pollInterval": "7s"}}'}, 7_000),
    ],
)
def test_request_timeout_is_the_shortest_interval_unless_it_is_given(given_options, timeout_ms):
    assert parse(BOOTSTRAP | given_options).request_timeout_ms == timeout_ms


@pytest.mark.parametrize(
    ("given_options", "timeout_ms"),
    [
        ({}, 5_000),
        ({"pollInterval": "2s"}, 2_000),
        ({"requestTimeout": "7s"}, 5_000),
        ({"enrich": "groups", "enrichTimeout": "12s"}, 12_000),
        ({"enrich": "groups", "enrichTimeout": "1500ms", "pollInterval": "3s"}, 1_500),
    ],
)
def test_enrichments_take_5_s_and_no_longer_than_a_poll_unless_it_is_given(
    given_options, timeout_ms
):
    assert (
        parse(BOOTSTRAP | given_options, "stream").polling["default"].enrich_timeout_ms
        == timeout_ms
    )


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_a_question_may_take_longer_than_the_time_between_two_polls(mode):
    given_options = {"enrich": "groups", "enrichTimeout": "1m"}
    assert parse(BOOTSTRAP | given_options, mode).polling["default"].enrich_timeout_ms == 60_000


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


def test_a_cluster_has_an_interval_and_questions_of_its_own():
    clusters = {
        "usual": {},
        "quick": {"pollInterval": "5s", "enrich": "groups=10s"},
        "quiet": {"pollInterval": "10m", "enrich": "none", "enrichTimeout": "1s"},
        "odd": {"pollInterval": "7s"},
    }
    common = {"clusters": json.dumps(clusters), "enrich": "configs", "enrichTimeout": "2500ms"}
    options = parse(BOOTSTRAP | common, "stream")
    assert options.request_timeout_ms == 5_000
    assert options.polling == {
        "usual": Polling(30_000, {"configs": 300_000}, 2_500),
        "quick": Polling(5_000, {"groups": 10_000}, 2_500),
        "quiet": Polling(600_000, {}, 1_000),
        "odd": Polling(7_000, {"configs": 300_000}, 2_500),
    }


@pytest.mark.parametrize(
    ("mode", "given_options", "said"),
    [
        (None, {}, "kafka.bootstrap.servers: missing"),
        (
            None,
            BOOTSTRAP | {"pollIntervall": "1s"},
            "unknown option 'pollIntervall': did you mean 'pollInterval'?",
        ),
        (None, BOOTSTRAP | {"bootstrap.servers": "x:1"}, "did you mean 'kafka.bootstrap.servers'?"),
        (
            None,
            BOOTSTRAP | {"kafka.ssl.truststore.location": "/t"},
            "use kafka.ssl.ca.location (a PEM file)",
        ),
        (
            None,
            BOOTSTRAP | {"ssl.truststore.password": "p"},
            "leave it out: the PEM file of kafka.ssl.ca.location has",
        ),
        (
            None,
            BOOTSTRAP | {"kafka.ssl.crl.location": "/t"},
            "leave it out: no lists of revoked certificates are read",
        ),
        # Options of Java's that are none here, and look like one that is.
        *(
            (
                None,
                BOOTSTRAP | {f"kafka.{name}": "x"},
                f"unknown option 'kafka.{name}': nothing here needs it",
            )
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
        (
            None,
            BOOTSTRAP | {"enrich": "elr, config"},
            (
                "enrich: 'config' is none of configs, reassignments, quorum, elr, fenced, groups, "
                "offsets: did you mean 'configs'?"
            ),
        ),
        (
            None,
            BOOTSTRAP | {"enrich": "elr,"},
            "enrich: '' is none of configs, reassignments, quorum, elr, fenced, groups",
        ),
        (None, BOOTSTRAP | {"enrich": "elr,ELR=5s"}, "enrich: elr is there twice"),
        (
            None,
            BOOTSTRAP | {"enrich": "elr="},
            "enrich: elr: '' is not a duration such as 500ms, 30s or 5m",
        ),
        (
            None,
            BOOTSTRAP | {"enrich": "elr=5"},
            "enrich: elr: '5' is not a duration such as 500ms, 30s or 5m",
        ),
        (
            None,
            BOOTSTRAP | {"enrich": "elr=10ms"},
            "enrich: elr: '10ms' is not between 100 ms and 24 hours",
        ),
        (
            None,
            BOOTSTRAP | {"enrich": "elr=25h"},
            "enrich: elr: '25h' is not between 100 ms and 24 hours",
        ),
        (
            "batch",
            BOOTSTRAP | {"enrich": "elr=5s"},
            "enrich: 'elr=5s': a batch read asks once; leave the beat out",
        ),
        (
            None,
            BOOTSTRAP | {"enrichTimeout": "5s"},
            "enrichTimeout: without enrich, nothing is asked beside metadata",
        ),
        (
            None,
            BOOTSTRAP | {"enrich": "elr", "enrichTimeout": "5"},
            "enrichTimeout: '5' is not a duration such as",
        ),
        (
            None,
            BOOTSTRAP | {"enrich": "elr", "enrichTimeout": "0s"},
            "enrichTimeout: '0s' is not between 1 ms and 24",
        ),
        (
            None,
            {"clusters": '{"a": {"requestTimeout": "5s"}}'},
            "requestTimeout: one for the whole read",
        ),
        (
            "batch",
            BOOTSTRAP | {"enrich": "elr", "entity": "topics"},
            "enrich: contradicts entity topics",
        ),
        (
            "batch",
            BOOTSTRAP | {"clusters": '{"a": {"pollInterval": "1s"}}'},
            "clusters['a']: pollInterval: not in a batch",
        ),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {"enrich": "elf"}}'},
            "clusters['a']: enrich: 'elf' is none of configs",
        ),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {"pollInterval": "5"}}'},
            "clusters['a']: pollInterval: '5' is not a dura",
        ),
        (None, BOOTSTRAP | {"qqqqq": "1"}, "the options are kafka.bootstrap.servers, "),
        (None, BOOTSTRAP | {"topics": " "}, "topics: empty"),
        (
            None,
            BOOTSTRAP | {"topics": "a", "topicsPattern": "b"},
            "topics: contradicts topicsPattern",
        ),
        (
            None,
            BOOTSTRAP | {"topics": "a,b*"},
            "'b*' cannot be a topic's name; patterns go into topicsPattern",
        ),
        (
            None,
            BOOTSTRAP | {"topicsPattern": "("},
            "topicsPattern: '(' is not a regular expression of RE2",
        ),
        (
            None,
            BOOTSTRAP | {"groupsPattern": "("},
            "groupsPattern: '(' is not a regular expression of RE2",
        ),
        (
            None,
            BOOTSTRAP | {"topicsPattern": "a)|(b"},
            "topicsPattern: 'a)|(b' is not a regular expression of RE2",
        ),
        (
            None,
            BOOTSTRAP | {"entity": "topic"},
            "entity: 'topic' is none of polls, brokers, topics, partitions",
        ),
        ("stream", BOOTSTRAP | {"entity": "topics"}, "entity: a stream reads polls"),
        (
            "batch",
            BOOTSTRAP | {"newestStream": "20261101T110000Z-00000000"},
            "newestStream: not in a batch read",
        ),
        (
            None,
            BOOTSTRAP | {"doubtedClock": "2026-11-01T11:00:00Z"},
            "doubtedClock: '2026-11-01T11:00:00Z' is not two",
        ),
        (
            None,
            BOOTSTRAP | {"doubtedClock": "2026-11-01/2026-11-02"},
            "doubtedClock: '2026-11-01/2026-11-02' is not two",
        ),
        (
            None,
            BOOTSTRAP | {"newestStream": "now"},
            "newestStream: 'now' is not the name of a stream, such as 2026",
        ),
        (
            "batch",
            BOOTSTRAP | {"pollInterval": "1s"},
            "pollInterval: not in a batch read, which polls once",
        ),
        *(
            ("batch", BOOTSTRAP | {name: "1"}, f"{name}: not in a batch read, which polls once")
            for name in ("spool", "commitInterval", "minCommitInterval", "knownIds", "recorder")
        ),
        (None, BOOTSTRAP | {"pollsPerBatch": "2"}, "unknown option 'pollsPerBatch'"),
        (
            None,
            BOOTSTRAP | {"commitInterval": "1s", "minCommitInterval": "2s"},
            "minCommitInterval: 2000 ms are more",
        ),
        (
            None,
            BOOTSTRAP | {"commitInterval": "10ms"},
            "commitInterval: '10ms' is not between 100 ms and 24 hours",
        ),
        (None, BOOTSTRAP | {"spool": " "}, "spool: empty"),
        *(
            (None, BOOTSTRAP | {"knownIds": text}, 'knownIds: not JSON such as {"alias": "id"}')
            for text in ("{", "[]", '{"a": 1}', "[" * 100_000)
        ),
        (
            None,
            BOOTSTRAP | {"recorder": "a b"},
            "recorder: 'a b' is not 1 to 64 letters, digits or '-'",
        ),
        (
            None,
            BOOTSTRAP | {"pollInterval": "5"},
            "pollInterval: '5' is not a duration such as 500ms, 30s or 5m",
        ),
        (
            None,
            BOOTSTRAP | {"pollInterval": "10ms"},
            "pollInterval: '10ms' is not between 100 ms and 24 hours",
        ),
        (
            None,
            BOOTSTRAP | {"metadataVersion": "14"},
            "metadataVersion: '14' is not a whole number from 0 to 13",
        ),
        (
            None,
            BOOTSTRAP | {"metadataVersion": "1", "clusterId": "x"},
            "clusterId: contradicts metadataVersion 1",
        ),
        (
            None,
            BOOTSTRAP | {"maxResponseBytes": "1e6"},
            "maxResponseBytes: '1e6' is not a whole number",
        ),
        (
            None,
            {"kafka.bootstrap.servers": "one"},
            "kafka.bootstrap.servers: 'one' is not host:port",
        ),
        (None, {"kafka.bootstrap.servers": "one:0"}, "'one:0' is not host:port"),
        (
            None,
            {"kafka.bootstrap.servers": "one:1,u:hun,ter2@two:2"},
            "not host:port, comma-separated, without a user",
        ),
        (None, {"kafka.bootstrap.servers": "one:1,,two:2"}, "'' is not host:port"),
        (None, {"kafka.bootstrap.servers": ","}, "'' is not host:port"),
        (
            None,
            {"kafka.bootstrap.servers": "EXTERNAL://one:1"},
            "'EXTERNAL://one:1' is not host:port",
        ),
        (
            None,
            {"kafka.bootstrap.servers": "u:hunter2@one:1"},
            "comma-separated, without a user in it",
        ),
        (None, {"kafka.bootstrap.servers": "SASL_SSL://one:1"}, "kafka.sasl.mechanism: missing"),
        (
            None,
            {"kafka.bootstrap.servers": "PLAINTEXT://one:1,SSL://two:2"},
            "kafka.bootstrap.servers: SSL:// contradicts kafka.security.protocol PLAINTEXT",
        ),
        (
            None,
            {"kafka.bootstrap.servers": "SSL://one:1", "kafka.security.protocol": "plaintext"},
            "kafka.bootstrap.servers: SSL:// contradicts kafka.security.protocol plaintext",
        ),
        (
            None,
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
        (None, BOOTSTRAP | {"cluster": "a b"}, "the alias 'a b' is not"),
        (None, {"clusters": "{"}, "clusters: not JSON"),
        (None, {"clusters": "[" * 100_000}, "clusters: nested too deeply"),
        (None, {"clusters": "[]"}, "clusters: not a JSON object"),
        (None, {"clusters": "{}"}, "clusters: no cluster in it"),
        (None, BOOTSTRAP | {"clusters": '{"": {}}'}, "the alias '' is not"),
        (None, BOOTSTRAP | {"clusters": '{"a": {}, "a": {}}'}, "clusters: 'a' is there twice"),
        (None, BOOTSTRAP | {"clusters": '{"a": 1}'}, "clusters['a']: not a JSON object of options"),
        (None, {"clusters": '{"a": {}}'}, "clusters['a']: kafka.bootstrap.servers: missing"),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {"clusterid": true}}'},
            "clusterid: neither text nor a whole number",
        ),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {"topics": "t"}}'},
            "topics: one for the whole read",
        ),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {"clusterID": "x", "clusterId": "y"}}'},
            "clusterId: given twice",
        ),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {}}', "cluster": "b"},
            "cluster: contradicts clusters",
        ),
        (
            None,
            BOOTSTRAP | {"clusters": '{"a": {}}', "clusterId": "b"},
            "clusterId: contradicts clusters",
        ),
        (
            None,
            BOOTSTRAP | {"kafka.security.protocol": "TLS"},
            "'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            None,
            BOOTSTRAP | {"kafka.sasl.username": "a"},
            "kafka.sasl.username: contradicts kafka.security.protocol PLAINTEXT",
        ),
        (
            None,
            BOOTSTRAP | {"kafka.ssl.ca.location": "/a"},
            "kafka.ssl.ca.location: contradicts kafka.security.protocol",
        ),
        (
            None,
            BOOTSTRAP | {"kafka.security.protocol": "SASL_SSL"},
            "kafka.sasl.mechanism: missing",
        ),
        (
            None,
            SASL | {"kafka.sasl.mechanism": "NTLM"},
            (
                "'NTLM' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, "
                "GSSAPI"
            ),
        ),
        (
            None,
            SASL | {"kafka.sasl.mechanism": "GSSAPI"},
            "kafka.sasl.username: contradicts kafka.sasl.mechanism GSSAPI",
        ),
        (
            None,
            SASL | {"kafka.sasl.oauthbearer.scope": "s"},
            "kafka.sasl.oauthbearer.scope: contradicts kafka.sasl.me",
        ),
        (
            None,
            SASL | {"kafka.https.ca.location": "/a"},
            "kafka.https.ca.location: contradicts kafka.sasl.mechanism",
        ),
        (
            None,
            BOOTSTRAP | {"kafka.https.ca.location": "/a"},
            "kafka.https.ca.location: contradicts kafka.security.pr",
        ),
        (
            None,
            BEARER | {"kafka.sasl.username": "a"},
            "kafka.sasl.username: contradicts kafka.sasl.mechanism OAUTHB",
        ),
        (None, BEARER | {"kafka.sasl.oauthbearer.method": "default"}, "'default' is none of oidc"),
        (
            None,
            without(BEARER, "token.endpoint.url"),
            "kafka.sasl.oauthbearer.token.endpoint.url: missing",
        ),
        (
            None,
            without(BEARER, "client.secret"),
            "kafka.sasl.oauthbearer.client.id and kafka.sasl.oauthbearer.client.",
        ),
        (
            None,
            BEARER | {"kafka.sasl.jaas.config": "env:J"},
            "client.id: contradicts kafka.sasl.jaas.config",
        ),
        (
            None,
            BEARER | {"kafka.sasl.oauthbearer.extensions": "a=b,auth=c"},
            "extensions: not name=value",
        ),
        (
            None,
            BEARER | {"kafka.sasl.oauthbearer.extensions": "a=b,a=c"},
            "extensions: not name=value",
        ),
        (
            None,
            BEARER | {"kafka.sasl.oauthbearer.extensions": "a_b=c"},
            "extensions: not name=value",
        ),
        *(
            (
                None,
                BEARER | {"kafka.sasl.oauthbearer.token.endpoint.url": url},
                "url: not a URL such as https://host/",
            )
            for url in (
                "idp/token",
                "file:///token",
                "https://",
                "https://host:x/",
                "https://me:hunter2@host/token",
            )
        ),
        (
            None,
            BOOTSTRAP
            | {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "AWS_MSK_IAM"},
            "AWS_MSK_IAM contradicts kafka.security.protocol SASL_PLAINTEXT",
        ),
        (
            None,
            SASL | {"kafka.sasl.mechanisms": "PLAIN"},
            "kafka.sasl.mechanism: given twice, in two spellings",
        ),
        (
            None,
            SASL | {"kafka.ssl.truststore.password": "p"},
            "leave it out: the PEM file of kafka.ssl.ca.location has",
        ),
        (
            None,
            SASL | {"ssl.keystore.key": "p"},
            "unknown option 'ssl.keystore.key': use kafka.ssl.key.location",
        ),
        (
            None,
            SASL | {"kafka.sasl.kerberos.keytab": "/k"},
            "leave it out: GSSAPI takes its ticket from",
        ),
        (
            None,
            BEARER | {"kafka.sasl.login.callback.handler.class": "x"},
            "leave it out: OAUTHBEARER asks its token",
        ),
        (None, SASL | {"sasl.mechanisms": "PLAIN"}, "did you mean 'kafka.sasl.mechanism'?"),
        (
            None,
            SASL | {"kafka.sasl.jaas.config": "env:J"},
            "kafka.sasl.username: contradicts kafka.sasl.jaas.config",
        ),
        (
            None,
            SASL | {"kafka.ssl.key.location": "/k"},
            "kafka.ssl.key.location: without kafka.ssl.certificate.location",
        ),
        (
            None,
            SASL | {"kafka.ssl.key.password": "env:K"},
            "kafka.ssl.key.password: without kafka.ssl.certificate.location",
        ),
        (
            None,
            SASL | {"kafka.ssl.endpoint.identification.algorithm": "http"},
            "'http' is none of https, none",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(mode, given_options, said):
    with pytest.raises(OptionsError) as caught:
        parse(given_options, mode)
    message = str(caught.value)
    assert message.startswith("[KAFKA_METADATA_OPTIONS] ")
    assert said in message
    assert "\n" not in message
    assert "hunter2" not in message


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


def test_user_without_password_is_an_error():
    with pytest.raises(OptionsError, match="both are needed"):
        parse(without(SASL, ".password"))


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


@pytest.mark.parametrize(
    ("algorithm", "checked"), [(None, True), ("HTTPS", True), ("none", False), ("", False)]
)
def test_hosts_are_checked_unless_the_algorithm_is_none_or_empty(algorithm, checked):
    given_one = (
        {} if algorithm is None else {"kafka.ssl.endpoint.identification.algorithm": algorithm}
    )
    assert parse(SASL | given_one).clusters[0].ssl_check_hostname is checked


def test_enrichments_have_beats():
    assert parse(BOOTSTRAP).polling["default"].enrich == {}
    assert parse(BOOTSTRAP | {"enrich": "configs=10m, ELR ,fenced = 2 s"}, "stream").polling[
        "default"
    ].enrich == {
        "configs": 600_000,
        "elr": 60_000,
        "fenced": 2_000,
    }
    every = (
        parse(BOOTSTRAP | {"enrich": "configs,reassignments,quorum,elr,fenced"}, "batch")
        .polling["default"]
        .enrich
    )
    assert every == {
        "configs": 300_000,
        "reassignments": 15_000,
        "quorum": 60_000,
        "elr": 60_000,
        "fenced": 60_000,
    }


@pytest.mark.parametrize("name", [option.name for option in OPTIONS if option.secret])
@pytest.mark.parametrize("within_clusters", [False, True])
def test_a_literal_secret_is_refused_and_not_repeated(name, within_clusters):
    own = {name: "hunter2"}
    given_options = BOOTSTRAP | ({"clusters": json.dumps({"a": own})} if within_clusters else own)
    with pytest.raises(
        OptionsError, match=r"not a reference: give env:NAME|one for the whole read"
    ) as caught:
        parse(given_options)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_resolved_from_environment_and_file(monkeypatch, tmp_path):
    monkeypatch.setenv("ALICE_PASSWORD", "s3cret")
    (cluster,) = parse(SASL).clusters
    assert "s3cret" not in repr(cluster)
    made = credentials(cluster, 0)
    assert (made.username, made.password) == ("alice", "s3cret")
    assert "s3cret" not in repr(made)
    file = tmp_path / "password"
    file.write_text("from file\n")
    assert resolve_secret("kafka.sasl.password", f"file:{file}") == "from file"


def test_a_missing_secret_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("ALICE_PASSWORD", raising=False)
    with pytest.raises(
        OptionsError,
        match="environment variable ALICE_PASSWORD is not set where the connection is made",
    ):
        resolve_secret("kafka.sasl.password", "env:ALICE_PASSWORD")
    with pytest.raises(OptionsError, match=f"kafka.sasl.password: {tmp_path}/none: No such file"):
        resolve_secret("kafka.sasl.password", f"file:{tmp_path}/none")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("2 s", 2_000),
        ("1.5 Minutes", 90_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
    ],
)
def test_durations(text, milliseconds):
    assert duration_ms(text) == milliseconds


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text):
    try:
        assert duration_ms(text) >= 0
    except ValueError as error:
        assert "is not a duration" in str(error)  # noqa: PT017


def test_filters_read_the_same_however_they_were_given():
    assert TopicFilter(topics=("b", "a")).to_json() == '{"topics":["a","b"]}'
    assert TopicFilter(pattern="a|é").to_json() == '{"pattern":"a|é"}'
    assert parse(BOOTSTRAP | {"topics": "b, a,b"}).topic_filter.topics == ("b", "a")


def test_the_table_shows_every_option_once():
    lines = option_table(OPTIONS).splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == [option.name for option in OPTIONS]
    assert all(line.count("|") == 5 for line in lines)


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

"""How the text of an option becomes its value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.errors import OptionsError
from metadata_source.options import parse
from metadata_source.options.readers import duration_ms
from tests.support.given_options import BEARER, BOOTSTRAP, SASL, refused


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        (
            {"enrich": "elr, config"},
            (
                "enrich: 'config' is none of configs, reassignments, quorum, elr, fenced, groups, "
                "offsets, transactions, log_dirs: did you mean 'configs'?"
            ),
        ),
        (
            {"enrich": "elr,"},
            "enrich: '' is none of configs, reassignments, quorum, elr, fenced, groups",
        ),
        ({"enrich": "elr,ELR=5s"}, "enrich: elr is there twice"),
        ({"enrich": "elr="}, "enrich: elr: '' is not a duration such as 500ms, 30s or 5m"),
        ({"enrich": "elr=5"}, "enrich: elr: '5' is not a duration such as 500ms, 30s or 5m"),
        ({"enrich": "elr=10ms"}, "enrich: elr: '10ms' is not between 100 ms and 24 hours"),
        ({"enrich": "elr=25h"}, "enrich: elr: '25h' is not between 100 ms and 24 hours"),
        ({"enrich": "elr", "enrichTimeout": "5"}, "enrichTimeout: '5' is not a duration such as"),
        (
            {"enrich": "elr", "enrichTimeout": "0s"},
            "enrichTimeout: '0s' is not between 1 ms and 24",
        ),
        (
            {"clusters": '{"a": {"enrich": "elf"}}'},
            "clusters['a']: enrich: 'elf' is none of configs",
        ),
        (
            {"clusters": '{"a": {"pollInterval": "5"}}'},
            "clusters['a']: pollInterval: '5' is not a dura",
        ),
        ({"topics": "a,b*"}, "'b*' cannot be a topic's name; patterns go into topicsPattern"),
        ({"topicsPattern": "("}, "topicsPattern: '(' is not a regular expression of RE2"),
        ({"groupsPattern": "("}, "groupsPattern: '(' is not a regular expression of RE2"),
        ({"topicsPattern": "a)|(b"}, "topicsPattern: 'a)|(b' is not a regular expression of RE2"),
        ({"entity": "topic"}, "entity: 'topic' is none of polls, brokers, topics, partitions"),
        (
            {"doubtedClock": "2026-11-01T11:00:00Z"},
            "doubtedClock: '2026-11-01T11:00:00Z' is not two",
        ),
        (
            {"doubtedClock": "2026-11-01/2026-11-02"},
            "doubtedClock: '2026-11-01/2026-11-02' is not two",
        ),
        ({"newestStream": "now"}, "newestStream: 'now' is not the name of a stream, such as 2026"),
        ({"commitInterval": "10ms"}, "commitInterval: '10ms' is not between 100 ms and 24 hours"),
        *(
            ({"knownIds": text}, 'knownIds: not JSON such as {"alias": "id"}')
            for text in ("{", "[]", '{"a": 1}', "[" * 100000)
        ),
        ({"recorder": "a b"}, "recorder: 'a b' is not 1 to 64 letters, digits or '-'"),
        ({"pollInterval": "5"}, "pollInterval: '5' is not a duration such as 500ms, 30s or 5m"),
        ({"pollInterval": "10ms"}, "pollInterval: '10ms' is not between 100 ms and 24 hours"),
        ({"metadataVersion": "14"}, "metadataVersion: '14' is not a whole number from 0 to 13"),
        ({"maxResponseBytes": "1e6"}, "maxResponseBytes: '1e6' is not a whole number"),
        ({"kafka.bootstrap.servers": "one"}, "kafka.bootstrap.servers: 'one' is not host:port"),
        ({"kafka.bootstrap.servers": "one:0"}, "'one:0' is not host:port"),
        ({"kafka.bootstrap.servers": "one:65536"}, "'one:65536' is not host:port"),
        (
            {"kafka.bootstrap.servers": "one:1,u:hun,ter2@two:2"},
            "not host:port, comma-separated, without a user",
        ),
        ({"kafka.bootstrap.servers": "one:1,,two:2"}, "'' is not host:port"),
        ({"kafka.bootstrap.servers": ","}, "'' is not host:port"),
        ({"kafka.bootstrap.servers": "EXTERNAL://one:1"}, "'EXTERNAL://one:1' is not host:port"),
        ({"kafka.bootstrap.servers": "u:hunter2@one:1"}, "comma-separated, without a user in it"),
        ({"clusters": "{"}, "clusters: not JSON"),
        ({"clusters": "[" * 100000}, "clusters: nested too deeply"),
        ({"clusters": "[]"}, "clusters: not a JSON object"),
        ({"clusters": "{}"}, "clusters: no cluster in it"),
        ({"clusters": '{"a": {}, "a": {}}'}, "clusters: 'a' is there twice"),
        (
            {"kafka.security.protocol": "TLS"},
            "'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            SASL | {"kafka.sasl.mechanism": "NTLM"},
            (
                "'NTLM' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, "
                "GSSAPI"
            ),
        ),
        (BEARER | {"kafka.sasl.oauthbearer.method": "default"}, "'default' is none of oidc"),
        (
            BEARER | {"kafka.sasl.oauthbearer.extensions": "a=b,auth=c"},
            "extensions: not name=value",
        ),
        (BEARER | {"kafka.sasl.oauthbearer.extensions": "a=b,a=c"}, "extensions: not name=value"),
        (BEARER | {"kafka.sasl.oauthbearer.extensions": "a_b=c"}, "extensions: not name=value"),
        *(
            (
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
            SASL | {"kafka.ssl.endpoint.identification.algorithm": "http"},
            "'http' is none of https, none",
        ),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(given_options, said):
    assert said in refused(given_options)


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


def test_enrichments_have_beats():
    assert parse(BOOTSTRAP).polling["default"].enrich == {}
    assert parse(BOOTSTRAP | {"enrich": "configs=10m, ELR ,fenced = 2 s"}, "stream").polling[
        "default"
    ].enrich == {"configs": 600_000, "elr": 60_000, "fenced": 2_000}
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

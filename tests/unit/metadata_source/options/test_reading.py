"""Options checked and typed: what is one for all clusters, and how each is polled."""

import json

import pytest

from metadata_source.options import Polling, TopicFilter, parse
from tests.support.given_options import BOOTSTRAP, refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"enrichTimeout": "5s"},
            "enrichTimeout: without enrich, nothing is asked beside metadata",
        ),
        ({"topics": "a", "topicsPattern": "b"}, "topics: contradicts topicsPattern"),
        (
            {"commitInterval": "1s", "minCommitInterval": "2s"},
            "minCommitInterval: 2000 ms are more",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(given, said):
    assert said in refused(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enrich": "elr=5s"}, "enrich: 'elr=5s': a batch read asks once; leave the beat out"),
        ({"enrich": "elr", "entity": "topics"}, "enrich: contradicts entity topics"),
    ],
)
def test_what_a_batch_read_cannot_mean(given, said):
    assert said in refused(given, "batch")


@pytest.mark.parametrize(
    ("given", "said"), [({"entity": "topics"}, "entity: a stream reads polls")]
)
def test_what_a_stream_cannot_mean(given, said):
    assert said in refused(given, "stream")


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
    ) == (30_000, 60_000, 1_000)
    assert options.topic_filter.to_json() is None


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


def test_filters_read_the_same_however_they_were_given():
    assert TopicFilter(topics=("b", "a")).to_json() == '{"topics":["a","b"]}'
    assert TopicFilter(pattern="a|é").to_json() == '{"pattern":"a|é"}'
    assert parse(BOOTSTRAP | {"topics": "b, a,b"}).topic_filter.topics == ("b", "a")

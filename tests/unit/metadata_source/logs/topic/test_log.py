"""Where the reading of a topic's log begins, of brokers that speak bytes."""

import json
import logging
from contextlib import closing

import pytest

from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.topic.positions import LogPosition
from metadata_source.options import parse_group_log
from tests.support.group_log import log_of
from tests.support.log_brokers import TOPIC, UNKNOWN_TOPIC, Brokers


@pytest.mark.parametrize(
    ("options", "first"),
    [
        pytest.param({}, {0: 7, 1: 0, 2: 0}, id="earliest"),
        pytest.param({"startingOffsets": "latest"}, {0: 100, 1: 101, 2: 102}, id="latest"),
        pytest.param(
            {"startingOffsets": "latest", "resumeAt": json.dumps({"default": {"0": 3, "1": 40}})},
            # What was never read begins with its first record.
            {0: 3, 1: 40, 2: 0},
            id="where it was read up to",
        ),
        pytest.param(
            {"startingOffsets": "latest", "resumeAt": json.dumps({"other": {"0": 3}})},
            {0: 100, 1: 101, 2: 102},
            id="another log was",
        ),
    ],
)
def test_where_a_log_begins(
    brokers: Brokers, options: dict[str, str], first: dict[int, int]
) -> None:
    brokers.begins = {0: 7}
    (cluster,) = parse_group_log({"kafka.bootstrap.servers": brokers.nodes.servers}).clusters
    with closing(log_of(TOPIC, **options).watcher(cluster)) as watcher:
        seen = watcher.ask_extent(None)
        assert seen.first is not None
        assert seen.first.next == first
        # One that has a position has begun.
        assert watcher.ask_extent(LogPosition("id", None, {0: 50})).first is None
        brokers.leaders = {1: -1}
        assert watcher.ask_extent(None).first is None, "nobody knows where partition 1 begins"


def test_a_log_whose_place_was_lost_is_read_from_where_it_was_read_up_to(brokers: Brokers) -> None:
    """Though it is to begin at its end, and some of it is gone by now: that is a span, whose rows
    say so.
    """
    brokers.begins, brokers.partitions = {0: 7}, 4
    options = {
        "kafka.bootstrap.servers": brokers.nodes.servers,
        "resumeAt": json.dumps({"default": {"0": 3, "1": 40, "2": 105}}),
        "startingOffsets": "latest",
    }
    source = KafkaGroupLogSource(options)
    reader = source.streamReader(source.schema())
    start = reader.latestOffset(reader.initialOffset(), None)
    end = reader.latestOffset(start, None)
    (task,) = reader.partitions(start, end)
    found = {
        span.partition: (span.start, span.end, span.truncated) for span in task.spans["default"]
    }
    assert found == {
        0: (3, 100, False),
        1: (40, 101, False),
        2: (105, 102, True),
        3: (0, 103, False),
    }
    reader.stop()


def test_a_topic_that_is_not_there_is_said_once_and_once_when_it_is(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    (cluster,) = parse_group_log({"kafka.bootstrap.servers": brokers.nodes.servers}).clusters
    with closing(log_of(TOPIC).watcher(cluster)) as watcher, caplog.at_level(logging.WARNING):
        for is_told in (False, False, True, True):
            brokers.is_told, brokers.fetch_error = is_told, 0 if is_told else UNKNOWN_TOPIC
            watcher.ask_extent(None)
    assert [record.getMessage() for record in caplog.records] == [
        f"cluster default: topic {TOPIC} {says}"
        for says in (
            "is not there: nothing is read of it until it is (Kafka makes it for the first group)",
            "is there now, and is read",
        )
    ]

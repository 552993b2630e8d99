"""A stream of recorded polls in Spark: what Spark asks of the reader, and when. The spool is
written by the test.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import metadata_source
from metadata_source.recorder.news import News
from metadata_source.recorder.spool import Spool, Spooled
from tests.support.spools import opened, record
from tests.support.streams import Stream


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Spool]:
    spool = opened(tmp_path / "spool")
    yield spool
    spool.close()


ON_A_BUSY_MACHINE = 240.0
"""There the first batch takes a minute."""


@pytest.mark.timeout(900)
def test_a_batch_that_was_cut_off_has_the_same_polls_and_what_came_meanwhile_follows(
    spark: Any, tmp_path: Path, written: Spool
) -> None:
    metadata_source.register(spark)
    stream = Stream(spark, tmp_path)
    options = {
        "kafka__bootstrap__servers": "one:9092", "spool": str(written.folder), "recorder": "token",
        "commitInterval": "1h",
    }  # fmt: skip
    query = stream.start(**options)
    record(written, "east", 0, key=True, news=News.NEWS, rows=2)
    stream.wait_for(1, query, ON_A_BUSY_MACHINE)
    record(written, "east", 1)
    time.sleep(1)
    assert stream.committed() == 1, "without news nothing is committed"
    record(written, "east", 2, news=News.NEWS)
    stream.wait_for(2, query, ON_A_BUSY_MACHINE)
    query.stop()
    before = {row.n: row for row in stream.polls()}
    assert [(n, row.broker) for n, row in before.items()] == [
        (0, "east@0"),
        (1, "east@1"),
        (2, "east@2"),
    ]
    assert stream.rows().where("record = 'topic'").count() == 2
    stream.cut_off()
    record(written, "east", 3, news=News.NEWS)
    query = stream.start(**options)
    stream.wait_for(3, query, ON_A_BUSY_MACHINE)
    query.stop()
    after = {row.n: row for row in stream.polls()}
    assert {n: after[n] for n in before} == before
    assert [(n, row.broker) for n, row in after.items()] == [
        *((n, row.broker) for n, row in before.items()),
        (3, "east@3"),
    ]
    assert Spooled(written.folder).committed >= 3

"""Which live rows the replay of records needs: a table, of three topics on brokers of their own."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.options import TopicFilter
from tests.support.cluster_logs import START, RandomLog, record, rows_of, rows_of_snapshot, span
from tests.support.examples import examples
from tests.support.log_cases import (
    PARTITION,
    TOPIC_ID,
    Told,
    a_log,
    broker,
    change,
    config,
    was_read,
    whole,
)
from tests.support.log_rounds import NEVER_CHANGE, LogLake, narrow

U, V, NEW = b"\2" * 16, b"\3" * 16, b"\4" * 16


def partition(topic_id: bytes, number: int, *replicas: int) -> Told:
    told = {"replicas": replicas, "isr": replicas, "leader": replicas[0]}
    return record(3, **{**PARTITION, **told, "partition_id": number}, topic_id=topic_id)


def lake() -> LogLake:
    """Topic t on the brokers 1 and 2, u with two partitions on 3 and 4, v on 5; all have a
    setting.
    """
    more = [
        *(record(2, name="u", topic_id=U), partition(U, 0, 3), partition(U, 1, 4)),
        *(record(2, name="v", topic_id=V), partition(V, 0, 5)),
        *(broker(number) for number in range(1, 6)),
        *(config(2, topic, "1", "retention.ms") for topic in "tuv"),
        *(config(4, "", "1"), config(32, "u", "9", "consumer.session.timeout.ms")),
    ]
    return whole(a_log(*((each, 2) for each in more)))


KEPT = lake()
ALL = ("t/0", "u/0", "u/1", "v/0")


def left(*told: Told) -> dict[str, list[str]]:
    """What is left of partitions, of topics, and of settings of topics, for some records."""
    rows = narrow(KEPT.live, a_log(*((each, 3) for each in told))[3:])
    partitions, registrations, topics, settings, configs = (
        rows[f"silver.{table}"]
        for table in (
            *("partition_snapshots", "partition_registrations", "topic_snapshots"),
            *("topic_configs", "configs"),
        )
    )
    places = [f"{row['topic']}/{row['partition']}" for row in partitions]
    assert places == [f"{row['topic']}/{row['partition']}" for row in registrations]
    names = sorted(row["topic"] for row in topics)
    assert names == sorted(row["topic"] for row in settings)
    of_topics = sorted(row["resource_name"] for row in configs if row["resource_type"] == 2)
    assert sum(row["resource_type"] != 2 for row in configs) == 2, "others are few"
    assert len(rows["silver.broker_registrations"]) == 5
    return {"partitions": sorted(places), "topics": names, "configs": of_topics}


@pytest.mark.parametrize(
    ("told", "partitions", "topics"),
    [
        pytest.param([record(20)], [], "", id="a NoOpRecord"),
        pytest.param([change(isr=[1])], ["t/0"], "t", id="a change of a partition"),
        pytest.param([partition(U, 1, 3)], ["u/1"], "u", id="a partition that is told again"),
        pytest.param([partition(U, 2, 9)], [], "u", id="a new partition of a topic"),
        pytest.param([record(2, name="w", topic_id=NEW)], [], "", id="a new topic"),
        pytest.param(
            [record(2, name="u", topic_id=NEW)], ["u/0", "u/1"], "u", id="a topic's name again"
        ),
        pytest.param([record(9, topic_id=U)], ["u/0", "u/1"], "u", id="a topic is removed"),
        pytest.param([record(7, id=3, epoch=1)], ["u/0"], "u", id="a broker is fenced"),
        pytest.param([broker(4, 2)], ["u/1"], "u", id="a broker registers again"),
        pytest.param([broker(9)], [], "", id="a broker registers that has no replica"),
        pytest.param(
            [config(2, "u", "2", "retention.ms")], ["u/0", "u/1"], "u", id="a topic's setting"
        ),
        pytest.param([config(4, "", "2")], [], "tuv", id="a setting of brokers in effect"),
        pytest.param(
            [config(4, "", "2", "leader.replication.throttled.rate")],
            [],
            "",
            id="a setting of brokers that is in no topic's effect",
        ),
        pytest.param(
            [config(32, "u", "2", "consumer.session.timeout.ms")], [], "", id="a group's setting"
        ),
        pytest.param([record(28, topic_name="u")], ["u/0", "u/1"], "u", id="its ELR is cleared"),
        pytest.param(
            [change(isr=[1]), record(7, id=5, epoch=1)], ["t/0", "v/0"], "tv", id="two records"
        ),
    ],
)
def test_needed_are_the_things_that_records_may_change(
    told: list[Told], partitions: list[str], topics: str
) -> None:
    found = left(*told)
    assert found == {"partitions": partitions, "topics": [*topics], "configs": [*topics]}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(a_log((record(28, topic_name=""), 2))[3:], id="the ELR of all topics"),
        pytest.param(rows_of_snapshot([], 5, 1, START), id="a snapshot"),
        pytest.param([span("truncated", 9, 4)], id="a truncation"),
    ],
)
def test_all_may_change(rows: list[dict[str, object]]) -> None:
    live = KEPT.live
    assert narrow(live, rows) == {table: live[table] for table in live if table not in NEVER_CHANGE}


def test_what_was_read_and_what_was_lost_need_nothing() -> None:
    quiet = [was_read(a_log()), span("lost", 3, 9)]
    assert narrow(KEPT.live, quiet)["silver.partition_snapshots"] == []


def test_of_a_topic_that_polls_do_not_ask_for_all_partitions_are_needed_if_it_gets_one() -> None:
    """They alone tell its name, and how many there are."""
    asked_for_t = LogLake(topic_filter=TopicFilter(topics=("t",)).to_json())
    of_u = (record(2, name="u", topic_id=U), partition(U, 0, 3), partition(U, 1, 4))
    asked_for_t.take(a_log(*((each, 2) for each in of_u)))
    rows = narrow(asked_for_t.live, a_log((partition(U, 2, 9), 3))[3:])
    places = [(row["topic"], row["partition"]) for row in rows["silver.partition_registrations"]]
    assert sorted(places) == [("u", 0), ("u", 1)]
    rows = narrow(asked_for_t.live, a_log((partition(TOPIC_ID, 1, 9), 3))[3:])
    assert rows["silver.partition_registrations"] == []


@given(st.randoms(use_true_random=False), st.integers(1, 5))
@settings(max_examples=examples(4))
def test_rounds_that_are_given_what_they_need_make_the_rows_of_those_that_are_given_all(
    chance: random.Random, many: int
) -> None:
    rows = rows_of(RandomLog(chance).grow(12))
    some, every = LogLake(narrowed=True), LogLake()
    for end in range(many, len(rows) + many, many):
        for each in (some, every):
            since = each.state.next_offset if each.state else 0
            each.take([row for row in rows[:end] if row["offset"] >= since])
    assert some.rows == every.rows

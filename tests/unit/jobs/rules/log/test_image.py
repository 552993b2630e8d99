"""A cluster as its controllers' log has it: what each record changes, as a table, and random logs
against the replay of dumps that the truth of polls comes from.
"""

import random
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.ids import offset_of
from jobs.rules.log.image import Image
from tests.support.cluster_logs import START, Entry, RandomLog, in_effect, record, rows_of
from tests.support.dumped import printed, times
from tests.support.examples import examples
from tests.support.log_cases import (
    PARTITION,
    TOPIC_ID,
    Told,
    broker,
    change,
    config,
    directory,
    whole,
)
from truth.log import truth_of

OTHER_ID, NO_TOPIC = b"\3" * 16, b"\4" * 16
ID, ANOTHER = "AQEBAQEBAQEBAQEBAQEBAQ", "AwMDAwMDAwMDAwMDAwMDAw"
MINIMUM, UNCLEAN, RETENTION = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "retention.ms",
)
TOPIC, BROKER, GROUP = 2, 4, 32


def partition(number: int, topic_id: bytes = TOPIC_ID, **told: Any) -> Told:
    fields = {**PARTITION, "partition_id": number, "replicas": [1, 2], "isr": [1, 2], "leader": 1}
    return record(3, topic_id=topic_id, **{**fields, **told})


T, U = record(2, name="t", topic_id=TOPIC_ID), record(2, name="u", topic_id=OTHER_ID)
BEGUN = (
    *(broker(1), broker(2), broker(3)),
    *(T, partition(0), partition(1, replicas=[2, 3], isr=[2, 3], leader=2)),
    *(U, partition(0, OTHER_ID, replicas=[3], isr=[3], leader=3)),
)


def replayed(*told: Told) -> tuple[Image, set[Any]]:
    """The image after some records, and the things that the last one may have changed."""
    image, things = Image(), set[Any]()
    for row in rows_of([Entry(at, 1, START, *each) for at, each in enumerate(told)]):
        things = set(image.replay(row))
    return image, things


SETTINGS_OF_ALL = {("settings", ("t",)), ("settings", ("u",))}


@pytest.mark.parametrize(
    ("before", "told", "things"),
    [
        pytest.param((), record(12, name="f", feature_level=1), {("feature", ("f",))}, id="12"),
        pytest.param((), record(12, name="f", feature_level=0), {("feature", ("f",))}, id="12, 0"),
        pytest.param((), T, {("topic", ("t",)), ("settings", ("t",))}, id="a topic"),
        pytest.param((T,), partition(0), {("topic", ("t",)), ("partition", ("t", 0))}, id="3"),
        pytest.param((), partition(0), set(), id="a partition of a topic that is not there"),
        pytest.param(BEGUN, change(isr=[1]), {("partition", ("t", 0))}, id="5"),
        pytest.param((T,), change(isr=[1]), set(), id="a change of no partition"),
        pytest.param(
            BEGUN,
            record(7, id=2, epoch=1),
            {("broker", (2,)), ("liveness", ("t", 0)), ("liveness", ("t", 1))},
            id="a fenced broker changes the partitions that have a replica there",
        ),
        pytest.param(
            BEGUN,
            record(17, broker_id=3, broker_epoch=1, log_dirs=[directory(7)]),
            {("broker", (3,)), ("liveness", ("t", 1)), ("liveness", ("u", 0))},
            id="so does one that loses a directory",
        ),
        pytest.param(
            BEGUN,
            record(17, broker_id=2, broker_epoch=1, in_controlled_shutdown=1),
            {("broker", (2,))},
            id="one that begins a controlled shutdown does not",
        ),
        pytest.param(BEGUN, broker(2, epoch=9), {("broker", (2,))}, id="nor one that is back"),
        pytest.param(
            BEGUN,
            record(1, broker_id=1, broker_epoch=1),
            {("broker", (1,)), ("liveness", ("t", 0))},
            id="one that is unregistered does",
        ),
        pytest.param(
            BEGUN,
            config(TOPIC, "t", "2", MINIMUM),
            {("config", (TOPIC, "t", MINIMUM)), ("settings", ("t",))},
            id="a topic's setting",
        ),
        pytest.param(
            BEGUN,
            config(BROKER, "", "true", UNCLEAN),
            {("config", (BROKER, "", UNCLEAN)), *SETTINGS_OF_ALL},
            id="a setting of all brokers",
        ),
        pytest.param(
            BEGUN,
            config(BROKER, "1", "2", MINIMUM),
            {("config", (BROKER, "1", MINIMUM)), *SETTINGS_OF_ALL},
            id="a setting of one broker",
        ),
        pytest.param(
            BEGUN,
            config(TOPIC, "t", "9", RETENTION),
            {("config", (TOPIC, "t", RETENTION))},
            id="a setting that history keeps no value in effect of",
        ),
        pytest.param(
            BEGUN,
            config(GROUP, "t", "9", MINIMUM),
            {("config", (GROUP, "t", MINIMUM))},
            id="a setting of a group of the topic's name",
        ),
        pytest.param(
            (*BEGUN, config(TOPIC, "t", "9", RETENTION), config(TOPIC, "u", "9", RETENTION)),
            record(9, topic_id=TOPIC_ID),
            {
                ("config", (TOPIC, "t", RETENTION)),
                *(("settings", ("t",)), ("topic", ("t",))),
                *(("partition", ("t", 0)), ("partition", ("t", 1))),
            },
            id="a topic is removed with its partitions and its settings",
        ),
        pytest.param(BEGUN, record(9, topic_id=NO_TOPIC), set(), id="no topic is removed"),
        pytest.param(BEGUN, record(20), set(), id="a NoOpRecord"),
    ],
)
def test_a_record_may_change(before: tuple[Told, ...], told: Told, things: set[Any]) -> None:
    assert replayed(*before, told)[1] == things


def test_all_that_there_is_is_a_thing() -> None:
    image, _ = replayed(*BEGUN, record(12, name="f", feature_level=1), config(TOPIC, "t", "2"))
    assert {*image.things()} == {
        *(("broker", (number,)) for number in (1, 2, 3)),
        *(("feature", ("f",)), ("config", (TOPIC, "t", MINIMUM)), *SETTINGS_OF_ALL),
        *(("topic", ("t",)), ("topic", ("u",))),
        *(("partition", ("t", 0)), ("partition", ("t", 1)), ("partition", ("u", 0))),
    }


def test_a_partition_that_is_told_again_is_counted_once() -> None:
    image, _ = replayed(*BEGUN, partition(1, replicas=[1], isr=[1], leader=1))
    assert image.topics == {
        "t": {"topic_id": ID, "partition_count": 2},
        "u": {"topic_id": ANOTHER, "partition_count": 1},
    }
    assert image.partitions["t", 1]["replicas"] == [1]


def test_a_topic_that_is_made_again_has_nothing_of_the_one_before() -> None:
    again = record(2, name="t", topic_id=NO_TOPIC)
    image, _ = replayed(*BEGUN, config(TOPIC, "t", "2"), record(9, topic_id=TOPIC_ID), again)
    assert (image.topics["t"]["partition_count"], image.effective("t", MINIMUM)) == (0, None)
    assert {*image.partitions} == {("u", 0)}
    assert (TOPIC, "t") not in image.configs
    # Nor does a record of it change the new one.
    assert {*image.names.values()} == {"t", "u"}
    assert ID not in image.names


def test_level_0_of_a_feature_is_none() -> None:
    on, off = (record(12, name="f", feature_level=level) for level in (3, 0))
    assert replayed(on)[0].features == {"f": 3}
    assert replayed(on, off)[0].features == {}


def test_an_unset_value_is_gone_and_one_that_is_not_kept_is_set() -> None:
    secret = config(TOPIC, "t", "hunter2", "ssl.key.password")
    image, _ = replayed(T, config(TOPIC, "t", "2"), secret, config(TOPIC, "t", None))
    assert image.configs[TOPIC, "t"] == {"ssl.key.password": None}


@pytest.mark.parametrize(
    ("topic", "all_brokers", "one_broker", "files", "effective"),
    [
        (None, None, None, None, None),
        (None, None, None, "1", "1"),
        (None, "2", None, "1", "2"),
        ("3", "2", None, "1", "3"),
        ("3", "2", "4", "1", "3"),
        # While one broker has another value than the others, which of them counts depends on the
        # leader.
        (None, "2", "4", "1", None),
        (None, None, "4", "1", None),
    ],
)
def test_the_value_in_effect(
    topic: str | None,
    all_brokers: str | None,
    one_broker: str | None,
    files: str | None,
    effective: str | None,
) -> None:
    told = [(TOPIC, "t", topic), (BROKER, "", all_brokers), (BROKER, "1", one_broker)]
    image, _ = replayed(*BEGUN, *(config(*each) for each in told if each[2] is not None))
    image.static_configs = {} if files is None else {MINIMUM: files}
    assert image.effective("t", MINIMUM) == effective
    assert image.effective("t", UNCLEAN) is None


@pytest.mark.parametrize(("named", "cleared"), [("t", {"t"}), ("", {"t", "u"}), ("x", set())])
def test_the_elr_of_one_topic_is_cleared_or_that_of_all(named: str, cleared: set[str]) -> None:
    eligible = {"eligible_leader_replicas": [3]}
    before = (change(**eligible), record(5, partition_id=0, topic_id=OTHER_ID, **eligible))
    image, things = replayed(*BEGUN, *before, record(28, topic_name=named))
    assert things == {("partition", (topic, 0)) for topic in cleared}
    for topic in ("t", "u"):
        assert image.partitions[topic, 0]["elr"] == ([] if topic in cleared else [3])
    assert image.partitions["t", 1]["partition_epoch"] == 0, "it had no ELR"


# --- against the replay of dumps ---

OF_A_STATE = ("leader", "leader_epoch", "isr", "replicas")


@given(st.randoms(use_true_random=False))
@settings(max_examples=examples(6))
def test_states_are_those_of_the_replay_of_dumps(chance: random.Random) -> None:
    entries = RandomLog(chance).grow(chance.randint(1, 25))
    truth = truth_of(printed(entry) for entry in in_effect(entries) if not entry.is_control)
    lake, at = whole(rows_of(entries)), times(entries)
    found = lake.rows["silver.partition_snapshots"]
    assert {(row["topic_id"], row["partition"]) for row in found} == truth.partitions.keys()
    for (topic_id, number), states in truth.partitions.items():

        def of_partition(rows: list[dict[str, Any]], *, of: Any = (topic_id, number)) -> Any:
            mine = (row for row in rows if (row["topic_id"], row["partition"]) == of)
            return sorted(mine, key=lambda row: row["first_poll"])

        begins = [
            next(same)
            for _, same in groupby(states, lambda s: (s.leader, s.leader_epoch, s.isr, s.replicas))
        ]
        own = of_partition(found)
        changed = [next(same) for _, same in groupby(own, lambda row: [row[n] for n in OF_A_STATE])]
        assert [
            (offset_of(row["first_poll"]), row["valid_from"], *(row[n] for n in OF_A_STATE))
            for row in changed
        ] == [
            (s.offset, at[s.offset], s.leader, s.leader_epoch, list(s.isr), list(s.replicas))
            for s in begins
        ]
        removed_at = truth.ends_at((topic_id, number))
        assert (own[-1]["end_reason"] == "gone") == (removed_at is not None)
        # What changed nothing that clients see is counted.
        *_, last = of_partition(lake.rows["silver.partition_registrations"])
        assert last["is_recovering"] == states[-1].recovering
        first_epoch = next(
            e.values["partition_epoch"] for e in in_effect(entries) if e.offset == states[0].offset
        )
        assert last["partition_epoch"] == first_epoch + len(states) - 1

"""Clusters of other makers: answers as they are documented to send them, and what history makes of
these.

`metadata_source/kinds.py` says where each of them is documented.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_metadata_history.check import effective
from metadata_source.check import ClusterState, report
from metadata_source.poller import Poll
from metadata_source.protocol.metadata import ClusterMetadata
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer
from tests.support.large_rounds import Rounds
from tests.support.made_histories import P, Row, answered, history, named, polled, rows
from tests.support.silver_rounds import comparable


def cluster(made: Rounds) -> Row:
    (row,) = (row for row in rows(made, "silver.cluster_snapshots") if row["valid_to"] is None)
    return row


def check_no_isr_history(made: Rounds) -> None:
    for table in ("gold.isr_changes", "gold.isr_episodes", "gold.broker_incidents"):
        assert not rows(made, table), table


# --- Redpanda: every replica is in sync, none offline ---

REDPANDA_ID = "redpanda.6d7a4f0b"
HEALTHY = answered(named(1, 2, 3), REDPANDA_ID, t=[P(1, 4), P(2, 7), P(3, 2)])
BROKER_2_DOWN = answered(named(1, 3), REDPANDA_ID, t=[P(1, 4), P(3, 9), P(3, 2)])


def test_an_isr_that_redpanda_answers_is_no_history() -> None:
    made = history(
        "redpanda",
        polled(0, HEALTHY),
        polled(1, BROKER_2_DOWN),
        polled(2, BROKER_2_DOWN),
        polled(9, HEALTHY),
    )
    check_no_isr_history(made)
    partitions = rows(made, "silver.partition_snapshots")
    assert {(row["isr"], row["offline_replicas"]) for row in partitions} == {(None, None)}
    assert [row["leader"] for row in partitions if row["partition"] == 1] == [2, 3]
    of_cluster = cluster(made)
    assert of_cluster["kind"] == "redpanda"
    assert (
        "isr: Redpanda answers every replica as in sync, whatever its state"
        in of_cluster["not_meaningful"]
    )
    assert [
        row["broker_id"]
        for row in rows(made, "silver.broker_snapshots")
        if row["end_reason"] == "gone"
    ] == [2]


def test_leaders_of_redpanda_change_for_a_reason_that_nobody_knows() -> None:
    (change,) = rows(
        history("redpanda", polled(0, HEALTHY), polled(1, BROKER_2_DOWN)), "gold.leader_changes"
    )
    told = (
        "prev_leader",
        "leader",
        "reason",
        "unclean",
        "changes_min",
        "changes_max",
        "epoch_semantics",
    )
    assert [change[name] for name in told] == [2, 3, "unknown", None, 1, 2, "upper_bound"]


def test_the_first_replica_is_not_preferred_by_redpanda() -> None:
    balance = rows(history("redpanda", polled(0, HEALTHY)), "gold.leader_balance")
    assert {
        (row["broker_id"], row["leads"], row["preferred_for"], row["imbalance"]) for row in balance
    } == {(1, 1, 0, None), (2, 1, 0, None), (3, 1, 0, None)}


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("has_ids", [False, True])
def test_a_node_of_redpanda_that_is_cut_off_makes_no_history(has_ids: bool, each: bool) -> None:
    """It lists all nodes but itself, and names replicas at random with error 5 in epoch 0."""
    guesses = [
        answered(named(1, 3), REDPANDA_ID, t=[P(leader, 0, error=5) for leader in leaders])
        for leaders in ((3, 1, 1), (1, 3, 1), (3, 3, 1))
    ]
    answers = [
        polled(0, HEALTHY, 2),
        *(polled(n + 1, guess, 2) for n, guess in enumerate(guesses)),
        polled(4, HEALTHY, 1),
    ]
    for answer in () if has_ids else answers:
        answer.topics["t"]["topic_id"] = None
    made = history("redpanda", *answers, each=each)
    assert len(rows(made, "silver.topic_snapshots")) == 1
    assert not rows(made, "gold.leader_changes")
    assert [row["leader"] for row in rows(made, "silver.partition_snapshots")] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["redpanda", "kafka"])
def test_a_guessed_leader_is_not_told(kind: str) -> None:
    fresh = answered(named(1, 2, 3), REDPANDA_ID, t=[P(1, 0, error=5)])
    led = answered(named(1, 2, 3), REDPANDA_ID, t=[P(2, 1)])
    again = answered(named(1, 2, 3), REDPANDA_ID, t=[P(3, 1, error=5)])
    made = history(kind, polled(0, fresh), polled(1, led), polled(2, again))
    partitions = rows(made, "silver.partition_snapshots")
    assert [(row["error_code"], row["leader"], row["leader_epoch"]) for row in partitions] == [
        (5, None, None),
        (0, 2, 1),
        (5, 2, 1),
    ]
    assert not rows(made, "gold.leader_changes")


def test_as_soon_as_redpanda_is_declared_what_was_told_before_means_nothing_any_more() -> None:
    made = history("kafka", polled(0, HEALTHY), polled(1, BROKER_2_DOWN), polled(2, BROKER_2_DOWN))
    made.kind = "redpanda"
    made.catch_up(bronze_rows("c", [polled(3, BROKER_2_DOWN)]), 60)
    current = [row for row in rows(made, "silver.partition_snapshots") if row["valid_to"] is None]
    assert [(row["isr"], row["leader"]) for row in current] == [(None, 1), (None, 3), (None, 3)]


# --- WarpStream: each client is told an Agent of its own as the leader of everything ---


def led_by(agent: int, cluster_id: str = "vci_1") -> tuple[ClusterMetadata, int]:
    partition = P(agent, 0, (agent,))
    return answered(named(1, 2, 3), cluster_id, orders=[partition] * 3, clicks=[partition] * 2)


AGENTS = [polled(n, led_by(agent)) for n, agent in enumerate((1, 2, 3, 3, 1, 2))]


@pytest.mark.parametrize("each", [False, True])
def test_leaders_of_warpstream_are_no_history(each: bool) -> None:
    made = history("warpstream", *AGENTS, each=each)
    check_no_isr_history(made)
    assert not rows(made, "gold.leader_changes")
    assert not rows(made, "gold.leader_balance")
    partitions = rows(made, "silver.partition_snapshots")
    assert len(partitions) == 5
    told = ("leader", "leader_epoch", "replicas", "isr", "offline_replicas")
    assert {row[name] for row in partitions for name in told} == {None}


def test_counts_of_a_leader_that_moves_in_one_epoch_are_unreliable() -> None:
    some = answered(named(1, 2, 3), "id", t=[P(1, 4), P(2, 7), P(3, 2)])
    made = history(
        "kafka",
        polled(0, some),
        polled(1, answered(named(1, 2, 3), "id", t=[P(2, 4), P(2, 7), P(3, 2)])),
    )
    assert [row["epoch_semantics"] for row in rows(made, "gold.leader_changes")] == ["unreliable"]


# --- Confluent: observers are replicas that stay out of the ISR ---

OBSERVED = answered(named(1, 2, 3, 4), "id", t=[P(1, 1, (1, 2, 3, 4), (1, 2))])


def test_an_observer_is_not_out_of_the_isr() -> None:
    out = answered(named(1, 2, 3, 4), "id", t=[P(1, 1, (1, 2, 3, 4), (1,))])
    made = history(
        "confluent",
        *(polled(n, told) for n, told in enumerate((OBSERVED, OBSERVED, out, out, OBSERVED))),
    )
    (change, back) = rows(made, "gold.isr_changes")
    assert (change["broker_id"], change["change"], back["broker_id"], back["change"]) == (
        2,
        "left",
        2,
        "rejoined",
    )
    (episode,) = rows(made, "gold.isr_episodes")
    assert (episode["level"], episode["brokers_out"], episode["end_reason"]) == (
        "under_replicated",
        [2],
        None,
    )
    assert episode["ended_poll"] is not None


def test_a_replica_of_kafka_that_is_first_seen_out_of_the_isr_is_out() -> None:
    made = history("kafka", polled(0, OBSERVED))
    assert [(row["broker_id"], row["change"]) for row in rows(made, "gold.isr_changes")] == [
        (3, "initially_out"),
        (4, "initially_out"),
    ]


# --- AutoMQ: one replica, which a failover replaces ---


def automq(*partitions: P) -> tuple[ClusterMetadata, int]:
    return answered(named(1, 2), "id", t=list(partitions))


def test_a_failover_of_automq_is_no_reassignment_and_loses_nothing() -> None:
    down = P(-1, 5, (1,), offline=(1,), error=5)
    told = [automq(P(1, 4, (1,))), automq(down), automq(P(2, 6, (2,))), automq(P(1, 7, (1,)))]
    answers = [replace(polled(n, each), levels=(25, 0)) for n, each in enumerate(told)]
    made = history("automq", *answers)
    changes = [
        (row["leader"], row["reason"], row["unclean"]) for row in rows(made, "gold.leader_changes")
    ]
    assert changes == [(-1, "offline", None), (2, "recovery", None), (1, "unknown", None)]
    (episode,) = rows(made, "gold.isr_episodes")
    assert (episode["level"], episode["smallest_isr"], episode["brokers_out"]) == (
        "offline",
        None,
        [],
    )
    assert not rows(made, "gold.isr_changes")
    # The same of Kafka: an election that lost records, and a reassignment.
    as_kafka = rows(history("kafka", *answers), "gold.leader_changes")
    assert [(row["reason"], row["unclean"]) for row in as_kafka[1:]] == [
        ("recovery", "proven"),
        ("reassignment", "suspected"),
    ]


# --- Azure Event Hubs: one broker, no replicas ---

EVENT_HUBS = answered(
    {0: "ns.servicebus.windows.net"}, "ns.servicebus.windows.net", 5, t=[P(0, replicas=())] * 2
)


def test_event_hubs_have_topics_and_nothing_else() -> None:
    made = history("eventhubs", polled(0, EVENT_HUBS), polled(1, EVENT_HUBS))
    check_no_isr_history(made)
    assert not rows(made, "gold.leader_changes")
    assert not rows(made, "gold.leader_balance")
    assert [row["partition_count"] for row in rows(made, "silver.topic_snapshots")] == [2]
    assert {row["leader"] for row in rows(made, "silver.partition_snapshots")} == {None}


@pytest.mark.parametrize("each", [False, True])
def test_the_software_of_a_cluster_is_the_oldest_of_its_brokers(each: bool) -> None:
    def by(n: int, broker: int | None, highest: int | None, epoch: int) -> Answer:
        told = polled(n, answered(named(*range(1, 4)), "id", t=[P(1, epoch)]), broker)
        told.highest = highest
        return told

    steps = [
        (1, 14, 0),
        (2, 14, 1),
        (3, 14, 2),
        (1, 19, 3),
        (2, 19, 4),
        (None, 25, 5),
        (3, None, 6),
        (3, 19, 7),
    ]
    made = history("kafka", *(by(n, *step) for n, step in enumerate(steps)), each=each)
    found = [
        (row["metadata_version_highest"], row["first_poll"][-1])
        for row in rows(made, "silver.cluster_snapshots")
    ]
    assert found == [(14, "0"), (19, "7")]
    # One that is listed no more counts no more.
    gone = replace(
        polled(2, answered(named(1, 2), "id", t=[P(1, 2, isr=(1, 2), offline=(3,))]), 1), highest=19
    )
    made = history("kafka", by(0, 1, 19, 0), by(1, 3, 14, 1), gone, each=each)
    assert [row["metadata_version_highest"] for row in rows(made, "silver.cluster_snapshots")] == [
        19,
        14,
        19,
    ]


# --- another kind than before ---


def test_what_lasts_ends_as_unknown_where_the_isr_means_nothing_any_more() -> None:
    out = answered(named(1, 2, 3), "id", t=[P(1, 1, isr=(1, 2))])
    made = history("kafka", polled(0, out))
    made.kind = "redpanda"
    made.catch_up(bronze_rows("c", [polled(1, out), polled(2, out)]), 60)
    (change,) = rows(made, "gold.isr_changes")
    (episode,) = rows(made, "gold.isr_episodes")
    assert (change["end_reason"], episode["end_reason"]) == ("unknown", "unknown")
    assert {row["ended_poll"] for row in (change, episode)} == {polled(1, out).poll_id}
    (incident,) = rows(made, "gold.broker_incidents")
    assert incident["partitions_out"] == 0


def test_a_quiet_cluster_is_told_again_when_its_kind_changes_and_then_no_more() -> None:
    made = history("kafka", polled(0, HEALTHY))
    before = made.tables["silver.partition_snapshots"].copy()
    made.kind = "redpanda"
    made.catch_up(bronze_rows("c", [polled(1, HEALTHY)]), 60)
    assert len(made.tables["silver.partition_snapshots"]) == 2 * len(before)
    seen = made.seen.copy()
    made.catch_up(bronze_rows("c", [polled(2, HEALTHY)]), 60)
    assert comparable({"rows": rows(made, "silver.cluster_snapshots")})
    assert len(rows(made, "silver.cluster_snapshots")) == 2
    assert made.state.kind == "redpanda"
    assert len(made.seen) == len(seen) + 1, "the poll is noted"
    assert len(made.tables["silver.partition_snapshots"]) == 2 * len(before)


def test_look_at_redpanda() -> None:
    metadata, version = BROKER_2_DOWN
    poll = Poll(latency_ms=1.0, response_bytes=9, api_version=version, broker="broker-1:9092")
    declared = "\n".join(
        report(ClusterState(poll, metadata, pa.nulls(1, pa.int32()), effective, kind="redpanda"))
    )
    assert "warning" not in declared

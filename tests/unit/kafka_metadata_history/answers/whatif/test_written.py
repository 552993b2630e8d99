"""The effects of a loss, as people and programs read them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.whatif.losses import loss_of_nodes, loss_of_rack
from kafka_metadata_history.answers.whatif.read import Record
from kafka_metadata_history.answers.whatif.rules import what_if
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Loss, Partition, Quorum
from kafka_metadata_history.answers.whatif.written import as_json, as_text

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def partition(
    name: str, leader: int | None, isr: list[int], out: list[int], **more: object
) -> Partition:
    """Replicas are those in sync, in this order, and those out."""
    return Partition(
        name, 0, leader, [*isr, *out], isr, **({"min_isr": 1, "unclean": False} | more)
    )


ALL = (
    partition("__consumer_offsets", 3, [3, 1], []),
    partition("alone", 3, [3], []),
    partition("behind", 1, [1], [3]),
    partition("dead", -1, [3], [1]),
    partition("elr", 3, [3], [2], elr=[2]),
    partition("few", 1, [1, 3], [], min_isr=2),
    partition("last", 3, [3], [4]),
    partition("less", 1, [1, 3], [2, 4], min_isr=2),
    partition("little", 1, [3, 1], [2], min_isr=3),
    partition("moving", 2, [2, 3], [1], adding=[1], removing=[2]),
    partition("open", 3, [3], [2], min_isr=None),
    partition("other", 1, [1, 2], []),
    partition("unclean", 3, [3], [1], unclean=True),
    partition("unsure", 3, [3], [1], unclean=None),
)
CLUSTER = Cluster(
    "prod",
    {1: Broker("a"), 2: Broker("a"), 3: Broker("b"), 4: Broker("b", is_live=False)},
    ALL,
    Quorum(3, frozenset({3, 8, 9}), None),
    Levels(21, highest=21),
    has_elr=True,
)
RECORD = Record(
    CLUSTER,
    NOON,
    NOON + timedelta(seconds=30),
    (NOON - timedelta(seconds=5), NOON + timedelta(seconds=5)),
    ("reassignments", "the rest"),
)
NOW = NOON + timedelta(minutes=3)

TEXT = """\
prod at 2026-11-01 12:00:00Z without broker 3 and controller 3
The record reaches to 2026-11-01 12:00:30Z, 2 min ago.
Nobody looked from 2026-11-01 11:59:55Z to 2026-11-01 12:00:05Z.

replicas         of 13 of 14 partitions, not in the ISR of 1, where nothing changes
offline          2 new: last-0, open-0
                 1 at any loss, as RF is 1: alone-0
                 1 already so: dead-0
                 1 not known: unsure-0
under min ISR    1 new: less-0
                 1 at any loss, as RF <= min ISR: few-0
                 1 already so: little-0
loses data       1 by an unclean election: unclean-0
leaders          3 move: 2 to broker 1, 1 to broker 2
                 1 of them from the ELR: elr-0
coordinators     of groups: 1 of __consumer_offsets move
reassignments    1 cannot end: moving-0
not in sync      4 on broker 2 (catching up), 3 on broker 1 (catching up), 2 on broker 4 (down)
quorum           kept if 2 are caught up: 2 of 3 voters are left; another one becomes active
stop             3 of 7 leaderships move before it goes
kill             7 partitions without a leader until broker.session.timeout.ms has passed
                 3 may lose data when it comes back (ELR): alone-0, last-0, open-0
not known        reassignments; the rest
"""


def test_the_text_of_all_that_may_be_is_25_lines_at_most() -> None:
    found = what_if(CLUSTER, loss_of_nodes(CLUSTER, [3]))
    text = as_text(found, RECORD, NOW)
    assert text == TEXT
    # Coordinators of transactions and of share groups, and a broker that is down, are three more;
    # a min ISR that is not known is one.
    assert text.count("\n") + 2 <= 25


def test_a_loss_that_changes_nothing() -> None:
    alone = replace(CLUSTER, partitions=(partition("other", 1, [1, 2], []),), quorum=None)
    record = Record(alone, NOON, NOON)
    assert as_text(what_if(alone, Loss(frozenset({3}))), record, NOON).splitlines()[3:] == [
        "replicas         of 0 of 1 partition",
        "offline          none",
        "under min ISR    none",
        "leaders          0 move",
    ]


def test_a_rack_names_its_brokers_and_the_controllers_that_may_be_in_it() -> None:
    text = as_text(what_if(CLUSTER, loss_of_rack(CLUSTER, "b")), RECORD, NOW)
    first, *_ = text.splitlines()
    assert first.endswith("without rack b: brokers 3, 4 and controller 3")
    assert "down already     broker 4\n" in text
    assert "  racks of controllers 8, 9 are not known: `controllerRacks` of" in text


def test_a_quorum_that_is_lost() -> None:
    text = as_text(what_if(CLUSTER, loss_of_nodes(CLUSTER, [3, 8], controllers=True)), RECORD, NOW)
    assert "quorum           lost: 1 of 3 voters are left, 2 are needed\n" in text


def test_names_of_a_cluster_cannot_write_to_the_terminal() -> None:
    odd = replace(CLUSTER, partitions=(partition("a\x1b[2J", 3, [3], []),))
    assert "a\\x1b[2J-0" in as_text(what_if(odd, loss_of_nodes(odd, [3])), RECORD, NOW)


def test_programs_get_each_partition_that_changes() -> None:
    found = what_if(CLUSTER, loss_of_nodes(CLUSTER, [3]))
    text = as_json(found, RECORD, NOW)
    assert text.count("\n") == 1
    said = json.loads(text)
    assert {name: said[name] for name in ("cluster", "at", "until", "brokers", "controllers")} == {
        "cluster": "prod",
        "at": "2026-11-01T12:00:00.000Z",
        "until": "2026-11-01T12:00:30.000Z",
        "brokers": [3],
        "controllers": [3],
    }
    assert said["quorum"] == {
        "voters": [3, 8, 9],
        "left": [8, 9],
        "majority": 2,
        "is_lost": None,
        "was_lost": None,
        "elects": True,
    }
    topics = {each["topic"]: each for each in said["partitions"]}
    assert topics.keys() == {each.topic for each in ALL} - {"behind", "little", "other"}
    assert topics["elr"] == {
        "topic": "elr",
        "partition": 0,
        "leader": 3,
        "replicas": [3, 2],
        "isr": [3],
        "min_isr": 1,
        "new_leader": 2,
        "elected_from": "elr",
        "offline": False,
        "was_offline": False,
        "under_min_isr": False,
        "was_under_min_isr": False,
        "is_rf1": False,
        "is_rf_at_min_isr": False,
        "loses_data": False,
        "loses_data_after_kill": False,
        "reassignment_stalls": False,
    }
    assert said["not_known"] == ["reassignments", "the rest"]

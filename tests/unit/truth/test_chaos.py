"""The plan of what is done to a cluster."""

from itertools import pairwise

import pytest

from truth.scenarios import plan, topics

BROKERS = (1, 2, 3, 4)
SEEDS = range(3)
OUT = {"stop": "start", "kill": "start", "pause": "resume", "isolate": "rejoin"}
"""How a broker goes out, and how it comes back."""


def test_the_same_seed_gives_the_same_plan_and_another_another():
    assert plan(5, BROKERS, 120) == plan(5, BROKERS, 120)
    assert topics(5, BROKERS) == topics(5, BROKERS)
    assert len({plan(seed, BROKERS, 60) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_more_than_two_brokers_are_out_and_all_come_back(seed):
    out = {}
    for step in plan(seed, BROKERS, 200):
        for broker in step.brokers:
            if step.action in OUT:
                assert broker not in out
                out[broker] = step.action
            else:
                assert step.action == OUT[out.pop(broker)]
        assert len(out) <= 2
    assert not out


@pytest.mark.parametrize("seed", SEEDS)
def test_topics_and_partitions_are_there_when_something_is_done_to_them(seed):
    there = {topic.name: len(topic.replicas) for topic in topics(seed, BROKERS)}
    for step in plan(seed, BROKERS, 200):
        for topic in step.topics:
            if step.action == "delete":
                assert there.pop(topic.name) == len(topic.replicas)
            else:
                assert topic.name not in there
                there[topic.name] = len(topic.replicas)
        for topic, partition, replicas in step.moves:
            assert len(set(replicas)) == len(replicas)
            if step.action == "grow":
                assert partition == there[topic]
                there[topic] += 1
            else:
                assert partition < there[topic]
    assert len(there) == len(topics(seed, BROKERS))


@pytest.mark.parametrize("seed", SEEDS)
def test_controllers_fail_in_each_way_and_all_come_back(seed):
    steps = plan(seed, BROKERS, 150, of_controllers=True)
    out: dict[int, str] = {}
    lost = 0
    for step in steps:
        if step.action == "restore":
            lost += len(out) > 1
            out = {}
        for rank in step.controllers:
            # Which one a rank is may be another one once the active one is out.
            assert (rank in out) == (step.action == "resume")
            if step.action == "resume":
                del out[rank]
            else:
                out[rank] = step.action
        if len(out) > 1 and not step.controllers:
            assert step.action == "kill"  # which takes no quorum
    assert not out
    assert lost
    done = {(step.action, step.controllers) for step in steps if step.controllers}
    assert {("pause", (0,)), ("stop", (0,)), ("pause", (1, 2)), ("resume", (1, 2))} <= done


def test_brokers_are_cut_off_only_where_they_can_be():
    for seed in SEEDS:
        assert "isolate" not in {step.action for step in plan(seed, BROKERS, 200, isolates=False)}


@pytest.mark.parametrize(("seed", "seconds"), [(26502, 75), (19993, 40)])
def test_the_seeds_of_tests_have_something_of_everything(seed, seconds):
    steps = plan(seed, BROKERS, seconds)
    assert {step.action for step in steps} == {
        "stop", "kill", "pause", "resume", "start", "reassign", "cancel", "elect_preferred",
        "elect_unclean", "delete", "create", "grow", "isolate", "rejoin",
    }  # fmt: skip
    if seconds > 60:
        assert any(len(step.brokers) == 2 for step in steps)
        assert any(
            a.action == "pause" and b.action == "resume" and b.wait < 6 for a, b in pairwise(steps)
        )

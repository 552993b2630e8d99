"""Clusters answer in their manners. Nothing is timed."""

import pytest

from benchmarks.fleet.answers import ERRORS, HUGE, MANNERS, answering
from benchmarks.fleet.made_up import SICK, manners
from metadata_source.options import parse
from metadata_source.poller import Poller


@pytest.fixture(scope="module")
def servers():
    with answering(MANNERS) as found:
        yield dict(zip(MANNERS, found, strict=True))


@pytest.mark.parametrize("manner", [manner for manner in MANNERS if manner != "slow"])
def test_each_cluster_answers_in_its_manner(servers, manner):
    timeout = "1s" if manner == "silent" else "20s"
    options = parse({"kafka.bootstrap.servers": servers[manner], "requestTimeout": timeout})
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller:
        first = poller.poll()
        if manner not in ERRORS or manner == "throttling":
            assert first.error is None
        else:
            assert first.error_kind in ERRORS[manner]
        if manner == "huge":
            assert first.metadata.partitions.num_rows == HUGE[0] * HUGE[1]
        if manner == "falling":
            epochs = [
                each.metadata.partitions["leader_epoch"][0].as_py()
                for each in (first, poller.poll())
            ]
            assert epochs[1] < epochs[0]
        if manner == "moving":
            tables = [each.metadata.partitions.to_pydict() for each in (first, poller.poll())]
            leaders, epochs = (
                [table[name] for table in tables] for name in ("leader", "leader_epoch")
            )
            assert [old != new for old, new in zip(*leaders, strict=True)].count(True) == 1
            assert sum(epochs[1]) == sum(epochs[0]) + 1
        if manner == "throttling":
            assert poller.poll().error_kind in ERRORS[manner], (
                "it is left alone for longer than a poll may take"
            )


def test_a_fleet_has_every_sick_manner():
    behaving = manners(300)
    assert {manner: behaving.count(manner) for manner in SICK} == dict(SICK)

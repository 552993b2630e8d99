"""Brokers without KRaft: the controller alone knows of reassignments."""

import pytest

from kafka_metadata_history.command import exit_status
from local_cluster import LocalCluster
from local_cluster.probe import brokers_known_to
from metadata_source.enrichment import Rows, subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from tests.support.beside import ask_beside


@pytest.mark.soak
def test_each_broker_leads_to_the_controller_with_zookeeper(capsys):
    with LocalCluster(brokers=2, kafka_version="3.9.2", zookeeper=True) as cluster:
        controllers = []
        for server in cluster.bootstrap_servers.split(","):
            options = parse({"kafka.bootstrap.servers": server, "enrich": "reassignments"})
            with Poller(
                options.clusters[0], options.topic_filter, options.request_timeout_ms
            ) as poller:
                poll = poller.poll()
                assert (poll.error, poll.cluster_id) == (None, cluster.cluster_id)
                controllers.append(poll.active_controller_id)
                answered = ask_beside(poller, subject(("reassignments",), poll.metadata))
            assert (answered.outcomes, answered.rows) == (
                {"reassignments": "ok"},
                {"reassignments": Rows([], [])},
            )
        assert controllers in ([1, 1], [2, 2])
        assert exit_status(["check", "--bootstrap", cluster.bootstrap_servers]) == 0
        assert (
            "counts of leader changes: upper bounds: metadata.version is unknown"
            in capsys.readouterr().out
        )
        # The controller stops, and the other one takes over.
        cluster.stop(controllers[0])
        other = 3 - controllers[0]
        assert brokers_known_to(cluster.nodes[other].ports["PLAINTEXT"]) == {other}
        cluster.start(controllers[0])
        assert brokers_known_to(cluster.nodes[other].ports["PLAINTEXT"]) == {1, 2}

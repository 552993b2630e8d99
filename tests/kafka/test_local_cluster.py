import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

import local_cluster.cluster
from local_cluster import LocalCluster, LocalClusterError
from local_cluster.ports import HOST, ReservedPorts
from local_cluster.probe import ask, brokers_known_to, is_listening
from local_cluster.process import NodeProcess
from tests.support.documents import commands, document
from tests.support.repository import ROOT
from tests.support.waiting import eventually

# broker.session.timeout.ms, 9 s, and time for two busy cores.
FENCED_WITHIN = 30.0


def known_to(cluster: LocalCluster, node_id: int) -> set[int]:
    return set(brokers_known_to(cluster.nodes[node_id].ports["PLAINTEXT"]))


def finalized_features(cluster: LocalCluster) -> dict[str, int]:
    request = ApiVersionsRequest(
        version=3, client_software_name="tests", client_software_version="0"
    )
    answer = ask(cluster.nodes[1].ports["PLAINTEXT"], request, ApiVersionsResponse, 10.0)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


def test_brokers_and_racks_are_in_the_metadata(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    answer = admin.describe_cluster().result(10)
    assert answer.cluster_id == cluster.cluster_id
    assert {broker.id: broker.rack for broker in answer.nodes} == {1: "a", 2: "b", 3: "c"}
    addresses = sorted(f"{broker.host}:{broker.port}" for broker in answer.nodes)
    assert addresses == sorted(cluster.bootstrap_servers.split(","))


def test_a_stopped_broker_leaves_and_is_known_to_all_once_started(cluster):
    cluster.stop(2)
    assert cluster.state(2) == "down"
    eventually(lambda: known_to(cluster, 1) == known_to(cluster, 3) == {1, 3}, within=FENCED_WITHIN)
    cluster.start(2)
    assert [known_to(cluster, node_id) for node_id in (1, 2, 3)] == [{1, 2, 3}] * 3


@pytest.mark.soak
def test_a_killed_broker_is_missed_after_its_session(cluster):
    pid = cluster.pid(3)
    cluster.kill(3)
    assert not psutil.pid_exists(pid)
    eventually(lambda: known_to(cluster, 1) == {1, 2}, within=FENCED_WITHIN)
    cluster.start(3)
    assert known_to(cluster, 1) == {1, 2, 3}


@pytest.mark.soak
def test_a_paused_broker_answers_nothing_until_resumed(cluster):
    cluster.pause(2)
    try:
        assert cluster.state(2) == "paused"
        with pytest.raises(TimeoutError):
            known_to(cluster, 2)
        eventually(lambda: known_to(cluster, 1) == {1, 3}, within=FENCED_WITHIN)
    finally:
        cluster.resume(2)
    assert cluster.state(2) == "running"
    eventually(
        lambda: known_to(cluster, 1) == known_to(cluster, 2) == {1, 2, 3}, within=FENCED_WITHIN
    )


def test_commands_that_make_no_sense_are_refused(cluster):
    with pytest.raises(LocalClusterError, match=r"no node 9: there are 1, 2, 3"):
        cluster.stop(9)
    with pytest.raises(
        LocalClusterError, match=r"node 1 \(broker and controller\) is running already"
    ):
        cluster.start(1)
    with pytest.raises(LocalClusterError, match="no SASL_SSL listener"):
        _ = cluster.sasl_ssl


@pytest.mark.soak
def test_controllers_apart_and_a_feature_off(cluster):
    with LocalCluster(
        brokers=1, controllers=1, features={"eligible.leader.replicas.version": 0}
    ) as apart:
        assert known_to(apart, 1) == {1}
        assert "eligible.leader.replicas.version" not in finalized_features(apart)
        apart.stop(1)
        apart.kill(2)
        with pytest.raises(LocalClusterError, match=r"node 2 \(controller\) is not running"):
            apart.kill(2)
        apart.start(1, 2)
        assert known_to(apart, 1) == {1}
    assert finalized_features(cluster)["eligible.leader.replicas.version"] == 1


@pytest.mark.soak
def test_an_older_kafka_with_an_older_metadata_version():
    with LocalCluster(brokers=1, kafka_version="3.9.2", metadata_version="3.5-IV2") as older:
        # MetadataVersion.java: IBP_3_5_IV2(11, ...)
        assert finalized_features(older)["metadata.version"] == 11


def test_sasl_ssl_wants_the_password_the_authority_and_the_host_name(sasl_ssl_cluster):
    listener = sasl_ssl_cluster.sasl_ssl

    def brokers(password: str, timeout: float = 30.0) -> int:
        settings = {
            "bootstrap.servers": listener.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(listener.ca_file),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": password,
            "log_level": 0,
        }
        return len(AdminClient(settings).list_topics(timeout=timeout).brokers)

    def shake_hands(context: ssl.SSLContext, host: str) -> None:
        port = sasl_ssl_cluster.nodes[1].ports["SASL_SSL"]
        with socket.create_connection((HOST, port), timeout=10) as plain:
            context.wrap_socket(plain, server_hostname=host).close()

    assert brokers(listener.users["alice"]) == 1
    with pytest.raises(KafkaException):
        brokers("wrong", timeout=3.0)
    trusting = ssl.create_default_context(cafile=listener.ca_file)
    shake_hands(trusting, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(trusting, HOST)
    with pytest.raises(
        ssl.SSLCertVerificationError, match="self-signed certificate in certificate chain"
    ):
        shake_hands(ssl.create_default_context(), "localhost")


def test_a_broker_that_does_not_start_shows_the_end_of_its_log():
    with pytest.raises(
        LocalClusterError, match=r"node 1 .* ended while starting; its log ends with:\n"
    ) as failed:
        LocalCluster(brokers=1, properties={"metric.reporters": "no.such.Reporter"}).up()
    assert "ClassNotFoundException: no.such.Reporter" in str(failed.value)


def test_a_property_that_kafka_refuses_is_shown():
    with pytest.raises(LocalClusterError, match="cannot format the data of node 1") as failed:
        LocalCluster(brokers=1, properties={"min.insync.replicas": "many"}).up()
    assert "Invalid value many for configuration min.insync.replicas" in str(failed.value)


@pytest.mark.soak
def test_a_port_that_was_taken_meanwhile_is_replaced(monkeypatch):
    with socket.create_server((HOST, 0)) as taken:
        attempts = []

        class TakenOnce(ReservedPorts):
            def __init__(self, count: int) -> None:
                super().__init__(count)
                if not attempts:
                    self.numbers[0] = taken.getsockname()[1]
                attempts.append(self.numbers)

        monkeypatch.setattr(local_cluster.cluster, "ReservedPorts", TakenOnce)
        with LocalCluster(brokers=1) as replaced:
            assert known_to(replaced, 1) == {1}
        assert len(attempts) == 2


@pytest.mark.soak
def test_nothing_outlives_a_parent_killed_with_sigkill():
    script = """
import time
from local_cluster import LocalCluster
with LocalCluster(brokers=1, controllers=1) as cluster:
    cluster.pause(1)
    print(cluster.pid(1), cluster.pid(2), cluster.files(1).folder.parent, flush=True)
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            broker, controller, folder = parent.stdout.readline().split()
            assert psutil.pid_exists(int(broker))
            assert psutil.pid_exists(int(controller))
        finally:
            parent.kill()
    eventually(
        lambda: not psutil.pid_exists(int(broker)) and not psutil.pid_exists(int(controller)),
        within=10,
    )
    eventually(lambda: not Path(folder).exists(), within=10)


@pytest.mark.soak
def test_the_documented_lines(tmp_path):
    lines = commands("python -m local_cluster .*", document("local-cluster.md"))
    assert [line.split()[3] for line in lines] == [
        "up",
        *("stop", "start", "kill", "start"),
        "status",
        "down",
    ]
    try:
        for line in lines:
            done = subprocess.run(
                [sys.executable, *shlex.split(line)[1:]],
                cwd=tmp_path,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    finally:
        with suppress(LocalClusterError):
            LocalCluster.attach(tmp_path / ".local-cluster" / "cluster").down()


@pytest.mark.soak
def test_the_command_line_leaves_a_cluster_that_it_can_end(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "local_cluster", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        up = run("up", "--brokers", "1", "--racks", "x")
        assert up.returncode == 0, up.stderr
        (servers,) = (
            line for line in up.stdout.splitlines() if line.startswith("bootstrap servers: ")
        )
        port = int(servers.rpartition(":")[2])
        assert set(brokers_known_to(port)) == {1}
        assert up.stdout.endswith("stop it with: python -m local_cluster down\n")

        twice = run("up")
        assert twice.returncode == 1
        assert twice.stderr.startswith("a cluster is here already")

        assert "1 paused " in run("pause", "1").stdout
        # Stopping wakes it up first.
        assert "1 down " in run("stop", "1").stdout
        assert "1 running " in run("start", "1").stdout
        assert set(brokers_known_to(port)) == {1}
    finally:
        down = run("down")
    assert down.returncode == 0, down.stderr
    # A process counts as ended when its first thread has; its sockets close with the last.
    eventually(lambda: not is_listening(port), within=5)
    gone = run("status")
    assert gone.returncode == 1
    assert gone.stderr.startswith("no cluster in ")


@pytest.mark.parametrize(
    "killed_in",
    [
        pytest.param(
            "cluster.write_configuration", marks=pytest.mark.soak, id="with the folder made"
        ),
        pytest.param("process.NodeProcess.__init__", id="with a node started"),
    ],
)
def test_down_ends_what_a_killed_up_left(tmp_path, killed_in):
    """SIGKILL at the worst moments: before there is any node, and before anything could be noted of
    one.
    """
    killed = f"""
import os, signal
import local_cluster.cluster, local_cluster.process
from local_cluster.__main__ import main
local_cluster.{killed_in} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(["up", "--brokers", "1"])
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    up = subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, env=environment, check=False)
    assert up.returncode == -signal.SIGKILL
    config = str(tmp_path / ".local-cluster" / "cluster" / "node-1" / "server.properties")
    # A process that names the same file is not the node.
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", config]
    ) as foreign:
        try:
            down = subprocess.run(
                [sys.executable, "-m", "local_cluster", "down"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (down.returncode, down.stdout) == (
                0,
                "the cluster is down, its data are removed\n",
            ), down.stderr
            assert foreign.poll() is None
        finally:
            foreign.kill()
    assert NodeProcess.found("kafka.Kafka", config) is None
    assert not Path(config).parents[1].exists()

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from local_cluster import LocalCluster, LocalClusterError, ports, zookeeper
from local_cluster import __main__ as commands
from local_cluster.listeners import SASL_SSL, Listener, scram_over_tls
from local_cluster.nodes import (
    CONTROLLER,
    PLAINTEXT,
    Node,
    Roles,
    format_arguments,
    node_properties,
    render,
)
from local_cluster.nodes import plan_roles as plan
from local_cluster.ports import HOST, PORTS, ReservedPorts
from local_cluster.process import NodeProcess
from tests.support.repository import ROOT

FOLDER = Path("/data/node-1")


def test_brokers_are_controllers_unless_those_are_apart():
    assert plan(2, None, None) == [Roles(True, True, None), Roles(True, True, None)]
    assert plan(2, 1, None) == [
        Roles(True, False, None),
        Roles(True, False, None),
        Roles(False, True, None),
    ]


def test_racks_go_round_the_brokers_alone():
    assert [roles.rack for roles in plan(3, 2, ["a", "b"])] == ["a", "b", "a", None, None]


@pytest.mark.parametrize(
    ("brokers", "controllers", "named"), [(0, None, "brokers=0"), (1, 0, "controllers=0")]
)
def test_a_cluster_without_nodes_is_refused(brokers, controllers, named):
    with pytest.raises(LocalClusterError, match=named):
        LocalCluster(brokers=brokers, controllers=controllers)


def test_certificates_need_a_package_that_the_wheel_does_not_bring(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(commands, "HOME", tmp_path)
    monkeypatch.setattr(commands, "CLUSTER", tmp_path / "cluster")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert commands.main(["up", "--sasl-ssl"]) == 1
    assert capsys.readouterr().err == (
        "a SASL_SSL listener needs certificates: install the package cryptography, which makes "
        "them\n"
    )


def test_listeners_follow_from_the_roles():
    assert Roles(True, True, None).listeners([SASL_SSL]) == [PLAINTEXT, SASL_SSL, CONTROLLER]
    assert Roles(True, False, None).listeners([]) == [PLAINTEXT]
    assert Roles(False, True, None).listeners([SASL_SSL]) == [CONTROLLER]


def test_properties_of_a_combined_node():
    nodes = [
        Node(1, True, True, "a", {PLAINTEXT: 11, SASL_SSL: 12, CONTROLLER: 13}),
        Node(2, True, True, None, {PLAINTEXT: 21, SASL_SSL: 22, CONTROLLER: 23}),
    ]
    keystore = Path("/data/keystore.pem")
    listeners = [scram_over_tls(keystore)]
    properties = node_properties(
        nodes[0], nodes, FOLDER, extra={"num.io.threads": "7"}, listeners=listeners
    )
    assert properties["process.roles"] == "broker,controller"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:13,2@127.0.0.1:23"
    assert (
        properties["listeners"]
        == "PLAINTEXT://127.0.0.1:11,SASL_SSL://127.0.0.1:12,CONTROLLER://127.0.0.1:13"
    )
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:11,SASL_SSL://localhost:12"
    assert properties["broker.rack"] == "a"
    assert properties["offsets.topic.replication.factor"] == "2"
    assert properties["num.io.threads"] == "7"
    assert (
        properties["listener.security.protocol.map"]
        == "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL"
    )
    assert properties["listener.name.sasl_ssl.ssl.keystore.location"] == str(keystore)
    assert "broker.rack" not in node_properties(nodes[1], nodes, FOLDER, extra={})


def test_properties_of_a_controller_apart():
    nodes = [
        Node(1, True, False, None, {PLAINTEXT: 11}),
        Node(2, False, True, None, {CONTROLLER: 21}),
    ]
    listeners = [Listener("MUTUAL", "SSL", {"ssl.client.auth": "required"})]
    properties = node_properties(nodes[1], nodes, FOLDER, extra={}, listeners=listeners)
    assert properties["process.roles"] == "controller"
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:21"
    assert "advertised.listeners" not in properties
    assert not [key for key in properties if "mutual" in key]
    assert (
        node_properties(nodes[0], nodes, FOLDER, extra={})["controller.quorum.voters"]
        == "2@127.0.0.1:21"
    )


def test_brokers_with_zookeeper_know_no_quorum():
    broker, keeper = plan(1, None, ["a"], with_zookeeper=True)
    assert (broker, keeper) == (
        Roles(True, False, "a"),
        Roles(False, False, None, is_zookeeper=True),
    )
    assert (broker.listeners([]), keeper.listeners([])) == ([PLAINTEXT], [zookeeper.LISTENER])
    nodes = [
        Node(1, True, False, None, {PLAINTEXT: 11}),
        Node(2, False, False, None, {zookeeper.LISTENER: 21}, is_zookeeper=True),
    ]
    properties = node_properties(
        nodes[0], nodes, FOLDER, extra={"inter.broker.protocol.version": "2.6"}
    )
    assert (properties["broker.id"], properties["zookeeper.connect"]) == ("1", "127.0.0.1:21")
    assert properties["inter.broker.protocol.version"] == "2.6"
    assert (
        not {"process.roles", "node.id", "controller.quorum.voters", "controller.listener.names"}
        & properties.keys()
    )
    kept = node_properties(nodes[1], nodes, FOLDER, extra={"inter.broker.protocol.version": "2.6"})
    assert (kept["clientPort"], kept["dataDir"]) == ("21", str(FOLDER / "data"))
    assert not [name for name in kept if "broker" in name]
    assert [(node.main_class, node.description) for node in nodes] == [
        ("kafka.Kafka", "broker"),
        (zookeeper.MAIN_CLASS, "ZooKeeper"),
    ]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"controllers": 1}, "^controllers=1: with ZooKeeper "),
        ({"metadata_version": "3.5-IV2"}, "^zookeeper=True: metadata_version"),
        ({"features": {"kraft.version": 0}}, "^zookeeper=True: metadata_version, features"),
        ({"sasl_ssl": True}, "^zookeeper=True: metadata_version, features and sasl_ssl "),
    ],
)
def test_zookeeper_and_what_is_of_kraft_is_refused(more, named):
    with pytest.raises(LocalClusterError, match=named):
        LocalCluster(zookeeper=True, **more)


def test_properties_are_written_as_java_reads_them():
    assert render({"a": "x=y", "b": "C:\\é\n#"}) == "a=x=y\nb=C:\\\\\\u00e9\\n#\n"


def test_format_takes_versions_features_and_users():
    config = Path("server.properties")
    assert format_arguments("id", config, metadata_version=None, features={}, users={}) == [
        *("format", "--cluster-id", "id", "--config", "server.properties")
    ]
    arguments = format_arguments(
        "id",
        config,
        metadata_version="3.5-IV2",
        features={"kraft.version": 0},
        users={"alice": "secret"},
    )
    assert arguments[5:] == [
        *("--release-version", "3.5-IV2"),
        *("--feature", "kraft.version=0"),
        *("--add-scram", "SCRAM-SHA-512=[name=alice,password=secret]"),
    ]


def test_cluster_ids_are_never_taken_for_an_option():
    # One of 64 random ids would begin with a dash.
    ids = {LocalCluster().cluster_id for _ in range(1_000)}
    assert len(ids) == 1_000
    assert not [one for one in ids if one.startswith("-") or len(one) != 22]


def test_reserved_ports_are_held_until_released():
    with ReservedPorts(5) as held:
        assert len(set(held.numbers)) == 5
        assert set(held.numbers) <= set(PORTS)
        for port in held.numbers:
            with pytest.raises(OSError, match="Address already in use"):
                socket.create_server((HOST, port))
    for port in held.numbers:
        socket.create_server((HOST, port)).close()


def test_too_few_free_ports_are_one_clear_line(monkeypatch):
    monkeypatch.setattr(ports, "PORTS", PORTS[:1])
    with pytest.raises(
        LocalClusterError, match=r"fewer than 2 free ports on 127\.0\.0\.1 in 15000-15000"
    ):
        ReservedPorts(2)


def test_states_of_a_process(monkeypatch):
    with subprocess.Popen(["sleep", "600"]) as started:
        process = NodeProcess(psutil.Process(started.pid))
        assert process.state == "running"
        started.send_signal(signal.SIGSTOP)
        while process.state != "paused":
            time.sleep(0.01)
        started.kill()
        while process.state != "down":
            time.sleep(0.01)
    assert not process.is_running
    # Gone between two looks at it.
    monkeypatch.setattr(process.java, "is_running", lambda: True)
    assert process.state == "down"


def test_a_process_is_found_by_what_it_runs():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        subprocess.Popen([*command, "kafka.Kafka", "/one"]) as node,
        subprocess.Popen([*command, "/one"]) as other,
    ):
        try:
            assert NodeProcess.found("kafka.Kafka", "/one").java.pid == node.pid
            assert NodeProcess.found("kafka.Kafka", "/two") is None
        finally:
            node.kill()
            other.kill()


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("victim", ["parent", "supervisor"])
def test_a_supervised_process_ends_with_its_parent_and_its_supervisor(tmp_path, victim):
    folder = tmp_path / "data"
    folder.mkdir()
    # Started from a thread that has ended: the parent is the process, not the thread.
    script = f"""
import threading, time
from pathlib import Path
from local_cluster.process import NodeProcess
started = []
def start():
    started.append(NodeProcess.supervised(
        ["sleep", "600"], Path({str(tmp_path / "log")!r}), remove=Path({str(folder)!r})
    ))
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(0.5)
print(started[0].java.pid, started[0].java.ppid(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            child, supervisor = map(int, parent.stdout.readline().split())
            os.kill(child, signal.SIGSTOP)
            os.kill(parent.pid if victim == "parent" else supervisor, signal.SIGKILL)
            deadline = time.monotonic() + 10
            while is_alive(child):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            if victim == "parent":
                while folder.exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
        finally:
            parent.kill()

"""A local cluster to play with: `python -m local_cluster up`, and `--help` for the rest.

It lives in `.local-cluster/` of the working directory.
"""

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafka_metadata_history.jars.errors import JarsError
from local_cluster.cluster import KAFKA_VERSION, LocalCluster
from local_cluster.errors import LocalClusterError

HOME = Path(".local-cluster").absolute()
CLUSTER = HOME / "cluster"

NODE_COMMANDS = {
    "stop": "stop nodes the controlled way (SIGTERM), one after the other",
    "kill": "end nodes with SIGKILL",
    "start": "start nodes again, and wait until the brokers know them",
    "pause": "hold nodes (SIGSTOP)",
    "resume": "let paused nodes run on (SIGCONT)",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, or 1 with the reason on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        with _alone():
            if arguments.command == "up":
                _up(arguments)
            elif arguments.command == "down":
                _down()
            elif arguments.command == "status":
                _print_status(LocalCluster.attach(CLUSTER))
            else:
                cluster = LocalCluster.attach(CLUSTER)
                _tell_nodes(cluster, arguments.command, arguments.ids)
                _print_status(cluster)
    except (LocalClusterError, JarsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description="A real Kafka on this machine."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a cluster that lives on until `down`")
    up.add_argument("--brokers", type=int, default=3, metavar="N", help="default %(default)s")
    up.add_argument(
        "--controllers",
        type=int,
        metavar="N",
        help="as nodes of their own; by default within the brokers",
    )
    up.add_argument(
        "--kafka-version", default=KAFKA_VERSION, metavar="X.Y.Z", help="default %(default)s"
    )
    up.add_argument(
        "--metadata-version", metavar="VERSION", help="such as 3.5-IV2; default: Kafka's newest"
    )
    up.add_argument(
        "--racks",
        type=lambda text: text.split(","),
        metavar="A,B,..",
        help="given to the brokers in turn",
    )
    up.add_argument(
        "--sasl-ssl",
        action="store_true",
        help="a second listener: TLS and SCRAM-SHA-512; needs the package cryptography",
    )
    up.add_argument(
        "--zookeeper",
        action="store_true",
        help="brokers with ZooKeeper, without KRaft (Kafka up to 3.9)",
    )
    commands.add_parser("down", help="end all nodes and remove their data")
    commands.add_parser("status", help="show the nodes")
    for name, what in NODE_COMMANDS.items():
        commands.add_parser(name, help=what).add_argument("ids", type=int, nargs="+", metavar="ID")
    return parser


def _up(arguments: argparse.Namespace) -> None:
    if CLUSTER.exists():
        raise LocalClusterError(
            f"a cluster is here already: `python -m {__package__} status` shows it, `down` ends it"
        )
    cluster = LocalCluster(
        brokers=arguments.brokers,
        controllers=arguments.controllers,
        kafka_version=arguments.kafka_version,
        metadata_version=arguments.metadata_version,
        racks=arguments.racks,
        sasl_ssl=arguments.sasl_ssl,
        zookeeper=arguments.zookeeper,
        detached=CLUSTER,
    )
    cluster.up()
    _print_status(cluster)
    print(f"stop it with: python -m {__package__} down")


def _down() -> None:
    if not CLUSTER.exists():
        print("no cluster is up")
        return
    LocalCluster.attach(CLUSTER).down()
    print("the cluster is down, its data are removed")


def _tell_nodes(cluster: LocalCluster, command: str, node_ids: Sequence[int]) -> None:
    if command == "start":
        cluster.start(*node_ids)
        return
    for node_id in node_ids:
        getattr(cluster, command)(node_id)


def _print_status(cluster: LocalCluster) -> None:
    print(f"Kafka {cluster.kafka_version}, cluster id {cluster.cluster_id}")
    for node_id, node in cluster.nodes.items():
        listeners = " ".join(f"{name}={port}" for name, port in node.ports.items())
        rack = f" rack={node.rack}" if node.rack is not None else ""
        print(
            f"  {node_id} {cluster.state(node_id):<8}{node.description}{rack} {listeners}  "
            f"{cluster.files(node_id).log}"
        )
    print(f"bootstrap servers: {cluster.bootstrap_servers}")
    if cluster.users:
        sasl_ssl = cluster.sasl_ssl
        print(
            f"SASL_SSL: {sasl_ssl.bootstrap_servers}, SCRAM-SHA-512, certificate authority "
            f"{sasl_ssl.ca_file}"
        )
        for name, password in sasl_ssl.users.items():
            print(f"  user {name}, password {password}")


@contextmanager
def _alone() -> Iterator[None]:
    """One command at a time."""
    HOME.mkdir(exist_ok=True)
    with (HOME / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())

"""franz-go's fake of Kafka (kfake/main.go), checked as it is and with odd answers: a server of
another maker.

It is a Go module: where there is no Go it is not tried, and that is said.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_metadata_history.check import checked, lines
from metadata_source.options import parse

NAME: Final = "kfake"
_SOURCE: Final = Path(__file__).parent / NAME
_USUAL_PLACE: Final = "/usr/local/go/bin/go"
_BUILD_S: Final = 600

ODD: Final = {
    "usual": "polled in ",
    "metadata no_cluster_id": "failed: no_cluster_id: ",
    "metadata empty_cluster_id": "failed: no_cluster_id: ",
    "metadata no_brokers": "failed: no_brokers: ",
    "metadata broker_twice": "it lists broker 0 twice",
    "metadata negative_broker": "it lists a broker with the id -1",
    "metadata no_host": "broker 1 has no host",
    "metadata no_port": "broker 1 has the port 0",
    "metadata large_port": "broker 1 has the port 700000",
    "metadata topic_twice": "it lists topic orders twice",
    "metadata no_topic_name": "topic 1 of 1 has no name",
    "metadata empty_topic_name": "topic 1 of 1 has an empty name",
    "metadata partition_twice": "it lists topic orders, partition 0 twice",
    "metadata negative_partition": "topic orders has a partition -1",
    "metadata negative_replica": "a broker is listed twice, or has a negative id",
    "metadata error": "failed: broker_error: ",
    "configs 41": "not known: topics answered with error 41 (NotControllerError): 1",
    "configs 7": "not known: topics answered with error 7 (RequestTimedOutError): 1",
    "configs -1": "not known: topics answered with error -1 (UnknownError): 1",
    "configs 3": "unknown for 4 partitions: their topics are gone",
    "configs 29": "missing: DESCRIBE_CONFIGS on 1 of 1 topics",
}
"""Line to kfake -> what `check` says then. No other line names a missing permission."""


def go() -> str | None:
    """Return where Go is; None if it is not on this machine."""
    return shutil.which("go") or shutil.which(_USUAL_PLACE)


def faults(go_command: str, folder: Path) -> Iterator[str]:
    """Yield what `check` says otherwise than in ODD.

    Raises CalledProcessError if kfake cannot be built.
    """
    with _kfake(go_command, folder) as (process, servers):
        assert process.stdin is not None  # noqa: S101 - a pipe
        assert process.stdout is not None  # noqa: S101
        for line, says in ODD.items():
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            if process.stdout.readline() != "ok\n":
                yield f"{line}: kfake has ended"
                return
            options = parse(
                {"clusters": json.dumps({NAME: {"kafka.bootstrap.servers": servers}})}, "stream"
            )
            (found,) = checked(options, reads_log=False)
            told = "\n".join(lines(found, whole=True))
            if says not in told:
                yield f"{line}: {says!r} is not in {told!r}"
            elif "missing:" in told and "missing:" not in says:
                yield f"{line}: a permission is called missing: {told!r}"


@contextmanager
def _kfake(go_command: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Build kfake and run it; yields the process and its bootstrap servers. go.sum has the
    checksums of all modules.
    """
    program = folder / NAME
    build = [go_command, "build", "-mod=readonly", "-o", str(program), "."]
    subprocess.run(build, cwd=_SOURCE, check=True, timeout=_BUILD_S)
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()

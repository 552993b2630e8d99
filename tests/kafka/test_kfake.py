"""franz-go's fake of Kafka (kfake/main.go), checked as it is and with odd answers: a server of
another maker.

It is a Go module: where there is no Go it is not tried.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from kafka_metadata_history.check import checked, lines
from metadata_source.options import parse
from tests.support.go_programs import built

SOURCE: Final = Path(__file__).parent / "kfake"

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


Told = Callable[[str], str]
"""Line to kfake -> what `check` says then."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Build kfake and run it."""
    program = built(SOURCE, tmp_path_factory.mktemp("kfake"))
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None
        clusters = {"kfake": {"kafka.bootstrap.servers": answers.readline().strip()}}
        options = parse({"clusters": json.dumps(clusters)}, "stream")

        def tell(line: str) -> str:
            asked.write(f"{line}\n")
            asked.flush()
            assert answers.readline() == "ok\n"
            (found,) = checked(options, read=())
            return "\n".join(lines(found, whole=True))

        yield tell
        process.kill()


@pytest.mark.soak
@pytest.mark.parametrize("line", ODD)
def test_each_odd_answer_is_one_line_of_check(told: Told, line: str) -> None:
    says = told(line)
    assert ODD[line] in says
    assert "missing:" not in says or "missing:" in ODD[line]

"""The command may-stop asks brokers that speak bytes."""

import json
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history import may_stop
from kafka_metadata_history.command import FAILED, USAGE, exit_status
from metadata_source.enrichment import VOTER_CAUGHT_UP_MS
from tests.support.byte_cluster import ByteCluster
from tests.support.documents import commands
from tests.support.printed import printed_by

ORDERS = (5, (0, 1, 2))
"""Leader epoch and ISR, of which min.insync.replicas asks for two."""


@pytest.fixture
def cluster() -> Iterator[ByteCluster]:
    with ByteCluster(orders=[ORDERS]) as started:
        for each in started.brokers:
            each.voters = {0: 0, 1: 400, 2: 300}
        yield started


@pytest.fixture
def config(cluster: ByteCluster, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    clusters = f"clusters: {{prod: {{kafka.bootstrap.servers: '{cluster.servers()}'}}}}"
    file.write_text(f"lake: {tmp_path}/lake\n{clusters}\n")
    return str(file)


asked = partial(printed_by, "may-stop")


def test_it_is_safe(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(config, "1", capsys=capsys) == (0, "prod: broker 1 may stop\n", [])


def test_it_is_not_safe(
    cluster: ByteCluster, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.set(cluster.made(orders=[(6, (0, 1))]))
    found, answer, _ = asked(config, "1", "--format", "json", capsys=capsys)
    said = json.loads(answer)
    assert (found, said["verdict"]) == (3, "not_safe")
    assert said["reasons"][0]["reason"] == "new-under-min-isr"
    assert said["reasons"][0]["partitions"] == ["orders-0"]
    # The one that is out may stop.
    assert asked(config, "2", capsys=capsys)[0] == 0


def test_an_older_answer_of_one_broker_counts_for_nothing(
    cluster: ByteCluster, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for lagging in (0, 1):
        cluster.set(cluster.made(orders=[(6, (0, 2))]))
        cluster.set(cluster.made(orders=[ORDERS]), lagging)
        assert asked(config, "0", capsys=capsys)[0] == 3


def test_voters_that_are_behind(
    cluster: ByteCluster, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in cluster.brokers:
        each.voters = {0: 0, 1: 0, 2: VOTER_CAUGHT_UP_MS + 1}
    found, answer, _ = asked(config, "1", capsys=capsys)
    assert (found, "too few controllers" in answer) == (3, True)
    for each in cluster.brokers:
        each.voters = {0: 0, 1: 0, 2: VOTER_CAUGHT_UP_MS}
    assert asked(config, "1", capsys=capsys)[0] == 0


@pytest.mark.parametrize(
    ("behaves", "says"),
    [
        ({"voters": None}, "quorum: not_supported"),
        ({"error_code": 31}, "reassignments: not_allowed"),
        ({"hangs_on": frozenset({"DescribeConfigsRequest"})}, "configs: failed: "),
    ],
)
def test_a_lacking_answer_is_not_known(
    cluster: ByteCluster,
    config: str,
    behaves: dict[str, object],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for each in cluster.brokers:
        vars(each).update(behaves)
    with Path(config).open("a") as file:
        file.write("poll: {requestTimeout: 500ms}\n")
    found, answer, _ = asked(config, "1", capsys=capsys)
    assert (found, says in answer) == (4, True), answer


def test_no_topic_is_not_known(
    cluster: ByteCluster, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.set(cluster.made())
    assert asked(config, "1", capsys=capsys)[0] == 4


def test_it_waits_until_it_is_safe(
    cluster: ByteCluster,
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.set(cluster.made(orders=[(6, (0, 1))]))
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            cluster.set(cluster.made(orders=[(7, (0, 1, 2))]))

    monkeypatch.setattr(may_stop.time, "sleep", sleep)
    assert asked(config, "1", "--wait", "10m", capsys=capsys)[0] == 0
    assert pauses == [may_stop.PAUSE_S] * 2


def test_the_time_is_over(
    cluster: ByteCluster, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.set(cluster.made(orders=[(6, (0, 1))]))
    found, answer, _ = asked(config, "1", "--wait", "200ms", capsys=capsys)
    assert (found, answer.splitlines()[0]) == (3, "prod: broker 1 may not stop")


def test_a_cluster_that_cannot_be_reached_is_not_known(
    cluster: ByteCluster, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in range(3):
        cluster.stop(each)
    with Path(config).open("a") as file:
        file.write("poll: {requestTimeout: 500ms}\n")
    found, answer, _ = asked(config, "1", capsys=capsys)
    assert found == 4
    assert answer.startswith("prod: nobody knows whether broker 1 may stop\n  not known   ")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ((), USAGE, "Missing argument 'BROKER'."),
        (("one",), USAGE, "'one' is not a valid integer"),
        (("9",), USAGE, "there is no broker 9 in prod; brokers are 0, 1, 2"),
        (("1", "--accept", "rf2"), USAGE, "rf2: did you mean rf1?"),
        (("1", "--wait", "long"), USAGE, "'long' is not a duration"),
        (("1", "--cluster", "test"), USAGE, "--cluster test: the configuration has prod"),
        (("1", "--config", "none.yaml"), FAILED, "none.yaml"),
    ],
)
def test_what_is_wrong_is_one_line(
    config: str,
    arguments: tuple[str, ...],
    status: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, answer, lines = asked(config, *arguments, capsys=capsys)
    assert (found, answer) == (status, "")
    assert says in lines[-1]


LINES = dict.fromkeys(commands("kafka-metadata-history may-stop .*"))


def test_the_lines_of_the_documents(
    cluster: ByteCluster,
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    assert len(LINES) >= 4
    for line in LINES:
        words = shlex.split(line.replace("localhost:9092", cluster.servers()))[1:]
        assert exit_status(words) == 0
        answer = capsys.readouterr().out
        assert ("verdict" if "json" in line else "may stop\n") in answer

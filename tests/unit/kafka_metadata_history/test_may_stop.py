"""The command may-stop asks brokers that speak bytes."""

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_metadata_history import may_stop
from kafka_metadata_history.command import FAILED, USAGE, exit_status
from kafka_metadata_history.opened import Opened
from metadata_source.quorum import VOTER_CAUGHT_UP_MS
from schemas import bronze, silver
from schemas.in_duckdb import in_duckdb
from schemas.lake import VIEWS, Lake
from tests.support.byte_cluster import ByteCluster
from tests.support.documents import commands
from tests.support.duckdb_lake import duckdb_lake
from tests.support.incident import CLUSTER, NOON, STREAM, at
from tests.support.known_rows import known_rows
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


class Clock(datetime):
    """Five seconds after the end of the known incident, unless a test sets it."""

    seconds: float = 125

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        assert tz is UTC
        return NOON + timedelta(seconds=cls.seconds)


@pytest.fixture
def recorded_at(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[float, float], None]]:
    """Sets the time, and when questions were answered last."""
    with Path(config).open("a") as file:
        file.write("poll: {enrich: {configs: 20s, reassignments: 20s, elr: 20s}}\n")
    asked_at = {"seconds": 110.0}

    def lake(_: Lake, **__: object) -> Opened:
        rows = {table: [*of] for table, of in known_rows().items()}
        began = {"first_poll": f"{STREAM}/{0:012d}", "valid_from": at(0)}
        quorum = {"controller_id": 9, "quorum_epoch": 4, "voters": [9]}
        rows[silver.QUORUM] = [CLUSTER | began | quorum]
        settings = {"topic": "__consumer_offsets", "min_insync_replicas": 1}
        rows[silver.TOPIC_CONFIGS].append(CLUSTER | began | settings)
        answer = {"cluster": "prod", "record": "answer", "outcome": "ok"}
        when = {
            "scheduled_at": at(asked_at["seconds"]),
            "answered_at": at(asked_at["seconds"]),
            "day": NOON.date(),
        }
        rows[bronze.METADATA_POLLS] = [
            answer | when | {"kind": kind, "poll_id": f"{STREAM}/{n:012d}"}
            for n, kind in enumerate(("configs", "reassignments"))
        ]
        database = kept.enter_context(duckdb_lake(rows, VIEWS))

        def ask(sql: str) -> pa.Table:
            return database.sql(in_duckdb(sql)).to_arrow_table()

        return Opened(ask, ask, "DuckDB")

    def set_times(now: float, answered: float) -> None:
        monkeypatch.setattr(Clock, "seconds", now)
        asked_at["seconds"] = answered

    monkeypatch.setattr(may_stop, "datetime", Clock)
    monkeypatch.setattr(may_stop, "opened", lake)
    with ExitStack() as kept:
        yield set_times


RecordedAt = Callable[[float, float], None]


def test_by_the_record(
    cluster: ByteCluster,
    config: str,
    recorded_at: RecordedAt,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for each in range(3):
        cluster.stop(each)
    assert asked(config, "1", "--by-record", capsys=capsys) == (0, "prod: broker 1 may stop\n", [])
    found, answer, _ = asked(config, "3", "--by-record", capsys=capsys)
    assert (found, "logs-0 have one replica" in answer) == (3, True), answer
    assert asked(config, "3", "--by-record", "--accept", "rf1", capsys=capsys)[0] == 0
    assert asked(config, "9", "--by-record", capsys=capsys)[0] == USAGE
    assert asked(config, "1", "--by-record", "--cluster", "x", capsys=capsys)[0] == USAGE
    assert asked(config, "1", "--by-record", "--bootstrap", "b:1", capsys=capsys)[0] == USAGE


@pytest.mark.parametrize(
    ("broker", "times", "expected"),
    [
        ("1", (130.1, 110), (0, "")),
        ("1", (130.2, 110), (4, "how the cluster is now: the record is 10 s old")),
        # What an old record says against a stop, too, is not known to hold.
        ("3", (150, 110), (4, "how the cluster is now: the record is 30 s old")),
        ("1", (110, 110), (4, "the record is 10 s ahead: a clock is wrong")),
        ("1", (125, 75), (0, "")),
        ("1", (125, 74.9), (4, "configs: not answered for 40 s and more")),
    ],
)
def test_an_old_record_is_not_known(
    config: str,
    recorded_at: RecordedAt,
    broker: str,
    times: tuple[float, float],
    expected: tuple[int, str],
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded_at(*times)
    found, answer, _ = asked(config, broker, "--by-record", capsys=capsys)
    assert (found, expected[1] in answer) == (expected[0], True), answer


def test_a_record_without_a_question_is_not_known(
    config: str, recorded_at: RecordedAt, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(config).read_text()
    Path(config).write_text(text.replace("configs: 20s, ", ""))
    found, answer, _ = asked(config, "1", "--by-record", capsys=capsys)
    assert (found, "configs: nobody asks (`enrich: configs`)" in answer) == (4, True)
    Path(config).write_text(text.replace("poll: {", "poll: {topics: orders, "))
    found, answer, _ = asked(config, "1", "--by-record", capsys=capsys)
    assert (found, "topics that the configuration leaves out" in answer) == (4, True)


def test_it_waits_for_a_record(
    config: str,
    recorded_at: RecordedAt,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded_at(150, 110)
    monkeypatch.setattr(may_stop.time, "sleep", lambda _: recorded_at(125, 110))
    assert asked(config, "1", "--by-record", "--wait", "10m", capsys=capsys)[0] == 0


def test_the_lines_of_the_documents_about_the_record(
    config: str,
    recorded_at: RecordedAt,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    assert BY_RECORD
    for line in BY_RECORD:
        assert exit_status(shlex.split(line)[1:]) == 0
        assert capsys.readouterr().out == "prod: broker 1 may stop\n"


LINES = dict.fromkeys(commands("kafka-metadata-history may-stop .*"))
BY_RECORD = [line for line in LINES if "--by-record" in line]


def test_the_lines_of_the_documents(
    cluster: ByteCluster,
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    assert len(LINES) >= 4
    for line in LINES.keys() - {*BY_RECORD}:
        words = shlex.split(line.replace("localhost:9092", cluster.servers()))[1:]
        assert exit_status(words) == 0
        answer = capsys.readouterr().out
        assert ("verdict" if "json" in line else "may stop\n") in answer

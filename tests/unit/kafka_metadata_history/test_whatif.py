"""The command whatif asks a lake in a folder, without a JVM."""

import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, USAGE, exit_status
from schemas import silver
from schemas.lake import Lake
from schemas.table import LAKE_VERSION
from tests.support import stored as stored_lakes
from tests.support.documents import commands, section
from tests.support.incident import CLUSTER, STREAM, at
from tests.support.printed import printed_by
from tests.support.store_lake import stored, unpacked


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the known incident: two of three brokers are missing."""
    return unpacked(stored(LAKE_VERSION), tmp_path_factory.mktemp("stored"))


@pytest.fixture
def config(folder: Path, tmp_path: Path) -> str:
    return written(tmp_path, folder)


def written(place: Path, lake: Path, more: str = "", of_cluster: str = "") -> str:
    file = place / "config.yaml"
    options = f"kafka.bootstrap.servers: '127.0.0.1:1'{of_cluster}"
    file.write_text(f"lake: {lake}\nclusters: {{prod: {{{options}}}}}\n{more}")
    return str(file)


asked = partial(printed_by, "whatif")


def test_the_last_live_broker(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, answer, beside = asked(config, "--lose", "broker", "1", capsys=capsys)
    first, _, empty, *rest = answer.splitlines()
    assert (found, beside, empty) == (0, [], "")
    assert first == "prod at 2026-11-01 12:00:30Z without broker 1"
    assert rest[:2] == [
        "replicas         of 3 of 5 partitions",
        "offline          3 new: __consumer_offsets-0, orders-0, orders-1",
    ]


def test_losses_add_up_at_a_time_as_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--lose", "broker", "2", "--lose", "rack", "a", "--at", "2026-11-01T12:00:05Z")
    found, answer, _ = asked(config, *arguments, "--format", "json", capsys=capsys)
    said = json.loads(answer)
    assert (found, said["brokers"], said["at"]) == (0, [1, 2], "2026-11-01T12:00:05.000Z")
    topics = {each["topic"]: each["new_leader"] for each in said["partitions"]}
    assert topics == {"__consumer_offsets": -1, "clicks": 3, "orders": 3}


def test_racks_of_controllers_are_configured(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, folder, of_cluster=", controllerRacks: {3001: z}")
    _, answer, beside = asked(config, "--lose", "rack", "z", "--format", "json", capsys=capsys)
    assert (json.loads(answer)["controllers"], beside) == ([3001], [])


def test_topics_that_are_not_recorded_are_not_known(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, folder, "poll: {topicsPattern: 'orders'}\n")
    _, answer, _ = asked(config, "--lose", "broker", "1", capsys=capsys)
    assert answer.endswith("; topics that the configuration leaves out\n")


def test_a_lake_of_an_older_version_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, unpacked(stored(9), tmp_path))
    _, answer, _ = asked(config, "--lose", "broker", "1", capsys=capsys)
    assert answer.endswith("; all that a lake of version 9 lacks\n")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ((), USAGE, "Missing option '--lose'."),
        (("--lose", "disk", "1"), USAGE, "'disk' is not one of 'broker', 'controller', 'rack'."),
        (
            ("--lose", "rack", "a", "--controller-rack", "a=1"),
            USAGE,
            "Invalid value for '--controller-rack': a=1: not ID=RACK",
        ),
        (("--lose", "broker", "9"), USAGE, "there was no broker 9 in prod"),
        (("--lose", "broker", "1", "--config", "none.yaml"), FAILED, "none.yaml"),
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


LINES = dict.fromkeys(commands("kafka-metadata-history whatif .*"))


def test_the_lines_of_the_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a lake that knows the quorum, too."""
    lake = Lake(root=str(unpacked(stored(LAKE_VERSION), tmp_path)))
    quorum = {"controller_id": 3001, "quorum_epoch": 4, "voters": [3001, 3002, 3003]}
    began = {"first_poll": f"{STREAM}/{0:012d}", "valid_from": at(0)}
    stored_lakes.append(lake, silver.QUORUM, [CLUSTER | quorum | began])
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", written(tmp_path, Path(str(lake))))
    assert len(LINES) >= 5
    for line in LINES:
        assert exit_status(shlex.split(line)[1:]) == 0
        answer = capsys.readouterr().out
        assert json.loads(answer)["brokers"] if "json" in line else "\noffline " in answer


def test_the_documented_example(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(
        r"```text\n(.*?)```", section("queries.md", "## The loss of a broker"), re.DOTALL
    )
    (line,) = (each for each in LINES if "--at" in each)
    found, answer, _ = asked(config, *shlex.split(line)[2:], capsys=capsys)

    def without_age(text: str) -> str:
        return re.sub(r"Z, \d+ \w+ ago", "", text)

    assert (found, without_age(answer)) == (0, without_age(example))

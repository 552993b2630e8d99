"""`init` writes a first configuration that works, and asks what is not given."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from jobs.configuration.config import ConfigError, load
from kafka_metadata_history import check, command
from kafka_metadata_history.command import NAME, app, exit_status
from metadata_source.errors import PollError
from metadata_source.options import Cluster, parse
from metadata_source.probes import Permission


def found_by(
    monkeypatch: pytest.MonkeyPatch, *missing: Permission, problem: str | None = None
) -> None:
    """Let a cluster be polled by what follows, or not at all."""

    def checked(cluster: Cluster, *_: object) -> tuple[object, list[Permission]]:
        if problem is not None:
            raise PollError("authentication", problem)
        topics = SimpleNamespace(num_rows=3)
        state = SimpleNamespace(
            metadata=SimpleNamespace(topics=topics), poll=SimpleNamespace(latency_ms=1.5)
        )
        return state, list(missing)

    monkeypatch.setattr(check, "check", checked)


INIT = ("init", "--alias", "orders", "--bootstrap", "b1:9092,b2:9092", "--lake", "lake")


def test_a_first_configuration_asks_what_its_user_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.yaml"
    log = Permission(
        "rebalance history", "READ", "missing: READ", "--operation Read --topic __consumer_offsets"
    )
    settings = Permission(
        "min ISR", "DESCRIBE_CONFIGS", "missing: DESCRIBE_CONFIGS on 3 of 3 topics", "--operation X"
    )
    found_by(monkeypatch, log, settings)
    user = (
        "--option",
        "kafka.security.protocol=SASL_SSL",
        "--option",
        "kafka.sasl.mechanism=PLAIN",
    )
    secret = (
        "--option",
        "kafka.sasl.username=eve",
        "--option",
        "kafka.sasl.password=env:KAFKA_PASSWORD",
    )
    assert exit_status([*INIT, *user, *secret, "--config", str(file)]) == 0
    made = load(str(file))
    assert (made.lake.root, set(made.clusters), made.group_log) == (
        f"{tmp_path}/lake",
        {"orders"},
        None,
    )
    assert made.clusters["orders"]["kafka.sasl.password"] == "env:KAFKA_PASSWORD"
    asked = parse(made.source_options({}), "stream").polling["orders"].enrich
    assert set(asked) == {"reassignments", "quorum", "fenced", "groups"}
    text = file.read_text()
    command = (
        "kafka-acls --bootstrap-server b1:9092,b2:9092 --add --allow-principal User:eve --operation"
    )
    assert f"#   {command} Read --topic __consumer_offsets\n" in text
    assert f"#   {command} X\n" in text
    assert f"{file} is written" in capsys.readouterr().err
    found_by(monkeypatch)
    assert exit_status([*INIT, "--config", str(file)]) == 1, "nothing takes its place"
    assert file.read_text() == text
    other = tmp_path / "other.yaml"
    assert exit_status([*INIT, "--config", str(other)]) == 0
    assert load(str(other)).group_log == {"startingOffsets": "earliest"}
    assert "#   kafka-acls" not in other.read_text()


@pytest.mark.parametrize(
    ("more", "says", "expected"),
    [
        ((), "orders: failed: authentication: no such user", 3),
        (("--option", "kafka.sasl.password=hunter2"), "kafka.sasl.password", 1),
        (("--option", "kafka.sasl.mechanism"), "not NAME=VALUE", 2),
    ],
)
def test_no_configuration_is_written_that_does_not_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    more: tuple[str, ...],
    says: str,
    expected: int,
) -> None:
    found_by(monkeypatch, problem="no such user")
    file = tmp_path / "history.yaml"
    assert exit_status([*INIT, *more, "--config", str(file)]) == expected
    assert not file.exists()
    error = capsys.readouterr().err
    assert says in error
    assert "hunter2" not in error


def test_a_lake_that_cannot_be_named_leaves_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found_by(monkeypatch)
    file = tmp_path / "history.yaml"
    for _ in range(2):
        assert exit_status([*INIT[:-1], "it's", "--config", str(file)]) == 1
        assert "lake" in capsys.readouterr().err.splitlines()[-1]
        assert not file.exists()


def test_init_asks_for_what_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found_by(monkeypatch)
    file = tmp_path / "history.yaml"
    asked = CliRunner().invoke(app, ["init", "--config", str(file)], input="orders\nb1:9092\n\n")
    assert asked.exit_code == 0, asked.output
    assert load(str(file)).lake.root == f"{tmp_path}/lake"


def test_init_takes_a_client_s_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found_by(monkeypatch)
    client, file = tmp_path / "client.properties", tmp_path / "history.yaml"
    client.write_text(
        "bootstrap.servers=b1:9092\nacks=all\nclient.id=0123\n"
        "ssl.endpoint.identification.algorithm=\n"
    )
    made = [
        "init",
        "--alias",
        "0123",
        "--lake",
        "lake",
        "--client",
        str(client),
        "--config",
        str(file),
    ]
    protocol = ["--option", "kafka.security.protocol=SSL"]
    asked = CliRunner().invoke(app, [*made, *protocol], input="\n")
    assert asked.exit_code == 0, asked.output
    assert "Its bootstrap servers (host:port, ...) [b1:9092]: " in asked.output
    assert f"{client}: warning: passed over, nothing here needs it: acks\n" in asked.output
    assert load(str(file)).clusters == {
        "0123": {
            "kafka.bootstrap.servers": "b1:9092",
            "kafka.client.id": "0123",
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.security.protocol": "SSL",
        }
    }
    other = tmp_path / "other.yaml"
    assert exit_status([*made[:-1], str(other), *protocol, "--bootstrap", "b2:9092"]) == 0
    assert load(str(other)).clusters["0123"]["kafka.bootstrap.servers"] == "b2:9092"
    client.write_text("kafka.bootstrap.servers: b1:9092\n")
    assert exit_status([*made[:-1], str(tmp_path / "third.yaml"), "--bootstrap", "b2:9092"]) == 1
    assert "contradicts --bootstrap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "says"),
    [("none/history.yaml", "No such file or directory"), ("file/h.yaml", "Not a directory")],
)
def test_a_configuration_that_cannot_be_written_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    says: str,
) -> None:
    found_by(monkeypatch)
    (tmp_path / "file").touch()
    assert exit_status([*INIT, "--config", str(tmp_path / place)]) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == f"{NAME}: {tmp_path / place}: cannot be written: {says}"
    )


def test_nothing_is_written_before_it_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for a moment, in which whoever asks would find a file that is refused."""
    found_by(monkeypatch)
    file = tmp_path / "history.yaml"

    def refused(text: str, path: str) -> None:
        assert (text.startswith("# Where the tables are"), path, file.exists()) == (
            True,
            str(file),
            False,
        )
        raise ConfigError("refused")

    monkeypatch.setattr(command, "parsed", refused)
    assert exit_status([*INIT, "--config", str(file)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_home_or_a_folder_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.yaml"
    for lake in ("~no-such-user-here/lake", "~/lake"):
        file.write_text(f"lake: {lake}\nclusters: {{a: {{kafka.bootstrap.servers: 'b:1'}}}}\n")
        if lake == "~/lake":  # of a user whom the system does not know, as in a container
            monkeypatch.delenv("HOME")
            monkeypatch.setattr("os.getuid", lambda: 4_242_424)
        assert exit_status(["check", "--config", str(file)]) == 1
        says = f"{NAME}: {file}: {lake}: there is no such home folder: write the whole path\n"
        assert capsys.readouterr().err == says
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found_by(monkeypatch)
    for asked in (["check"], ["status"], ["query", "overview"], ["report"], [*INIT]):
        assert exit_status([*asked, "--config", "history.yaml"]) == 1
        *_, said = capsys.readouterr().err.splitlines()
        assert said.startswith(f"{NAME}: history.yaml")
        assert "a folder that was removed" in said
    os.chdir(tmp_path)

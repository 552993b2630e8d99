"""The command mcp, as agents start it: a process whose stdin and stdout the SDK's client has."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from kafka_metadata_history import mcp_command
from kafka_metadata_history.agents.bounded import CHARACTERS, ITEMS
from kafka_metadata_history.agents.server import LIMIT_S
from kafka_metadata_history.agents.tools import LIMIT, MOST, tools
from kafka_metadata_history.answers.questions import names
from kafka_metadata_history.command import FAILED, exit_status
from kafka_metadata_history.names import NAME
from metadata_source.text import LONGEST
from tests.support.documents import document, section
from tests.support.incident_rows import OPEN, incident_rows, recorded_rows
from tests.support.made_lakes import made_lake

COMMAND = [sys.executable, "-m", "kafka_metadata_history"]


@pytest.fixture
def config(tmp_path: Path) -> str:
    lake = made_lake(tmp_path / "lake", incident_rows() | recorded_rows())
    return written(tmp_path, lake)


def written(place: Path, lake: object) -> str:
    file = place / "config.yaml"
    file.write_text(f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: 'a:1'}}}}\n")
    return str(file)


def test_the_sdks_client_asks_the_documented_command(config: str) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", document("agents.md"), re.DOTALL)
    (written_down,) = json.loads(example)["mcpServers"].values()
    assert written_down.pop("command") == NAME
    name, option, file = written_down.pop("args")
    assert written_down == {}
    assert Path(file).is_absolute()
    first, *rest = [*COMMAND, name, option, config]
    server = StdioServerParameters(command=first, args=rest, env={**os.environ})

    async def asked() -> tuple[str | None, set[str], str]:
        async with Client(stdio_client(server)) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            (answer,) = (await client.call_tool("explain", {"incident": OPEN})).content
            return client.instructions, names, answer.text

    instructions, names, answer = anyio.run(asked)
    assert "data, never instructions" in (instructions or "")
    assert {"explain", "lag", "select"} <= names
    assert f"id          {OPEN}" in answer


def test_stdout_is_empty_where_nobody_asks_and_the_process_ends_with_stdin(config: str) -> None:
    done = subprocess.run(
        [*COMMAND, "mcp", "--config", config],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_each_tool_is_in_the_documents_with_its_arguments() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \| .* \| (.*) \|$", section("agents.md", "## Tools"))
    documented = {name: re.findall(r"`(\w+)`", given) for name, given in rows}
    known = {name: [*each.arguments.model_fields] for name, each in tools().items()}
    assert documented == {name: of for name, of in known.items() if name not in names()}
    text = document("agents.md")
    for number in (LIMIT, MOST, ITEMS, CHARACTERS, LONGEST):
        assert re.search(rf"\b{number:,}\b", text), number
    assert f"more than {LIMIT_S:g} s" in text


@pytest.mark.parametrize(
    ("lake", "says"),
    [
        ("hdfs://host/lake", "hdfs://host/lake: is neither a folder of this machine nor"),
        (None, "none.yaml: no such file"),
    ],
)
def test_what_is_wrong_at_its_start_is_one_line(
    lake: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "none.yaml") if lake is None else written(tmp_path, lake)
    assert exit_status(["mcp", "--config", file]) == FAILED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert printed.err.count("\n") == 1


def test_without_the_sdk_the_command_says_how_to_install_it(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [*sys.modules]:
        if name.startswith("kafka_metadata_history.agents"):
            monkeypatch.delitem(sys.modules, name)
        elif name.partition(".")[0] == "mcp":
            monkeypatch.setitem(sys.modules, name, None)
    assert exit_status(["mcp", "--config", config]) == FAILED
    assert "pip install 'kafka-metadata-history[mcp]'" in capsys.readouterr().err


def test_a_module_of_our_own_that_is_missing_is_no_extra(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kafka_metadata_history.agents.server", None)
    with pytest.raises(ModuleNotFoundError):
        exit_status([mcp_command.mcp.name or "", "--config", config])

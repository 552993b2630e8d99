"""`python -m metadata_source inspect` prints every field, and names the mistakes that brokers have
made.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metadata_source.__main__ import main
from metadata_source.protocol.inspect import _mistakes, explanations_of
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.metadata_messages import cluster


def response() -> dict[str, Any]:
    made = cluster(2, 2, shrunk=0.5)
    made["brokers"] = made["brokers"][:1]
    return made


MISTAKES = [
    pytest.param(version, words, message, id=f"v{version} {words}")
    for version in (2, 8, 9, 10, 11, 12, 13)
    for words, message in _mistakes(version)
]


def run(tmp_path: Path, body: bytes, *options: str) -> int:
    file = tmp_path / "response.bin"
    file.write_bytes(body)
    return main(["inspect", str(file), *options])


def test_a_right_response_is_printed_field_by_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = write_message(METADATA_RESPONSE, 12, response())
    assert run(tmp_path, body, "--version", "12") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["0", "00", "00", "00", "00", "throttle_time_ms", "=", "0"]
    assert lines[1].split() == ["4", "02", "brokers", "=", "1", "entry"]
    assert lines[3].split() == [
        "9",
        *b"\x09broker-0".hex(" ").split(),
        "brokers[0].host",
        "=",
        "'broker-0'",
    ]
    assert any(line.endswith("topics[1].partitions[0].offline_replicas = []") for line in lines)
    assert lines[-1] == f"{len(body)} bytes: a MetadataResponse v12"
    printed = [
        (int(line[:9]), bytes.fromhex(line[11:58])) for line in lines[:-1] if " .. " not in line
    ]
    assert all(body[offset : offset + len(shown)] == shown for offset, shown in printed)
    assert sum(len(shown) for _, shown in printed) > len(body) / 2


@pytest.mark.parametrize(("version", "words", "message"), MISTAKES)
def test_mistakes_of_brokers_are_recognized(version: int, words: str, message: Any) -> None:
    body = write_message(message, version, response())
    assert words in list(explanations_of(body, version))


def test_most_mistakes_have_one_explanation_only() -> None:
    found = [
        list(
            explanations_of(
                write_message(each.values[2], each.values[0], response()), each.values[0]
            )
        )
        for each in MISTAKES
    ]
    assert sum(len(each) == 1 for each in found) > 0.8 * len(found)


def test_a_wrong_response_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mistakes = dict(_mistakes(12))
    words = "the length of topics.partitions.isr_nodes is an int32, not a varint of length + 1"
    assert run(tmp_path, write_message(mistakes[words], 12, response()), "--version", "12") == 1
    *_, last_field, error, before, after, explanation = capsys.readouterr().out.splitlines()
    assert "topics[0].partitions[0].replica_nodes = " in last_field
    assert error.startswith("MetadataResponse v12: topics[0].partitions[0].isr_nodes at byte ")
    offset = int(last_field.split()[0]) + 13
    assert f" at byte {offset}: " in error
    assert before.startswith("bytes before: ")
    assert after.startswith(f"bytes from {offset}: 00 00 00 0")
    assert explanation == f"the body decodes if {words}"


@pytest.mark.parametrize(("version", "size"), [(8, 4), (8, 8), (12, 5), (12, 9)])
def test_what_stands_before_the_body_is_recognized(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: int, size: int
) -> None:
    body = write_message(METADATA_RESPONSE, version, response())
    before = b"\0\0\0\7" + b"\0" * (version >= 9)
    if size > 5:
        before = (len(before) + len(body)).to_bytes(4) + before
    assert run(tmp_path, before + body, "--version", str(version)) == 1
    assert f"(--skip {size})" in capsys.readouterr().out
    assert run(tmp_path, before + body, "--version", str(version), "--skip", str(size)) == 0


def test_the_right_version_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, write_message(METADATA_RESPONSE, 9, response()), "--version", "12") == 1
    assert "the body decodes if it is of version 9, not 12" in capsys.readouterr().out


def test_what_nothing_explains_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, b"\xff" * 30, "--version", "12") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "no mistake known of brokers explains it"


@pytest.mark.parametrize("options", [["--skip", "99"], ["--skip", "-1"]])
def test_a_wrong_skip_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert run(tmp_path, b"12345", "--version", "12", *options) == 2
    assert (
        capsys.readouterr().err == f"--skip {options[1]}: {tmp_path / 'response.bin'} has 5 bytes\n"
    )


def test_a_file_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(tmp_path / "none"), "--version", "12"]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'none'}: No such file or directory\n"


def test_inspect_needs_neither_numpy_nor_pyarrow() -> None:
    code = (
        "import sys, metadata_source.__main__; print({'numpy', 'pyarrow', 'pyspark', 'kafka'} & "
        "set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )

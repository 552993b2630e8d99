"""`python -m metadata_source inspect` prints every field, and names the mistakes that brokers have
made.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metadata_source.__main__ import main
from metadata_source.protocol.inspect import explain, explanations_of, inspect
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.metadata_messages import cluster


def response() -> dict[str, Any]:
    made = cluster(2, 2, shrunk=0.5)
    made["brokers"] = made["brokers"][:1]
    return made


PIECES: dict[str, bytes] = {
    "throttle_time_ms": bytes(4),
    "brokers": b"\2",
    "broker": b"\0\0\0\7" + b"\2h" + b"\0\0\x23\x84" + b"\0",
    "broker tags": b"\0",
    "cluster_id": b"\3id",
    "controller_id": b"\0\0\0\7",
    "topics": b"\2",
    "topic": b"\0\0" + b"\2t",
    "topic_id": b"\xaa" * 16,
    "is_internal": b"\0",
    "partitions": b"\2",
    "partition": b"\0\0" + b"\0\0\0\1" + b"\0\0\0\7" + b"\0\0\0\5",
    "replica_nodes": b"\3",
    "replicas": b"\0\0\0\7" + b"\0\0\0\x08",
    "isr_nodes": b"\2",
    "isr": b"\0\0\0\7",
    "offline_replicas": b"\2",
    "offline": b"\0\0\0\x08",
    "partition tags": b"\0",
    "topic operations": b"\x80\0\0\0",
    "topic tags": b"\0",
    "tags": b"\0",
}
"""A response of version 12, of one broker, one topic and one partition, as it is on the wire."""
LENGTHS = {
    **dict.fromkeys(("brokers", "topics", "partitions", "isr_nodes", "offline_replicas"), 1),
    "replica_nodes": 2,
}


def edited(*left_out: str, **changed: bytes) -> bytes:
    """The response with some of its pieces left out or changed."""
    return b"".join(
        changed.get(name, piece) for name, piece in PIECES.items() if name not in left_out
    )


def with_lengths(size: int, *names: str) -> bytes:
    return edited(**{name: LENGTHS[name].to_bytes(size) for name in names})


def controller_first() -> bytes:
    swapped = PIECES["controller_id"] + PIECES["cluster_id"]
    return edited("controller_id", cluster_id=swapped)


MISTAKES = {
    "the length of brokers is an int32, not a varint of length + 1": with_lengths(4, "brokers"),
    "the length of topics is an int16, not a varint of length + 1": with_lengths(2, "topics"),
    "the length of topics.partitions is an int32, not a varint of length + 1": with_lengths(
        4, "partitions"
    ),
    "the length of topics.partitions.isr_nodes is an int32, not a varint of length + 1": (
        with_lengths(4, "isr_nodes")
    ),
    "the length of topics.partitions.offline_replicas is an int16, not a varint of length + 1": (
        with_lengths(2, "offline_replicas")
    ),
    "the length of every array is an int16, not a varint of length + 1": with_lengths(2, *LENGTHS),
    "the length of every array is an int32, not a varint of length + 1": with_lengths(4, *LENGTHS),
    "controller_id comes before cluster_id": controller_first(),
    "topic_id is missing": edited("topic_id"),
    "the section of tagged fields is missing at the end of each entry of brokers": edited(
        "broker tags"
    ),
    "the section of tagged fields is missing at the end of each entry of topics.partitions": edited(
        "partition tags"
    ),
    "every section of tagged fields is missing": edited(
        "broker tags", "partition tags", "topic tags", "tags"
    ),
    "it is of version 9, not 12": write_message(METADATA_RESPONSE, 9, response()),
    "it is of version 8, not 12": write_message(METADATA_RESPONSE, 8, response()),
    "its first 5 bytes, the response header, are left out (--skip 5)": b"\0\0\0\7\0" + edited(),
    "its first 9 bytes, size and response header, are left out (--skip 9)": (
        (len(edited()) + 5).to_bytes(4) + b"\0\0\0\7\0" + edited()
    ),
}
"""Bytes, and the only mistake that explains them."""


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


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_of_brokers_are_recognized(words: str) -> None:
    assert list(explanations_of(MISTAKES[words], 12)) == [words]


def test_a_right_response_has_nothing_to_explain() -> None:
    assert inspect(edited(), 12, lambda _: None) is None
    assert "it is of version 12, not 12" not in list(explanations_of(edited(), 12))
    for version in (1, 8, 13):
        body = write_message(METADATA_RESPONSE, version, response())
        assert inspect(body, version, lambda _: None) is None


NO_TAGS = "the section of tagged fields is missing at the end of"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            edited(tags=b"\x80\0\0\0\0"),
            [
                "cluster_authorized_operations is there (it belongs to versions 8 to 10)",
                "it is of version 10, not 12",
            ],
        ),
        # Of one entry each nobody can tell which section it is.
        (
            edited("tags"),
            [
                f"{NO_TAGS} the message itself",
                f"{NO_TAGS} each entry of topics",
                f"{NO_TAGS} each entry of topics.partitions",
            ],
        ),
    ],
)
def test_each_mistake_that_would_explain_the_bytes_is_said(body: bytes, words: list[str]) -> None:
    error = inspect(body, 12, lambda _: None)
    assert error is not None
    assert explain(body, error)[3:] == [
        "the body decodes if any one of these is so:",
        *(f"  {each}" for each in words),
    ]


def test_a_wrong_response_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "the length of topics.partitions.isr_nodes is an int32, not a varint of length + 1"
    assert run(tmp_path, MISTAKES[words], "--version", "12") == 1
    *_, last_field, error, before, after, explanation = capsys.readouterr().out.splitlines()
    assert "topics[0].partitions[0].replica_nodes = " in last_field
    assert error.startswith("MetadataResponse v12: topics[0].partitions[0].isr_nodes at byte ")
    offset = int(last_field.split()[0]) + 9  # a length, and two ids
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

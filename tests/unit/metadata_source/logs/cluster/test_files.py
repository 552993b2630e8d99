"""The controllers' log from files of a controller's folder."""

from pathlib import Path

import pytest

from metadata_source.errors import ClusterLogError
from tests.support.controllers_log import batch_read, told
from tests.support.quorum import NO_OP, SCRAM, Quorum, topic


def write_folder(quorum: Quorum, folder: Path) -> None:
    """As a controller has it: two segments, a snapshot, and what is neither."""
    quorum.write(*map(topic, "ab"), NO_OP, SCRAM, topic("c"))
    made = quorum.snapshot(topic("a"), SCRAM)
    (folder / f"{0:020}.log").write_bytes(quorum.bytes_of(0, 3))
    (folder / f"{3:020}.log").write_bytes(quorum.bytes_of(3, 6))
    (folder / f"{6:020}.log").touch()
    (folder / f"{made.offset:020}-{made.epoch:010}.checkpoint").write_bytes(quorum.snapshots[made])
    for other in (f"{0:020}.index", f"{9:020}-{1:010}.checkpoint.part", "quorum-state"):
        (folder / other).write_bytes(b"x")


def test_the_files_of_a_controller(tmp_path: Path) -> None:
    write_folder(Quorum(), tmp_path)
    rows = batch_read({"path": str(tmp_path), "cluster": "here", "clusterId": "x"})
    assert told(rows) == [
        ("record", 0, "LeaderChangeMessage"),
        ("record", 1, "a"),
        ("record", 2, "b"),
        ("read", 0, 3),
        *(("record", 5, "c"), ("read", 3, 6)),
        *(("snapshot", 0, "a"), ("read", 0, 2, 6)),
    ]
    assert {(row["cluster"], row["cluster_id"]) for row in rows} == {("here", "x")}
    assert [(row["no_ops"], row["counted"]) for row in rows if row["record"] == "span"] == [
        (0, 0),
        (1, 1),
        (0, 1),
    ]
    one = batch_read({"path": str(tmp_path / f"{3:020}.log")})
    assert (told(one), one[0].get("cluster_id")) == ([("record", 5, "c"), ("read", 3, 6)], None)


def test_a_file_that_is_cut_off_has_its_whole_batches_and_says_so(tmp_path: Path) -> None:
    quorum, file = Quorum(), tmp_path / f"{0:020}.log"
    quorum.write(*map(topic, "ab"))
    ends = [len(quorum.bytes_of(0, count)) for count in range(4)]
    whole = quorum.bytes_of(0, 3)
    for size in sorted({*range(0, len(whole), 9), *ends, *(end - 1 for end in ends[1:])}):
        file.write_bytes(whole[:size])
        count = sum(end <= size for end in ends) - 1
        rows = told(batch_read({"path": str(file)}))
        assert [row[1] for row in rows if row[0] == "record"] == list(range(count))
        assert [row for row in rows if row[0] != "record"] == [
            *([("read", 0, count)] if count else []),
            *([("cut_off", count, None)] if size not in ends else []),
        ]


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    quorum, file = Quorum(), tmp_path / f"{0:020}.log"
    quorum.write(topic("a"))
    damaged = bytearray(quorum.bytes_of(0, 2))
    damaged[-3] ^= 1
    for path, said in (
        (tmp_path / "none", "path: .*none: no such file or directory"),
        (
            tmp_path,
            (
                "path: .*: no segment .* and no snapshot .* give the folder __cluster_metadata-0 "
                "of a controller"
            ),
        ),
    ):
        with pytest.raises(ClusterLogError, match=f"options: {said}"):
            batch_read({"path": str(path)})
    file.write_bytes(damaged)
    with pytest.raises(
        ClusterLogError,
        match=r"protocol: .*\.log: from offset 0 on: RecordBatch v2: crc at byte 81",
    ):
        batch_read({"path": str(file)})

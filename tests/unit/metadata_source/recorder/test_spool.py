"""The spool, read as it is after writers and power cuts, without a recorder and without Spark."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import zlib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.columns.polls import POLLS
from metadata_source.recorder import spool
from metadata_source.recorder.folder import SpoiltError, make_temporary, owner_of
from metadata_source.recorder.news import News
from metadata_source.recorder.spool import SPOOL_VERSION, GoneError, Spool, Spooled
from tests.support.examples import examples
from tests.support.spools import BEGIN_MS, opened, poll_rows, record, rows_of, said


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*.{suffix}"))


def test_what_is_appended_is_read_in_its_order(tmp_path):
    written = opened(tmp_path)
    spooled = Spooled(tmp_path)
    assert spooled.after(0) == []
    assert record(written, "east", 0, news=News.NEWS, key=True, rows=3)
    assert record(written, "west", 1, ok=False, news=News.FOLLOWS)
    first, second = spooled.after(0)
    assert (first.seq, first.cluster, first.number, first.at_ms, first.run) == (
        1,
        "east",
        1,
        BEGIN_MS,
        "run",
    )
    assert (first.news, first.is_key_frame, first.ok) == (News.NEWS, True, True)
    assert (second.seq, second.cluster, second.number) == (2, "west", 1)
    assert (second.news, second.is_key_frame, second.ok) == (News.FOLLOWS, False, False)
    record(written, "east", 2)
    (third,) = spooled.after(2)
    assert (third.seq, third.number) == (3, 2)
    (stream,) = spooled.bytes_of(spooled.after(0))
    rows = rows_of([stream])
    assert said(rows) == ["east@0", "west@1", "east@2"]
    assert [row["topic"] for row in rows[:4]] == ["topic-0", "topic-1", "topic-2", None]
    assert said(rows_of(spooled.bytes_of([first, third]))) == ["east@0", "east@2"], (
        "entries between are left out"
    )
    assert first.batches == 1, "rows that are appended together are one message"
    written.close()


def test_a_spool_takes_rows_of_polls_alone(tmp_path):
    (batch,) = poll_rows("east", BEGIN_MS)
    with pytest.raises(ValueError, match="rows of polls alone"):
        opened(tmp_path).append(
            "east", 0, [batch.select(["n"])], News.QUIET, is_key_frame=False, ok=True
        )


def test_the_version_is_another_one_when_the_columns_are():
    """Whoever changes the columns of polls raises SPOOL_VERSION, and this."""
    assert (SPOOL_VERSION, sha256(str(POLLS).encode()).hexdigest()[:16]) == (3, "540d275a83d5c7a0")


def test_only_this_user_may_read_it(tmp_path):
    written = opened(tmp_path / "a" / "spool")
    record(written, "east", 0)
    Spooled(written.folder).let_go(1)
    assert stat.S_IMODE(written.folder.stat().st_mode) == 0o700
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in written.folder.iterdir()}
    assert set(found.values()) == {0o600}
    assert {*found} == {
        "lock",
        "owner.json",
        "spool.json",
        "committed.json",
        "00000001.arrows",
        "00000001.index",
    }
    (tmp_path / "open").mkdir(mode=0o755)
    assert stat.S_IMODE(opened(tmp_path / "open").folder.stat().st_mode) == 0o700


def test_a_writer_that_was_killed_leaves_no_lock(tmp_path):
    script = f"""
import os, signal, sys
from pathlib import Path
from tests.support.spools import opened, record
record(opened(Path({str(tmp_path)!r}), "killed"), "east", 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    assert owner_of(tmp_path) is None
    written = opened(tmp_path)
    record(written, "east", 1)
    assert [(entry.seq, entry.number) for entry in Spooled(tmp_path).after(0)] == [(1, 1), (2, 2)]


def test_segments_end_and_whole_ones_are_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 60_000)
    written, spooled = opened(tmp_path), Spooled(tmp_path)
    for number in range(12):
        record(written, "east", number)
    entries = spooled.after(0)
    assert len(files(tmp_path, "index")) > 2
    last_of_first = max(entry.seq for entry in entries if entry.segment == 1)
    spooled.let_go(last_of_first - 1)
    assert spooled.after(0) == entries
    spooled.let_go(last_of_first)
    assert spooled.after(0) == Spooled(tmp_path).after(0) == entries[last_of_first:]
    assert spooled.committed == Spooled(tmp_path).committed == last_of_first
    spooled.let_go(12)
    assert [path.name for path in files(tmp_path, "arrows")] == [f"{entries[-1].segment:08}.arrows"]
    assert spooled.after(0) == [entry for entry in entries if entry.segment == entries[-1].segment]
    spooled.let_go(3)
    assert spooled.committed == 12
    record(written, "east", 12)
    assert [entry.seq for entry in spooled.after(12)] == [13]


def test_a_segment_ends_after_a_minute(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "_SEGMENT_S", 0.0)
    written = opened(tmp_path)
    for number in range(3):
        record(written, "east", number)
    assert [entry.segment for entry in Spooled(tmp_path).after(0)] == [1, 2, 3]


def test_numbers_go_up_though_all_entries_are_let_go(tmp_path):
    """Else new entries would have numbers that an offset has named."""
    for run in range(3):
        written, spooled = opened(tmp_path), Spooled(tmp_path)
        record(written, "east", run)
        record(written, "west", run)
        assert [(entry.seq, entry.number) for entry in spooled.after(2 * run)] == [
            (2 * run + 1, run + 1),
            (2 * run + 2, run + 1),
        ]
        written.close()
        opened(tmp_path).close()  # its segment has no entry
        Spooled(tmp_path).let_go(2 * run + 2)
    (last,) = files(tmp_path, "index")
    assert len(last.read_bytes().splitlines()) == 3


def test_numbers_go_up_though_all_segments_are_lost(tmp_path):
    written = opened(tmp_path)
    for number in range(2):
        record(written, "east", number)
    Spooled(tmp_path).let_go(2)
    written.close()
    for path in [*files(tmp_path, "arrows"), *files(tmp_path, "index")]:
        path.unlink()
    record(opened(tmp_path), "east", 2)
    assert [entry.seq for entry in Spooled(tmp_path).after(0)] == [3]


def test_numbers_go_up_though_the_newest_segment_has_lost_its_entries(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 1)
    written = opened(tmp_path)
    record(written, "east", 0)
    record(written, "west", 0)
    Spooled(tmp_path).let_go(1)
    written.close()
    (tmp_path / "committed.json").unlink()
    (index,) = files(tmp_path, "index")
    index.write_bytes(index.read_bytes().splitlines(keepends=True)[0])
    record(opened(tmp_path), "east", 1)
    (entry,) = Spooled(tmp_path).after(0)
    assert (entry.seq, entry.number) == (2, 2)


def test_nothing_is_let_go_before_the_counts_of_what_stays_are_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 1)
    done, written = [], opened(tmp_path)
    for number in range(2):
        record(written, "east", number)
    monkeypatch.setattr(
        spool, "sync_file", lambda path: done.append((path.name, len(files(tmp_path, "index"))))
    )
    Spooled(tmp_path).let_go(1)
    assert done == [("00000002.index", 2), (tmp_path.name, 2)]
    assert len(files(tmp_path, "index")) == 1


def test_a_spool_that_is_full_keeps_nothing_until_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "SPOOL_BYTES", 120_000)
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 30_000)
    monkeypatch.setattr(spool, "_COUNTED_EVERY_S", 0.0)
    written, spooled = opened(tmp_path), Spooled(tmp_path)
    kept = [record(written, "east", number) for number in range(20)]
    assert kept == sorted(kept, reverse=True)
    assert 4 < sum(kept) < 12
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 140_000
    assert len(spooled.after(0)) == sum(kept)
    spooled.let_go(sum(kept))
    assert record(written, "east", 21)
    (entry,) = spooled.after(sum(kept))
    assert (entry.seq, entry.number) == (sum(kept) + 1,) * 2, "what was not kept has no number"


@pytest.mark.parametrize("fails_after", [0, 1, 7, 10_000, 20_000])
def test_a_disk_that_is_full_keeps_nothing_of_an_entry(tmp_path, monkeypatch, fails_after):
    written = opened(tmp_path)
    record(written, "east", 0)
    left = fails_after
    write = os.write

    def full(file, data):
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, data[:left])
        left -= done
        return done

    monkeypatch.setattr(os, "write", full)
    assert record(written, "east", 1, rows=3) is (fails_after == 20_000)
    monkeypatch.setattr(os, "write", write)
    record(written, "east", 2)
    entries = Spooled(tmp_path).after(0)
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    found = said(rows_of(looked(tmp_path).bytes_of(entries)))
    assert found == ["east@0", *["east@1"] * (fails_after == 20_000), "east@2"]


def looked(folder: Path) -> Spooled:
    spooled = Spooled(folder)
    spooled.after(0)
    return spooled


def test_a_spool_that_was_removed_is_written_no_more(tmp_path):
    written = opened(tmp_path / "spool")
    assert record(written, "east", 0)
    assert not written.is_removed
    shutil.rmtree(written.folder)
    assert written.is_removed
    again = opened(tmp_path / "spool")
    make_temporary(again.folder)
    written._close_segment()
    assert not record(written, "east", 1)
    assert record(again, "east", 2)
    assert (written.is_removed, again.is_removed) == (True, False)
    assert len(Spooled(again.folder).after(0)) == 1
    written.close()
    assert len(Spooled(again.folder).after(0)) == 1, "it is another recorder's"
    again.close()


def test_appending_counts_the_check_sum_before_it_waits_for_others(tmp_path, monkeypatch):
    written = opened(tmp_path)
    held = []
    crc32 = zlib.crc32
    monkeypatch.setattr(
        zlib, "crc32", lambda data: held.append(written._lock.locked()) or crc32(data)
    )
    assert record(written, "east", 0)
    assert held == [False]


def test_a_temporary_spool_ends_with_its_writer(tmp_path):
    written = opened(tmp_path / "spool")
    make_temporary(written.folder)
    record(written, "east", 0)
    written.close()
    assert not written.folder.exists()
    assert Spooled(written.folder).after(0) == []
    assert owner_of(written.folder) is None


def test_bytes_that_are_gone_are_an_error(tmp_path):
    written = opened(tmp_path)
    record(written, "east", 0)
    spooled = Spooled(tmp_path)
    entries = spooled.after(0)
    (rows,) = files(tmp_path, "arrows")
    os.truncate(rows, entries[0].end - 1)
    with pytest.raises(GoneError, match=r"00000001.arrows: \d+ bytes are there no more"):
        spooled.bytes_of(entries)
    assert Spooled(tmp_path).after(0) == [], "an entry is there whole, or is none"
    rows.unlink()
    with pytest.raises(GoneError, match="No such file"):
        spooled.bytes_of(entries)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["east", "west"]), st.integers(0, 3)),
        st.tuples(
            st.sampled_from(["open", "close", "sync", "let_go"]), st.none(), st.integers(0, 20)
        ),
    ),
    max_size=30,
)


class Model:
    """A spool, and what it must hold by a plainer writing: nothing of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: Spool | None = opened(folder)
        self.spooled = Spooled(folder)
        self.entries: dict[int, tuple[str, int, str]] = {}
        """seq -> cluster, number, what the poll says"""
        self.sizes: dict[str, int] = {}
        """Bytes of files that no power cut takes."""
        self.synced = 0

    def sync_file(self, path: Path) -> None:
        """In place of the spool's own."""
        self.sizes[path.name] = path.stat().st_size

    def step(self, name: str, cluster: str | None, number: int) -> None:
        if name == "open" and self.written is None:
            self.written = opened(self.folder)
        elif name == "close" and self.written is not None:
            self.written.close()
            self.written = None
        elif name == "append" and self.written is not None:
            seq = max(self.entries, default=0) + 1
            told = f"{seq}"
            assert record(self.written, cluster, seq, said=told, rows=number)
            of_cluster = [each[1] for each in self.entries.values() if each[0] == cluster]
            self.entries[seq] = cluster, max(of_cluster, default=0) + 1, told
        elif name == "sync":
            self.synced = min(number, max(self.entries, default=0))
            self.spooled.after(0)
            self.spooled.sync(self.synced)
        elif name == "let_go":
            self.spooled.let_go(min(number, self.synced))

    def check(self, entries) -> None:
        """What is there is what was appended, and reads so."""
        assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
        for entry in entries:
            assert (
                entry.cluster,
                entry.number,
                said(rows_of(looked(self.folder).bytes_of([entry]))),
            ) == (*self.entries[entry.seq][:2], [self.entries[entry.seq][2]])


@settings(max_examples=examples(25))
@given(STEPS)
def test_whatever_is_done_entries_are_there_in_order_until_they_are_let_go(steps):
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_SEGMENT_BYTES", 40_000)
        model = Model(Path(name))
        for step in steps:
            model.step(*step)
            found = model.spooled.after(0)
            assert found == Spooled(model.folder).after(0)
            model.check(found)
            seqs = [entry.seq for entry in found]
            assert seqs == [*model.entries][len(model.entries) - len(seqs) :], (
                "none in the middle is gone"
            )
            assert len(seqs) >= max(model.entries, default=0) - model.spooled.committed
        if model.written:
            model.written.close()


@settings(max_examples=examples(50))
@given(STEPS, st.data())
def test_a_power_cut_takes_whole_entries_and_none_that_is_synced(steps, data):
    """Files lose their ends, at any byte, or are as long as they were and have zeros there."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_SEGMENT_BYTES", 40_000)
        model = Model(Path(name))
        patch.setattr(spool, "sync_file", model.sync_file)
        for step in steps:
            model.step(*step)
        before = [entry.seq for entry in Spooled(model.folder).after(0)]
        if model.written is not None:
            model.written.close()
        for path in [*files(model.folder, "arrows"), *files(model.folder, "index")]:
            size = path.stat().st_size
            cut = data.draw(
                st.one_of(st.just(size), st.integers(model.sizes.get(path.name, 0), size)),
                path.name,
            )
            with path.open("r+b") as file:
                file.truncate(cut)
                if data.draw(st.booleans(), "zeros"):
                    file.truncate(size)
        written = opened(model.folder)
        spooled = Spooled(model.folder)
        with suppress(SpoiltError):
            spooled.bytes_of(spooled.after(0))
        left = spooled.after(0)
        model.check(left)
        assert {entry.seq for entry in left} >= {seq for seq in before if seq <= model.synced}
        record(written, "east", 99, said="99")
        (new,) = [entry for entry in spooled.after(0) if entry not in left]
        of_east = [
            number for seq, (cluster, number, _) in model.entries.items() if cluster == "east"
        ]
        known = [entry.number for entry in left if entry.cluster == "east"]
        assert max(known, default=0) < new.number <= max(of_east, default=0) + 1
        assert said(rows_of(looked(model.folder).bytes_of([new]))) == ["99"]
        written.close()

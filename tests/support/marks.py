"""Values that must be nowhere, and a search of files for them in every form in which they might be
there.
"""

import gzip
import io
import math
import zipfile
from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

Forms = dict[str, list[bytes]]


def forms(mark: str) -> Forms:
    """The ways to write a mark (letters and digits, so that no way of escaping changes it)."""
    assert mark.isascii()
    assert mark.isalnum()
    raw = mark.encode()
    return {
        "as it is": [raw],
        "in UTF-16": [mark.encode("utf-16-le")[:-1]],  # of either byte order
        "in hex": [raw.hex().encode(), raw.hex().upper().encode()],
        "URL-encoded": ["".join(f"%{byte:02X}" for byte in raw).encode()],
        "in base64": [_within_base64(raw, before) for before in range(3)],
    }


def _within_base64(raw: bytes, before: int) -> bytes:
    """The characters that are `raw`'s alone where so many bytes (modulo 3) come before it."""
    begin, end = math.ceil(before * 8 / 6), (before + len(raw)) * 8 // 6
    return b64encode(b"\0" * before + raw)[begin:end]


def traces(folder: Path, marks: Iterable[str]) -> list[str]:
    """Each file in which a mark is, with the mark and its form. Names of files count too."""
    wanted = [(mark, form, ways) for mark in marks for form, ways in forms(mark).items()]
    found = []
    for file in sorted(folder.rglob("*")):
        where = str(file.relative_to(folder))
        contents = [where.encode(), *(_contents(file.read_bytes()) if file.is_file() else ())]
        found += [
            f"{where}: {mark} {form}"
            for mark, form, ways in wanted
            if any(way in content for way in ways for content in contents)
        ]
    return found


def _contents(raw: bytes) -> Iterator[bytes]:
    """The bytes of a file, and what they hold when they are unpacked."""
    yield raw
    if raw.startswith(b"\x1f\x8b"):
        yield from _contents(gzip.decompress(raw))
    elif raw.startswith(b"\x28\xb5\x2f\xfd"):
        yield from _contents(
            zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()
        )
    elif raw.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for each in archive.namelist():
                yield from _contents(archive.read(each))
    elif raw.startswith(b"PAR1"):
        yield _unpacked(pq.ParquetFile(io.BytesIO(raw)).read())


def _unpacked(table: pa.Table) -> bytes:
    """Every value of every column, as Arrow has them: without compression and dictionaries."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()

"""The search for secrets finds them, however they are written and packed."""

import gzip
import json
import urllib.parse
import zipfile
from base64 import b64encode, urlsafe_b64encode

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.support.marks import traces

MARK = "passMk7Qz2Wn4"

WRITTEN = {
    "as it is": f"password={MARK};".encode(),
    "in JSON": json.dumps({"password": f'"{MARK}"'}).encode(),
    "in UTF-16": f"é{MARK}".encode("utf-16-le"),
    "in UTF-16, big": f"é{MARK}".encode("utf-16-be"),
    "in hex": MARK.encode().hex().encode(),
    "URL-encoded": urllib.parse.quote(f"ä {MARK}").encode(),
    **{f"in base64 after {n}": b64encode(b"x" * n + MARK.encode() + b"yy") for n in range(6)},
    "as SASL PLAIN in a header": b"Basic " + urlsafe_b64encode(f"alice:{MARK}".encode()),
    "gzip": gzip.compress(MARK.encode()),
    "zstd": zstandard.compress(MARK.encode()),
    "zstd in two frames": zstandard.compress(b"x") + zstandard.compress(MARK.encode()),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_mark_is_found(tmp_path, way):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(WRITTEN[way])
    (found,) = traces(tmp_path, [MARK, "othrMk1Aa1Aa1"])
    assert found.startswith(f"kept/file: {MARK} ")


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
def test_a_mark_is_found_in_values_of_tables(tmp_path, compression):
    rows = [{"maps": [("a", f"x{MARK}")], "nested": [{"raw": MARK.encode()}], "count": 1}] * 100
    types = {
        "maps": pa.map_(pa.string(), pa.string()),
        "nested": pa.list_(pa.struct({"raw": pa.binary()})),
    }
    for name, type_ in types.items():
        table = pa.table({name: pa.array([row[name] for row in rows], type_)})
        pq.write_table(
            table, tmp_path / f"{name}.parquet", compression=compression, write_statistics=False
        )
    assert [found.split(":")[0] for found in traces(tmp_path, [MARK])] == [
        "maps.parquet",
        "nested.parquet",
    ]


def test_a_mark_is_found_in_names_and_archives(tmp_path):
    (tmp_path / f"cluster={MARK}").touch()
    with zipfile.ZipFile(tmp_path / "log.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("log", gzip.compress(MARK.encode()))
    assert traces(tmp_path, [MARK]) == [
        f"cluster={MARK}: {MARK} as it is",
        f"log.zip: {MARK} as it is",
    ]


def test_nothing_is_found_where_nothing_is(tmp_path):
    (tmp_path / "file").write_text(MARK[:-1] + " " + MARK.lower())
    assert traces(tmp_path, [MARK]) == []

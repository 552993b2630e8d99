"""A lake in an object store, read without a JVM: the server is moto's, which speaks S3's protocol
and judges neither signatures nor clocks. What a store says of these is given as its errors are.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from deltalake import DeltaTable, write_deltalake

from jobs.configuration.config import ConfigError, load
from kafka_metadata_history.command import FAILED, exit_status
from kafka_metadata_history.opened import without_spark
from schemas.delta_in_duckdb import query_of
from schemas.in_duckdb import connected
from schemas.lake import Lake, LakeError
from schemas.object_stores import address, options_of, reason
from schemas.store_files import WHOLE, StoreFiles
from schemas.table import LAKE_VERSION
from tests.support.object_store import BUCKET, SECRET, client, object_store, put, requests_of
from tests.support.object_store import configured as of_store
from tests.support.store_lake import stored, unpacked

Capture = pytest.CaptureFixture[str]
SQL = "SELECT count(leader) AS n FROM silver.partition_snapshots"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(stored(LAKE_VERSION), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[str]:
    with object_store() as found:
        put(found, folder, "kmh")
        yield found


def configured(tmp_path: Path, store: str, root: str) -> Path:
    return Path(of_store(tmp_path / "config.yaml", store, root))


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_STORE_SECRET", SECRET)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opened.with_spark", "command.in_spark"):
        monkeypatch.setattr(
            f"kafka_metadata_history.{name}", lambda *_, **__: pytest.fail("asks Spark")
        )


def test_the_server_lets_one_of_several_conditional_puts_win(store: str) -> None:
    clients = [client(store) for _ in range(5)]
    for turn in range(40):
        together = Barrier(len(clients))

        def written(which: int, key: str = f"race/{turn}", at: Barrier = together) -> int:
            at.wait()
            try:
                clients[which].put_object(
                    Bucket=BUCKET, Key=key, Body=f"{which}".encode(), IfNoneMatch="*"
                )
            except ClientError as error:
                return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
            return 200

        with ThreadPoolExecutor(len(clients)) as pool:
            found = [*pool.map(written, range(len(clients)))]
        assert Counter(found) == {200: 1, 412: len(clients) - 1}
        body = clients[0].get_object(Bucket=BUCKET, Key=f"race/{turn}")["Body"]
        assert body.read() == f"{found.index(200)}".encode()
        body.close()
    for each in clients:
        each.close()


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_lake_in_a_bucket_answers_as_one_in_a_folder(
    store: str, folder: Path, tmp_path: Path, scheme: str
) -> None:
    read = load(str(configured(tmp_path, store, f"{scheme}://{BUCKET}/kmh")))
    ask, here = without_spark(read.lake), without_spark(Lake(root=str(folder)))
    for sql in (SQL, "SELECT * FROM silver.partitions_now", "SELECT * FROM gold.leader_changes"):
        assert ask(sql).sort_by("cluster" if "*" in sql else "n").to_pylist() == (
            here(sql).sort_by("cluster" if "*" in sql else "n").to_pylist()
        )


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "asked",
    [
        ("query", "overview"),
        ("query", SQL),
        ("status", "--format", "json"),
        ("events",),
        ("show", "--at", "2026-01-01T00:00:00Z"),
    ],
    ids=lambda asked: asked[0],
)
def test_commands_ask_a_bucket_without_a_jvm(
    store: str, folder: Path, tmp_path: Path, asked: tuple[str, ...], capfd: Capture
) -> None:
    bucket = configured(tmp_path, store, f"s3a://{BUCKET}/kmh")
    found = exit_status([*asked, "--config", str(bucket)]), capfd.readouterr()
    text = bucket.read_text().splitlines()
    bucket.write_text("\n".join([f"lake: {folder}", text[-1]]))
    same = exit_status([*asked, "--config", str(bucket)]), capfd.readouterr()
    assert found[0] == same[0]
    if asked[0] != "status":  # of which logs' bytes and times differ
        assert found[1].out.replace(f"s3a://{BUCKET}/kmh", str(folder)) == same[1].out


def test_a_bucket_that_is_not_there_is_one_line(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, store, "s3a://not-there/kmh")
    assert exit_status(["query", SQL, "--config", str(config)]) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert "s3a://not-there/kmh: " in line
    assert line.endswith("the bucket is not there")
    assert SECRET not in line


def test_a_bucket_without_a_lake_says_so(store: str, tmp_path: Path) -> None:
    read = load(str(configured(tmp_path, store, f"s3://{BUCKET}/nothing")))
    with pytest.raises(LakeError, match=r"not complete: silver\.partition_snapshots is not there"):
        without_spark(read.lake)(SQL)


def test_a_database_reads_no_file_of_another_lake(store: str, tmp_path: Path) -> None:
    read = load(str(configured(tmp_path, store, f"s3://{BUCKET}/kmh")))
    ask = without_spark(read.lake)
    ask(SQL)
    with pytest.raises(Exception, match="disabled"):
        ask._database.execute(f"FROM read_parquet('s3://{BUCKET}/race/0')")


def test_parts_of_a_large_file_are_read_once(store: str, tmp_path: Path) -> None:
    lake = load(str(configured(tmp_path, store, f"s3://{BUCKET}/large"))).lake
    rows = pa.table({"a": range(200_000), "b": [f"{each * 7919:x}" for each in range(200_000)]})
    write_deltalake(f"s3://{BUCKET}/large/gold/made", rows, storage_options=options_of(lake))
    files = StoreFiles(f"s3://{BUCKET}/large")
    made = f"s3://{BUCKET}/large/gold/made"
    log = DeltaTable(made, storage_options=options_of(lake))
    requests_of(store)
    (file,) = files.add(made, log, options_of(lake) or {})
    assert files.info(file)["size"] > 2 * WHOLE
    files.read_end(file)
    assert requests_of(store) == {"GET": 1}
    database = connected(lake, files=files)
    query = (
        f"SELECT sum(a) AS a, max(b) AS b FROM ({query_of(database, log, made)}) WHERE a % 3 = 0"
    )
    kept = rows.filter([each % 3 == 0 for each in range(200_000)])
    expected = [(sum(kept["a"].to_pylist()), max(kept["b"].to_pylist()))]
    assert database.sql(query).fetchall() == expected
    assert {*requests_of(store)} == {"GET"}
    assert connected(lake, files=files).sql(query).fetchall() == expected
    assert not requests_of(store)
    with pytest.raises(PermissionError, match="not of this lake"):
        files.open(f"{made}/another.parquet")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("lake: here\nstorage: {aws_region: eu-central-1}", "storage: the lake here is in no obj"),
        ("lake: s3://a/b\nstorage: {aws_secret_access_key: mine}", "not a reference"),
        ("lake: gs://a/b\nstorage: {google_service_account_key: mine}", "not a reference"),
        ("lake: abfss://a@b.net/c\nstorage: {azure_storage_account_key: mine}", "not a reference"),
        ("lake: s3://a/b\nstorage: {aws_session_token: mine}", "not a reference"),
    ],
)
def test_a_configuration_that_mixes_places_or_holds_secrets_is_refused(
    tmp_path: Path, lines: str, says: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{lines}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n")
    with pytest.raises(ConfigError, match=says) as error:
        load(str(file))
    assert "mine" not in str(error.value)


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (
            (
                "org.apache.hadoop.fs.s3a.AWSBadRequestException: getFileStatus on s3a://b/l: "
                "S3Exception: Bad Request (Service: S3, Status Code: 400, Request ID: null):null"
            ),
            "a session token has expired",
        ),
        ("<Code>ExpiredToken</Code><Message>The provided token has expired.", "have expired"),
        ("403 Forbidden: <Code>RequestTimeTooSkewed</Code>", "clock"),
        ("<Code>InvalidAccessKeyId</Code>", "does not know these credentials"),
        ("Client error with status 403 Forbidden", "access denied"),
        ("error sending request for url (http://127.0.0.1:1/)", "does not answer"),
        ("Http error: http://169.254.169.254/latest/api/token", "no credentials"),
    ],
)
def test_errors_of_a_store_say_what_to_do(problem: str, says: str) -> None:
    assert says in str(reason(problem))


def test_hadoops_names_of_s3_are_s3() -> None:
    assert [address(each) for each in ("s3a://a/b", "S3N://a", "gs://a", "/s3a:/b")] == [
        "s3://a/b",
        "s3://a",
        "gs://a",
        "/s3a:/b",
    ]


def test_a_lake_that_a_program_asks_for_long_is_of_a_bucket_too(store: str, tmp_path: Path) -> None:
    script = (
        "import sys, kafka_metadata_history as kmh\n"
        "print(kmh.open(sys.argv[1]).query(sys.argv[2]).to_pylist())\n"
        "assert 'pyspark.sql' not in sys.modules\n"
    )
    config = configured(tmp_path, store, f"s3a://{BUCKET}/kmh")
    done = subprocess.run(
        [sys.executable, "-c", script, str(config), SQL],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[{'n': ")

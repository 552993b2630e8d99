"""Jars of `spark.packages`."""

import hashlib
from pathlib import Path

import pytest

from kafka_metadata_history.jars import fetch, packages
from kafka_metadata_history.jars.errors import JarsError

AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
SUM = hashlib.sha256(b"a jar").hexdigest()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The coordinates that were fetched. Each jar has the same bytes."""
    found: list[str] = []

    def fetched(organisation: str, module: str, revision: str, folder: Path, **_: object) -> None:
        found.append(f"{organisation}:{module}:{revision}")
        jar = folder / "-".join(filter(None, (module, revision, f"{_['classifier']}")))
        jar = jar.with_name(f"{jar.name}.jar")
        folder.mkdir()
        jar.write_bytes(b"a jar")
        trusted = _["trusted"]
        assert callable(trusted)
        try:
            trusted([jar])
        except JarsError:
            jar.unlink()
            folder.rmdir()
            raise

    monkeypatch.setattr(packages, "JARS", tmp_path)
    monkeypatch.setattr(fetch, "_fetch", fetched)
    return found


def test_a_jar_is_fetched_once(asked: list[str], tmp_path: Path) -> None:
    checksums = {AWS: SUM}
    (jar,) = packages.fetched(checksums)
    assert [jar] == packages.fetched(checksums)
    assert (jar.name, jar.is_relative_to(tmp_path)) == ("hadoop-aws-3.5.0.jar", True)
    assert asked == [AWS]


def test_a_jar_with_a_classifier_is_beside_the_one_without(asked: list[str]) -> None:
    plain, classified = packages.fetched({AWS: SUM, f"{AWS}:tests": SUM})
    assert (plain.name, classified.name) == ("hadoop-aws-3.5.0.jar", "hadoop-aws-3.5.0-tests.jar")
    assert plain.parent != classified.parent


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", f"{AWS} has no SHA-256: if this jar is to be trusted, write {SUM}"),
        ("0" * 64, f"{AWS}: its SHA-256 is {SUM}, and {'0' * 64} in the configuration"),
    ],
)
def test_a_jar_that_is_not_known_is_refused_each_time(
    asked: list[str], given: str, says: str
) -> None:
    packages_before = [AWS, AWS]
    for _ in packages_before:
        with pytest.raises(JarsError) as caught:
            packages.fetched({AWS: given})
        assert str(caught.value) == f"spark.packages: {says}"
    assert asked == packages_before


@pytest.mark.parametrize(
    ("root", "given", "artifact"),
    [
        ("s3a://history/kafka", {}, "hadoop-aws"),
        ("s3a://history/kafka", {AWS: SUM}, None),
        ("abfss://a@b.dfs.core.windows.net/c", {AWS: SUM}, "hadoop-azure"),
        ("gs://history", {}, "gcs-connector"),
        ("hdfs://history", {}, None),
        ("/data/lake", {}, None),
    ],
)
def test_what_a_lake_lacks_is_known_without_spark(
    root: str, given: dict[str, str], artifact: str | None
) -> None:
    assert packages.lacking(root, given) == artifact

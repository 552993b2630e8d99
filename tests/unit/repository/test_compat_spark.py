"""The pairs of Spark and Delta that `make compat-spark` tries."""

import re
from pathlib import Path

import pytest

from kafka_metadata_history.jars import delta
from tests.support.documents import section
from tests.support.repository import ROOT
from tools.compat_spark import HASHES, PAIRS, UntriedError, make_environment


def test_pairs_of_spark_and_delta_are_those_of_the_page_and_have_checksums() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    for each in ("pyspark", "delta-spark"):
        (version,) = re.findall(rf"^{each}==(\S+)", constraints, re.MULTILINE)
        assert f"{each}=={version} --hash=sha256:" in PAIRS[0].requirements
        assert all(of in constraints for of in HASHES[f"{each}=={version}"])
    assert {delta.DELTA, PAIRS[0].module} <= {word for module in delta.MODULES for word in module}
    rows = re.findall(
        r"^\| (\S+) \| (\S+) \|", section("versions.md", "## Spark and Delta"), re.MULTILINE
    )
    tried = [row for row in rows if row[0][0].isdigit()]
    assert tried == [(pair.spark, pair.delta) for pair in PAIRS]
    assert all(len(pair.requirements.splitlines()) == 2 for pair in PAIRS)


def test_a_pair_that_cannot_be_had_is_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path))):
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(UntriedError, match=r"^No matching distribution found for pyspark==4\.2\.1"):
        make_environment(PAIRS[1], tmp_path / "environment")

"""The pairs of Spark and Delta that `make compat-spark` tries."""

import re

from kafka_metadata_history.jars import delta
from tests.support.documents import section
from tests.support.repository import ROOT
from tools.compat_spark import HASHES, PAIRS


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

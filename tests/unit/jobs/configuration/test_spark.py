"""The section `spark` of the configuration."""

from pathlib import Path

import pytest

from jobs.configuration.config import ConfigError, load
from jobs.configuration.spark import SparkSection
from tests.support.configurations import GOOD, config
from tests.support.for_each import for_each

SUM = "0123456789ABCDEF" * 4


def test_packages_have_checksums_and_settings_are_texts(tmp_path: Path) -> None:
    more = f"""
spark:
  packages: {{"org.apache.hadoop:hadoop-aws:3.5.0": {SUM}, "com.example:a_2.13:1": , "a:b:1:c-d": }}
  settings: {{spark.ui.enabled: true, spark.ui.port: 4041}}
"""
    assert load(str(config(tmp_path, GOOD + more))).spark == SparkSection(
        {
            "org.apache.hadoop:hadoop-aws:3.5.0": SUM.lower(),
            "com.example:a_2.13:1": "",
            "a:b:1:c-d": "",
        },
        {"spark.ui.enabled": "true", "spark.ui.port": "4041"},
    )
    for nothing in ("", "\nspark:\n", "\nspark: {packages: , settings: }\n"):
        assert load(str(config(tmp_path, GOOD + nothing))).spark == SparkSection()


@for_each(
    ("given", "says"),
    [
        (
            "{packages: {hadoop-aws: }}",
            "spark.packages: 'hadoop-aws' is not GROUP:ARTIFACT:VERSION[:CLASSIFIER]",
        ),
        ("{packages: {'a:../b:1': }}", "spark.packages: 'a:../b:1' is not GROUP:ARTIFACT:VERSION"),
        ("{packages: {'a:b:1': abc}}", "'abc' is not a SHA-256, 64 hex digits"),
        ("{settings: {fs.s3a.endpoint: x}}", "settings of Spark begin with spark."),
        ("{settings: {spark.master: yarn}}", "spark.master: the command starts Spark on this"),
        ("{jars: x}", "unknown key spark.jars"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, given: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(str(config(tmp_path, f"{GOOD}\nspark: {given}\n")))
    assert says in str(caught.value)

"""Hold what is new in bronze and silver against the rules of jobs/rules/validity.py.

spark-submit jobs/validate.py --config FILE

Exit status: 0 when nothing critical was found, 2 when something was, 1 when it could not be validated.
"""

import argparse
import logging
import secrets
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import reported
from jobs.common.config import Config, ConfigError, load
from jobs.common.progress import Window, window_of
from jobs.common.session import spark_session
from jobs.common.writes import upsert
from jobs.rules import validity
from jobs.rules.validity import Batch, Finding
from metadata_source.text import text_table
from schemas import bronze, gold, quality, silver
from schemas.lake import check_tables, ensure_tables

JOB = "validate"
CRITICAL_FOUND = 2
SHOWN = 10
"""Rows that are printed of those that break a rule; the table keeps 200."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog=JOB, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML: lake, clusters, validation (see conf/)")
    arguments = parser.parse_args(argv)
    for noisy in ("great_expectations", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    findings: list[Finding] = []

    def run() -> None:
        config = load(arguments.config)
        findings.extend(apply(spark_session(JOB), config, datetime.now(UTC)))
        print(report(findings), end="")

    failed = reported(JOB, run)
    return failed or (CRITICAL_FOUND if any(map(is_critical, findings)) else 0)


def is_critical(finding: Finding) -> bool:
    """Whether it says that history is wrong, or not being made."""
    return finding.violations > 0 and finding.rule.severity == "critical"


def apply(spark: SparkSession, config: Config, now: datetime) -> list[Finding]:
    """Validate what is new since the last run, and write what was found to the lake and as data docs.

    Progress is noted last: a run that is killed is done again by the next.
    """
    from jobs.common.expectations import validate  # noqa: PLC0415 - takes seconds, and needs an extra

    if config.docs is None:
        raise ConfigError(
            f"validation.docs is missing: data docs need a folder of this machine, and the lake is {config.lake}"
        )
    lake = config.lake
    check_tables(spark, lake, (*bronze.TABLES, *silver.TABLES))
    ensure_tables(spark, lake, (*quality.TABLES, gold.PROGRESS))
    # What a run knows of: progress moves on while it validates.
    progress = lake.read(spark, silver.PROGRESS).localCheckpoint()
    window = window_of(progress, lake, JOB)
    findings = validate(list(_batches(progress, window, config, now)), Path(config.docs))
    upsert(_rows(spark, findings, now), lake, quality.VALIDATIONS, within="false")  # a run's rows are new
    if window is not None:
        window.note_done()
    return findings


def _batches(progress: DataFrame, window: Window | None, config: Config, now: datetime) -> Iterator[Batch]:
    spark = progress.sparkSession
    configured = spark.createDataFrame([(alias,) for alias in config.clusters], "cluster string")
    clusters = validity.clusters_now(progress, configured, F.lit(now))
    yield Batch(validity.NOW, clusters.localCheckpoint(), (validity.POLLED_NOW,))
    for subject in validity.SUBJECTS if window is not None else ():
        yield Batch(subject.name, subject.rows(window).localCheckpoint(), subject.rules)


def _rows(spark: SparkSession, findings: Sequence[Finding], now: datetime) -> DataFrame:
    """Rows of quality.validations."""
    run = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    rows = [
        {
            "run": run,
            "ran_at": now,
            "subject": each.subject,
            "rule": each.rule.name,
            "says": each.rule.says,
            "severity": each.rule.severity,
            "success": not each.violations,
            "checked": each.checked,
            "violations": each.violations,
            "violating": each.violating,
        }
        for each in findings
    ]
    columns = ", ".join(f"{column.name} {column.type}" for column in quality.VALIDATIONS.columns)
    return spark.createDataFrame(rows, columns)


def report(findings: Sequence[Finding]) -> str:
    """What was found, for people: a line for each rule, and the first rows that break one."""
    lines = text_table(
        ("rule", "of", "severity", "rows", "broken by"),
        [(each.rule.name, each.subject, each.rule.severity, each.checked, each.violations) for each in findings],
    )
    for each in findings:
        if each.violations:
            shown = each.violating[:SHOWN]
            more = f"  and {each.violations - len(shown)} more" if each.violations > len(shown) else ""
            lines += ["", f"{each.rule.name}: {each.rule.says}", *(f"  {row}" for row in shown), *filter(None, [more])]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())

"""A run of validation: what is new is held against the rules, and what was found is kept."""

import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.configuration.config import Config, ConfigError
from jobs.rounds.commit import append_rows, replace_rows
from jobs.validation.docs_folder import check_replaceable
from jobs.validation.validity import VALIDATED, Finding, batches, progress
from metadata_source.text import printable, text_table
from schemas import bronze, gold, groups, quality, silver, transactions
from schemas.in_spark import check_tables, ensure_tables
from schemas.internal import STATE

SHOWN = 10
"""Rows that are printed of those that break a rule; the table keeps 200."""


def is_critical(finding: Finding) -> bool:
    """Whether history is wrong, or not being made."""
    return finding.violations > 0 and finding.rule.severity == "critical"


def apply(spark: SparkSession, config: Config, now: datetime) -> list[Finding]:
    """Validate what is new since the last run, and write what was found to the lake and as data
    docs.

    Progress is noted last: a run that is killed is done again by the next.
    """
    if config.docs is None:
        raise ConfigError(
            "validation.docs is missing: data docs need a folder of this machine, and the lake "
            f"is {config.lake}"
        )
    docs = Path(config.docs)
    check_replaceable(docs)
    try:
        from jobs.validation.expectations import validate  # noqa: PLC0415 - takes seconds, and needs an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is missing: install the extra, `pip install "
            "'kafka-metadata-history[validation]'`"
        ) from error

    lake = config.lake
    logs = (*bronze.TABLES, transactions.TRANSACTION_LOG)
    of_groups = (groups.REBALANCES, groups.REBALANCE_MEMBERS)
    check_tables(spark, lake, (*logs, *silver.TABLES, gold.STALE_BROKERS, *of_groups, STATE))
    ensure_tables(spark, lake, quality.TABLES)
    so_far = progress(spark, lake)
    window = so_far.window()
    findings = validate(batches(lake, so_far.clusters, window, config.clusters, now), docs)
    run = {"run": f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}", "ran_at": now}
    append_rows(spark, lake, quality.VALIDATIONS, [run | _row(each) for each in findings])
    if window:
        replace_rows(spark, lake, STATE, so_far.done(), f"history = '{VALIDATED}'")
    return findings


def _row(finding: Finding) -> dict[str, Any]:
    """Of quality.validations."""
    said = {"rule": finding.rule.name, "says": finding.rule.says, "severity": finding.rule.severity}
    return {**vars(finding), **said, "success": not finding.violations}


def report(findings: Sequence[Finding]) -> str:
    """The findings, for people: a line for each rule, and the first rows that break one."""
    lines = text_table(
        ("rule", "of", "severity", "rows", "broken by"),
        [
            (each.rule.name, each.subject, each.rule.severity, each.checked, each.violations)
            for each in findings
        ],
    )
    for each in findings:
        if each.violations:
            shown = each.violating[:SHOWN]
            more = (
                f"  and {each.violations - len(shown)} more" if each.violations > len(shown) else ""
            )
            lines += [
                "",
                f"{each.rule.name}: {each.rule.says}",
                *(f"  {printable(row)}" for row in shown),
                *filter(None, [more]),
            ]
    return "".join(f"{line}\n" for line in lines)

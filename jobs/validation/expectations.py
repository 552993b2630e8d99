"""Great Expectations, as validation uses it: rules and rows in, findings and data docs out."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

# It reports its use to its makers unless told otherwise before it is imported.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

try:
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
except ModuleNotFoundError as error:
    raise RuntimeError(
        f"{error.name} is not installed: pip install 'kafka-metadata-history[validation]'"
    ) from error

from jobs.validation.docs_folder import replace_docs
from jobs.validation.validity import Batch, Finding, Rule
from metadata_source.errors import KafkaMetadataHistoryError

SITE = "data_docs"


class ValidationError(KafkaMetadataHistoryError, RuntimeError):
    """Raised when a rule cannot be tried. One line."""


def validate(batches: Iterable[Batch], docs: Path) -> list[Finding]:
    """Try every rule of every batch, write what came of it to the folder `docs` as HTML, and return
    it in their order.

    The rows belong to the session that `SparkSession.builder.getOrCreate` gives, which is the one
    that Great Expectations takes. Raises ValidationError when a rule cannot be tried; `docs` is
    replaced whole, or left as it is.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    source = context.data_sources.add_spark("lake")
    findings = [finding for batch in batches for finding in _validated(context, source, batch)]
    replace_docs(docs, partial(_build_docs, context))
    return findings


def _validated(context: Any, source: Any, batch: Batch) -> list[Finding]:
    suite = context.suites.add(
        gx.ExpectationSuite(batch.subject, expectations=list(map(_expectation, batch.rules)))
    )
    data = source.add_dataframe_asset(batch.subject).add_batch_definition_whole_dataframe(
        "new rows"
    )
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=batch.subject, data=data, suite=suite)
    )
    results = definition.run(
        batch_parameters={"dataframe": batch.rows}, result_format="COMPLETE"
    ).results
    by_rule = {result.expectation_config.meta["rule"]: result for result in results}
    checked, findings = batch.rows.count(), []
    for rule in batch.rules:
        result = by_rule[rule.name]
        if result.exception_info.get("raised_exception", True):
            raise ValidationError(
                f"{rule.name}: cannot be tried on {batch.subject}: {result.exception_info}"
            )
        violating = [row["violating"] for row in result.result["details"]["unexpected_rows"]]
        findings.append(
            Finding(batch.subject, rule, checked, result.result["observed_value"], violating)
        )
    return findings


def _expectation(rule: Rule) -> gx.expectations.UnexpectedRowsExpectation:
    shown = f"to_json(struct({', '.join(rule.shows)}), map('ignoreNullFields', 'false'))"
    return gx.expectations.UnexpectedRowsExpectation(
        unexpected_rows_query=f"SELECT {shown} AS violating FROM {{batch}} WHERE {rule.broken}",
        description=rule.says,
        severity=rule.severity,
        meta={"rule": rule.name},
    )


def _build_docs(context: Any, folder: Path) -> None:
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}
    context.add_data_docs_site(SITE, {"class_name": "SiteBuilder", "store_backend": store})
    context.build_data_docs(site_names=[SITE])

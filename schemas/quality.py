"""Quality: what validation found. Its rules are in jobs/validation/validity.yaml."""

from schemas.table import Table, columns

VALIDATIONS = Table(
    schema="quality",
    name="validations",
    comment="Findings of each run of validation: one row for each rule that it tried.",
    columns=columns("""
        run string NOT NULL -- <start, UTC>-<random>. Sorts as text in the order of starting.
        ran_at timestamp NOT NULL -- When the run started.
        subject string NOT NULL -- Table whose rows were looked at.
        rule string NOT NULL -- Name of the rule.
        says string NOT NULL -- The condition that the rule asks for.
        severity string NOT NULL -- critical: history is wrong or is not being made | warning: it is
            right, but something hurt it.
        success boolean NOT NULL -- No row violates it.
        checked bigint NOT NULL -- Rows that it was tried on: what was new since the last run.
        violations bigint NOT NULL -- Rows that violate it.
        violating array<string> NOT NULL -- The first 200 of them: what names each, as JSON.
    """),
    key=("run", "subject", "rule"),
    constraints={
        "severity_known": "severity IN ('critical', 'warning')",
        "success_means_none": "success = (violations = 0)",
    },
    cluster_by=("ran_at",),
)

TABLES = (VALIDATIONS,)

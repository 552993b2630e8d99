"""Quality: what validation found. Its rules are in jobs/validation/validity.yaml."""

from schemas.table import Column, Table

VALIDATIONS = Table(
    schema="quality",
    name="validations",
    comment="Findings of each run of validation: one row for each rule that it tried.",
    columns=(
        Column(
            "run",
            "string",
            "<start, UTC>-<random>. Sorts as text in the order of starting.",
            nullable=False,
        ),
        Column("ran_at", "timestamp", "When the run started.", nullable=False),
        Column("subject", "string", "Table whose rows were looked at.", nullable=False),
        Column("rule", "string", "Name of the rule.", nullable=False),
        Column("says", "string", "The condition that the rule asks for.", nullable=False),
        Column(
            "severity",
            "string",
            (
                "critical: history is wrong or is not being made | warning: it is right, but "
                "something hurt it."
            ),
            nullable=False,
        ),
        Column("success", "boolean", "No row violates it.", nullable=False),
        Column(
            "checked",
            "bigint",
            "Rows that it was tried on: what was new since the last run.",
            nullable=False,
        ),
        Column("violations", "bigint", "Rows that violate it.", nullable=False),
        Column(
            "violating",
            "array<string>",
            "The first 200 of them: what names each, as JSON.",
            nullable=False,
        ),
    ),
    key=("run", "subject", "rule"),
    constraints={
        "severity_known": "severity IN ('critical', 'warning')",
        "success_means_none": "success = (violations = 0)",
    },
    cluster_by=("ran_at",),
)

TABLES = (VALIDATIONS,)

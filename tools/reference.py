"""Write the parts of docs/ that the code knows: ``python -m tools.reference``.

They lie between markers (``<!-- NAME: ... -->`` and ``<!-- /NAME -->``): the named queries of
schemas/queries/, the columns of all public tables and views, the options of all data sources, and
the keys of a configuration.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import sqlglot

from jobs.configuration.keys import FILE, REQUIRED
from jobs.configuration.severities import SEVERITIES
from jobs.rules.incidents.finding import BESIDE, OPENERS
from jobs.rules.incidents.links import RULES
from kafka_metadata_history.answers.incidents import words
from kafka_metadata_history.answers.metrics.declared import COUNTER, METRICS
from kafka_metadata_history.answers.questions import about, by_theme, filters_of, option
from metadata_source.options.table import (
    CLUSTER_LOG_OPTIONS,
    GROUP_LOG_OPTIONS,
    OPTIONS,
    TRANSACTION_LOG_OPTIONS,
    Option,
)
from schemas.in_duckdb import in_duckdb
from schemas.known_sql import ELAPSED, EXTRACTED, FUNCTIONS, PATTERNS, TRIED, TRUNCATED, TYPES
from schemas.lake import REFERENCE, TABLES, VIEWS, resolved
from schemas.table import Table, View
from tools.config_schema import default_of

DOCS = Path(__file__).resolve().parents[1] / "docs"
JOBS_OWN = "internal"
"""The schema that is the jobs' own."""

Row = tuple[str, str, str]


def queries() -> str:
    """Return the table of the named queries: theme, name, question, filters."""
    rows = ["| theme | name | question | filters |", "|---|---|---|---|"]
    for theme, name in ((theme, name) for theme, of in by_theme().items() for name in of):
        narrowed = ", ".join(f"`{option(each)}`" for each in filters_of(name))
        rows.append(f"| {theme} | `{name}` | {_cell(' '.join(about(name)))} | {narrowed} |")
    return "\n".join(rows)


def tables() -> str:
    """Return the columns of each public table and view, with types and comments."""
    public = [each for each in (*TABLES, *VIEWS) if each.schema != JOBS_OWN]
    views = columns_of_views()
    return "\n\n".join(_columns(each, views) for each in sorted(public, key=_place))


def options() -> str:
    """Return the option table of `kafka_metadata`."""
    return option_table(OPTIONS)


def group_log_options() -> str:
    """Return the options that `kafka_group_log` has beside those for clusters."""
    return option_table(tuple(each for each in GROUP_LOG_OPTIONS if each not in OPTIONS))


def transaction_log_options() -> str:
    """Return the options that `kafka_transaction_log` has beside those for clusters."""
    return option_table(tuple(each for each in TRANSACTION_LOG_OPTIONS if each not in OPTIONS))


def cluster_log_options() -> str:
    """Return the options that `kafka_cluster_log` has beside those for clusters."""
    return option_table(tuple(each for each in CLUSTER_LOG_OPTIONS if each not in OPTIONS))


def option_table(options: tuple[Option, ...]) -> str:
    """Return options as docs/options.md shows them."""
    rows = ["| option | in | default | meaning |", "|---|---|---|---|"]
    for each in options:
        where = (each.only[0] if each.only else "batch and stream") + (
            ", each cluster" if each.per_cluster else ""
        )
        default = each.derived if each.default is None else f"`{each.default}`"
        rows.append(f"| `{each.name}` | {where} | {default} | {each.meaning} |")
    return "\n".join(rows)


def keys() -> str:
    """Return the keys of a configuration: name, meaning, default."""
    rows = ["| key | meaning | default |", "|---|---|---|"]
    for section, given in FILE.items():
        for name, (_, says) in given.items() if isinstance(given, Mapping) else [("", given)]:
            meaning, _, default = says.removesuffix(".").partition(". Default: ")
            whole = ".".join(filter(None, (section, name)))
            default = "required" if whole in REQUIRED else default or default_of(section, name)
            rows.append(f"| `{whole}` | {_cell(meaning)} | {'' if default is None else default} |")
    return "\n".join(rows)


def known_functions() -> str:
    """Return what of Spark's SQL DuckDB is known to answer with Spark's values."""
    rows = (
        ("functions", FUNCTIONS),
        ("types of `CAST`", TYPES),
        ("types of `TRY_CAST` of a text", TRIED),
        ("units of `datediff(UNIT, a, b)` and `timestampdiff`", ELAPSED),
        ("units of `date_trunc`", TRUNCATED),
        ("fields of `EXTRACT`", EXTRACTED),
        ("letters of `date_format`", PATTERNS),
    )
    lines = (
        f"| {what} | {', '.join(f'`{each}`' for each in sorted(known))} |" for what, known in rows
    )
    return "\n".join(("| | known |", "|---|---|", *lines))


def kinds() -> str:
    """Return the kinds of findings: whether they open an incident, and what they mean."""
    rows = ["| kind | | meaning |", "|---|---|---|"]
    for kind in words.SENTENCES:
        opens = "opens" if kind in OPENERS else "beside" if kind in BESIDE else "attached"
        rows.append(f"| `{kind}` | {opens} | {_cell(words.meaning(kind))} |")
    return "\n".join(rows)


def causes() -> str:
    """Return the causes of incidents: what each means, and what metadata does not show of it."""
    rows = ["| cause | meaning | not in metadata |", "|---|---|---|"]
    for name, of in words.CAUSES.items():
        said = of.said.replace("{of}", "N")
        rows.append(f"| `{name}` | {_cell(said)} | {_cell(of.hidden)} |")
    return "\n".join(rows)


def rules() -> str:
    """Return the rules that tie findings, in the order in which they are tried."""
    rows = ["| rule | a finding | follows from | if it began | |", "|---|---|---|---|---|"]
    for each in RULES:
        bounds = [f"{each.before} s before to {each.after} s after it"]
        bounds += ["while it lasted"] if each.lasting else []
        bounds += [f"{each.after} s after its end"] if each.from_end else []
        kinds = ", ".join(f"`{kind}`" for kind in each.to)
        why = f"{each.why} (inferred)" if each.guess else each.why
        when = ", or ".join(bounds)
        rows.append(f"| `{each.name}` | {kinds} | `{each.of}` | {when} | {_cell(why)} |")
    return "\n".join(rows)


def severities() -> str:
    """Return the severity of each kind of finding, and after how long."""
    rows = ["| kind | severity |", "|---|---|"]
    rows += [f"| `{kind}` | {each} |" for kind, each in SEVERITIES.items()]
    return "\n".join(rows)


def metrics() -> str:
    """Return the metrics of Kafka's state: name, labels, meaning, when it is absent."""
    rows = ["| metric | labels | meaning | absent |", "|---|---|---|---|"]
    for each in METRICS:
        name = f"{each.name}_total" if each.kind == COUNTER else each.name
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{name}` | {labels} | {_cell(each.says)} | {_cell(each.absent)} |")
    return "\n".join(rows)


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("configuration.md", "keys"): keys,
    ("incidents.md", "kinds"): kinds,
    ("incidents.md", "causes"): causes,
    ("incidents.md", "rules"): rules,
    ("incidents.md", "severities"): severities,
    ("metrics.md", "metrics"): metrics,
    ("queries.md", "queries"): queries,
    ("queries.md", "known SQL"): known_functions,
    ("tables.md", "tables"): tables,
    ("options.md", "options"): options,
    ("options.md", "options of kafka_group_log"): group_log_options,
    ("options.md", "options of kafka_transaction_log"): transaction_log_options,
    ("options.md", "options of kafka_cluster_log"): cluster_log_options,
}
"""File of docs/ and name of the markers -> what writes the part between them."""


def columns_of_views() -> dict[str, list[Row]]:
    """Return the columns of each view: name, type in Spark's SQL, comment.

    Names and types are those that DuckDB finds. A comment is that of the view (`meanings`), or else
    of the column of this name in the table or view with which it shares most columns.
    """
    found: dict[str, list[Row]] = {
        table.full_name: [(each.name, each.type, each.comment) for each in table.columns]
        for table in TABLES
    }
    with duckdb.connect() as database:
        for schema in {each.schema for each in (*TABLES, *VIEWS)}:
            database.execute(f"CREATE SCHEMA {schema}")
        for table in TABLES:
            columns = ", ".join(f"`{each.name}` {each.type}" for each in table.columns)
            database.execute(in_duckdb(f"CREATE TABLE {table.full_name} ({columns})"))
        for view in VIEWS:
            query = in_duckdb(resolved(view.query, lambda name: name))
            database.execute(f"CREATE VIEW {view.full_name} AS {query}")
            described = database.execute(f"DESCRIBE {view.full_name}").fetchall()
            own = {name for name, *_ in described}
            read = sorted(
                (found[name] for name in REFERENCE.findall(view.query)),
                key=lambda rows: len(own.intersection(name for name, *_ in rows)),
            )
            comments = {name: comment for rows in read for name, _, comment in rows} | dict(
                view.meanings
            )
            found[view.full_name] = [
                (name, _type_in_spark(kind), comments[name]) for name, kind, *_ in described
            ]
    return found


def _type_in_spark(kind: str) -> str:
    return (
        sqlglot.exp.DataType.build(kind, dialect="duckdb").sql("spark").lower().replace(": ", ":")
    )


def _place(each: Table | View) -> tuple[int, bool, str]:
    schemas = list(dict.fromkeys(table.schema for table in TABLES))
    return schemas.index(each.schema), isinstance(each, View), each.name


def _columns(of: Table | View, found: dict[str, list[Row]]) -> str:
    kind = "View. " if isinstance(of, View) else ""
    rows = (
        f"| `{name}` | `{kind_}` | {_cell(comment)} |"
        for name, kind_, comment in found[of.full_name]
    )
    head = (
        f"### {of.full_name}",
        "",
        _wrapped(f"{kind}{of.comment}"),
        "",
        "| column | type | meaning |",
        "|---|---|---|",
    )
    return "\n".join((*head, *rows))


def _cell(text: str) -> str:
    """Text as a cell of a table holds it: no end of a cell, no tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _wrapped(text: str, width: int = 120) -> str:
    lines = [""]
    for word in text.replace("<", "&lt;").split():
        if len(f"{lines[-1]} {word}") > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def current(file: str) -> str:
    """Return a file of docs/ as it should be: with the parts that the code knows."""
    text = (DOCS / file).read_text(encoding="utf-8")
    for (of, name), part in PARTS.items():
        if of == file:
            head, end = f"<!-- {name}: python -m tools.reference -->\n\n", f"\n\n<!-- /{name} -->"
            before, after = text.split(head)[0], text.split(end)[1]
            text = f"{before}{head}{part()}{end}{after}"
    return text


def main() -> None:
    """Write the files."""
    for file in dict.fromkeys(file for file, _ in PARTS):
        (DOCS / file).write_text(current(file), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Notebooks, run in this process, of a history that is known (tests/support/incident.py)."""

import ast
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import nbformat
import pyarrow as pa
import pytest

from kafka_metadata_history.answers.questions import QueryError
from notebooks import render, review
from schemas import bronze
from schemas.in_duckdb import in_duckdb
from schemas.lake import TABLES, VIEWS, named_in
from schemas.table import Table, View
from tests.support.duckdb_lake import duckdb_lake, framing
from tests.support.incident_groups import known_rows


def shown(name: str, **parameters: object) -> list[object]:
    """What the cells of a notebook show."""
    found = []
    names_there: dict[str, object] = {}
    notebook = render.with_parameters(
        nbformat.read(render.FOLDER / f"{name}.ipynb", as_version=4), parameters
    )
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        *lines, last = ast.parse(cell.source.replace("%reset -f", "pass")).body
        exec(compile(ast.Module(lines, []), name, "exec"), names_there)  # noqa: S102 - our own notebook
        if isinstance(last, ast.Expr):
            found.append(eval(compile(ast.Expression(last.value), name, "eval"), names_there))  # noqa: S307
        else:
            exec(compile(ast.Module([last], []), name, "exec"), names_there)  # noqa: S102
    return found


@contextmanager
def known_to_duckdb(without: Collection[Table | View] = ()) -> Iterator[None]:
    """Whatever lake is opened, DuckDB answers of the known one.

    That Spark answers the same is in tests/notebooks, of one notebook, and in long runs of each.
    """
    with (
        duckdb_lake({bronze.METADATA_POLLS: [], **known_rows()}, VIEWS) as lake,
        pytest.MonkeyPatch.context() as patch,
    ):

        def rows(sql: str) -> pa.Table:
            if missing := named_in(sql) - set(names):
                raise QueryError(f"DuckDB: no table {min(missing)}")
            return lake.sql(in_duckdb(sql)).to_arrow_table()

        names = [each.full_name for each in (*TABLES, *VIEWS) if each not in without]
        patch.setattr(review, "_open", lambda _: review.Opened("known", names, framing(lake), rows))
        yield

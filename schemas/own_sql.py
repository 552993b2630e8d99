"""SQL that a person writes, in DuckDB's words: translated where DuckDB's value is known to be Spark's, refused by name
where it is not. `schemas.known_sql` has what is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from schemas.in_duckdb import NoQueryError, said_of, translated
from schemas.known_sql import (
    ELAPSED,
    EXTRACTED,
    FORMS,
    MACROS,
    MADE,
    OWN,
    PATTERNS,
    SAME,
    TRIED,
    TRUNCATED,
    TYPES,
    OwnSpark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
"""A part of a pattern of Spark's date_format: quoted text, one letter repeated, other text."""
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)


class NotKnownError(ValueError):
    """Raised for a query of which DuckDB is not known to have Spark's value: by what. A few words."""


def prepare(database: duckdb.DuckDBPyConnection) -> None:
    """Put the macros that translated queries call into a database."""
    database.execute(MACROS)


def own_in_duckdb(sql: str) -> str:
    """One query of Spark's SQL as DuckDB has it, with the macros of `prepare`. Raises NoQueryError for anything else,
    NotKnownError for what is not known to have Spark's value.
    """
    try:
        if any(token.token_type is TokenType.PIPE_GT for token in OwnSpark().tokenize(sql)):
            raise NotKnownError("|>")
        parsed = sqlglot.parse_one(sql, read=OwnSpark)
    except SqlglotError as error:
        raise NoQueryError(said_of(error)) from error
    if not isinstance(parsed, exp.Query):
        raise NoQueryError("not a query (SELECT)")
    for unknown in _unknown(parsed):
        raise NotKnownError(unknown)
    return translated(_changed(parsed))


def _changed(parsed: exp.Expr) -> exp.Expr:
    """Put macros in place, from the leaves up: a function's arguments may hold others."""
    for node in reversed(list(parsed.dfs())):
        if (made := _with_macros(node)) is not node:
            node.replace(made)
    return parsed


def _unknown(parsed: exp.Expr) -> Iterator[str]:
    for node in parsed.walk():
        yield from _unknown_in(node)


def _unknown_in(node: exp.Expr) -> Iterator[str]:
    """Yield what of a node, without those below it, is not known."""
    name = node.meta.get(OwnSpark.ORIGINAL_NAME_META_KEY) if isinstance(node, exp.Func) else None
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in SAME | OWN | MADE:
            yield f"the function {node.name.lower()}"
    elif name is None and type(node).__name__ not in FORMS:
        yield _words(node)
    yield from _unknown_arguments(node)


def _unknown_arguments(node: exp.Expr) -> Iterator[str]:
    """Yield what is not known of a node that is known with some arguments alone."""
    match node:
        case exp.TryCast() if _type(node) not in TRIED:
            yield f"TRY_CAST AS {node.to.sql('spark')}"
        case exp.Cast() if not isinstance(node, exp.TryCast) and _type(node) not in TYPES:
            yield f"CAST AS {node.to.sql('spark')}"
        case exp.TimestampTrunc() | exp.DateTrunc() if node.text("unit").upper() not in TRUNCATED:
            yield f"date_trunc of {node.args['unit'].sql('spark')}"
        case exp.Extract() if node.name.upper() not in EXTRACTED:
            yield f"EXTRACT of {node.name}"
        case exp.Bracket() if not all(each.is_string for each in node.expressions):
            yield "[ ] of an array; get(array, place) is"
        case exp.Tuple() if not isinstance(node.parent, exp.In | exp.Values):
            yield "(a, b) as one value"
        case exp.Struct() if isinstance(node.parent, _COMPARED):
            yield "a comparison of structs"
        case exp.Struct() if any(each.is_string or each.is_number for each in node.expressions):
            yield "a struct of values without a name"
        case exp.Lateral() if node.args.get("outer") or not isinstance(node.this, exp.Explode):
            yield "this LATERAL VIEW"
        case exp.RegexpReplace() if not _is_plain(node.args["replacement"]):
            yield "regexp_replace by a text with $ or \\"
        case exp.Substring() if not _is_place(node.args.get("start")):
            yield "substring from a place that is no number of 1 or more"
        case exp.Lambda() if len(node.expressions) > 1 and not isinstance(node.parent, exp.Reduce):
            yield "a lambda of two"
        case exp.ArraySort() if isinstance(node.expression, exp.Lambda):
            yield "array_sort by a lambda"
        case exp.GroupConcat() if not node.args.get("separator"):
            yield "listagg without a separator"
        case exp.Reduce() if node.args.get("finish"):
            yield "aggregate with a lambda for the end"
        case exp.Anonymous() if node.name.lower() in MADE:
            yield from _unknown_made(node)
        case _:
            pass


def _unknown_made(node: exp.Anonymous) -> Iterator[str]:
    name, arguments = node.name.lower(), node.expressions
    if name in {"exists", "forall"}:
        return
    if name == "date_format":
        pattern = arguments[1] if len(arguments) == 2 else None
        if pattern is None or not pattern.is_string or _strftime(pattern.this) is None:
            yield "date_format with such a pattern"
    elif len(arguments) == 3 and arguments[0].name.upper() not in ELAPSED:
        yield f"{name} of {arguments[0].name}"
    elif len(arguments) not in ({3} if name == "timestampdiff" else {2, 3}):
        yield f"{name} of so many"


def _words(node: exp.Expr) -> str:
    return " ".join(re.findall(r"[A-Z]+[a-z]*", type(node).__name__)).upper()


def _type(node: exp.Cast) -> str:
    return node.to.sql("spark").partition("(")[0].upper()


def _is_plain(text: exp.Expr) -> bool:
    return text.is_string and not {"$", "\\"} & set(text.this)


def _is_place(start: exp.Expr | None) -> bool:
    return start is not None and start.is_int and int(start.sql()) >= 1


def _strftime(pattern: str) -> str | None:
    """A pattern of Spark's date_format as strftime's; None if it is not known."""
    made = ""
    at = 0
    for part in _PATTERN.finditer(pattern):
        if part.start() != at:
            return None
        at = part.end()
        if part[2] is None:
            text = part[0] if part[1] is None else part[1].replace("''", "'") or "'"
            made += text.replace("%", "%%")
        elif part[0] in PATTERNS:
            made += PATTERNS[part[0]]
        else:
            return None
    return made if at == len(pattern) and not set("#{}[]") & set(pattern) else None


def _with_macros(node: exp.Expr) -> exp.Expr:
    """The macros in place of what DuckDB lacks, or has with another value."""
    match node:
        case exp.Anonymous():
            return _called(node)
        case exp.TryCast():
            return exp.func(f"op_try_{_type(node).lower()}", node.this)
        case exp.Cast():
            kind = _type(node).lower()
            literal = node.this.is_string and kind in {"timestamp", "string"}
            if kind in {"string", "int", "bigint", "double", "timestamp"} and not literal:
                return exp.func(f"op_{kind}", node.this)
        case exp.Div():
            return exp.func("op_divide", node.this, node.expression)
        case exp.Add() | exp.Sub() if not (node.this.is_number or node.expression.is_number):
            return exp.func("op_plus" if isinstance(node, exp.Add) else "op_minus", node.this, node.expression)
        case exp.Min() | exp.Max():
            node.set("this", exp.func("op_ordered", node.this))
        case exp.Avg():
            node.set("this", exp.func("op_not_decimal", node.this))
        case exp.Like() | exp.ILike() if not isinstance(node.parent, exp.Escape):
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
        case exp.DPipe():
            node.set("this", _as_text(node.this))
            node.set("expression", _as_text(node.expression))
        case exp.ConcatWs():
            node.set("expressions", [exp.func("op_joined", each) for each in node.expressions])
        case exp.Concat():
            node.set("expressions", [_as_text(each) for each in node.expressions])
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() if _may_nest(node.this) and _may_nest(node.expression):
            node.set("this", exp.func("op_ordered", node.this))
        case _:
            pass
    return node


def _may_nest(side: exp.Expr) -> bool:
    return isinstance(side, exp.Column | exp.Dot | exp.Array | exp.Struct | exp.Anonymous)


def _as_text(node: exp.Expr) -> exp.Expr:
    return node if node.is_string else exp.func("op_string", node)


def _called(node: exp.Anonymous) -> exp.Expr:
    name, arguments = node.name.lower(), node.expressions
    if name in {"exists", "forall"}:
        return exp.func(f"op_{name}", exp.func("list_transform", *arguments))
    if name == "date_format":
        time = exp.cast(arguments[0], "timestamptz")
        return exp.func("strftime", time, exp.Literal.string(_strftime(arguments[1].this) or ""))
    if name in MADE and len(arguments) == 3:
        unit, since, until = arguments
        return exp.func("op_elapsed", since, until, exp.Literal.number(ELAPSED[unit.name.upper()]))
    return exp.func(f"spark_{name}", *arguments) if name in OWN else node

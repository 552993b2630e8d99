"""SQL that a person writes, in DuckDB's words: translated where DuckDB's value is known to be
Spark's, refused by name where it is not. `schemas.known_sql` has what is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from metadata_source.errors import KafkaMetadataHistoryError
from schemas.in_duckdb import NoQueryError, said_of, translated
from schemas.known_sql import (
    ALIASES,
    ELAPSED,
    EXTRACTED,
    FORMS,
    FUNCTIONS,
    MACROS,
    MADE,
    OWN,
    PATTERNS,
    TRIED,
    TRUNCATED,
    TYPES,
    OwnSpark,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import duckdb

_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
"""A part of a pattern of Spark's date_format: quoted text, one letter repeated, other text."""
_COMPARED = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.In,
)


class NotKnownError(KafkaMetadataHistoryError, ValueError):
    """Raised for what DuckDB is not known to answer as Spark does: by what. A few words."""


def prepare(database: duckdb.DuckDBPyConnection) -> None:
    """Put the macros that translated queries call into a database."""
    database.execute(MACROS)


def own_in_duckdb(sql: str) -> str:
    """One query of Spark's SQL as DuckDB has it, with the macros of `prepare`. Raises NoQueryError
    for anything else, NotKnownError for what is not known to have Spark's value.
    """
    try:
        if any(token.token_type.name == "PIPE_GT" for token in OwnSpark().tokenize(sql)):
            raise NotKnownError("|>")
        parsed = sqlglot.parse_one(sql, read=OwnSpark)
    except SqlglotError as error:
        raise NoQueryError(said_of(error)) from error
    if not isinstance(parsed, exp.Query):
        raise NoQueryError("not a query (SELECT)")
    if unknown := next(filter(None, map(_unknown, parsed.walk())), None):
        raise NotKnownError(unknown)
    return translated(_changed(parsed))


def _changed(parsed: exp.Expr) -> exp.Expr:
    """Put macros in place, from the leaves up: a function's arguments may hold others."""
    for node in reversed(list(parsed.dfs())):
        if (made := _with_macros(node)) is not node:
            node.replace(made)
    return parsed


def _unknown(node: exp.Expr) -> str | None:
    """Say what of a node, without those below it, is not known; None if all is."""
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in FUNCTIONS:
            return f"the function {node.name.lower()}"
    elif type(node).__name__ not in FORMS and not _has_known_name(node):
        return _words(node)
    return _unknown_arguments(node)


def _has_known_name(node: exp.Expr) -> bool:
    """Whether sqlglot made a node of a function by its name: of SAME, since it knows no other."""
    return isinstance(node, exp.Func) and OwnSpark.ORIGINAL_NAME_META_KEY in node.meta


def _unknown_arguments(node: exp.Expr) -> str | None:
    """Say what is not known of a node that is known with some arguments alone."""
    look = _LIMITED.get(type(node))
    return None if look is None else look(node)


def _limited(is_known: Callable[[Any], bool], what: str) -> Callable[[Any], str | None]:
    """Make a look at a node: `what` is not known, with its own words in `{}`, unless `is_known`."""
    return lambda node: None if is_known(node) else what.format(node.sql("spark"))


_UNITS = _limited(lambda node: node.text("unit").upper() in TRUNCATED, "{}")
_LIMITED: Final[Mapping[type[exp.Expr], Callable[[Any], str | None]]] = {
    exp.TryCast: _limited(lambda node: _type(node) in TRIED, "{}"),
    exp.Cast: _limited(
        lambda node: _type(node) in TYPES and node.to.sql("spark").upper() != "DECIMAL", "{}"
    ),
    exp.TimestampTrunc: _UNITS,
    exp.DateTrunc: _UNITS,
    exp.Extract: _limited(lambda node: node.name.upper() in EXTRACTED, "{}"),
    exp.Bracket: _limited(
        lambda node: all(each.is_string for each in node.expressions),
        "[ ] of an array (get(array, place) is)",
    ),
    exp.Tuple: _limited(
        lambda node: isinstance(node.parent, exp.In | exp.Values), "{} as one value"
    ),
    exp.HexString: _limited(
        lambda node: isinstance(node.parent, exp.Cast) and _type(node.parent) == "STRING",
        "{} as bytes",
    ),
    exp.Struct: _limited(
        lambda node: not isinstance(node.parent, _COMPARED), "a comparison of structs"
    ),
    exp.Lateral: _limited(
        lambda node: isinstance(node.this, exp.Explode) and not node.args.get("outer"),
        "this LATERAL VIEW",
    ),
    exp.RegexpReplace: _limited(
        lambda node: _is_plain(node.args["replacement"]),
        "regexp_replace by other than a text without $ and \\",
    ),
    exp.Substring: _limited(
        lambda node: _is_place(node.args.get("start"), 1) and _has_known_length(node),
        "substring from other than a number from 1, or of a length that may be negative",
    ),
    exp.Lambda: _limited(
        lambda node: len(node.expressions) == 1 or isinstance(node.parent, exp.Reduce),
        "a lambda of two",
    ),
    exp.ArraySort: _limited(
        lambda node: not isinstance(node.expression, exp.Lambda), "array_sort by a lambda"
    ),
    exp.GroupConcat: _limited(
        lambda node: node.args.get("separator") is not None, "listagg without a separator"
    ),
    exp.Reduce: _limited(
        lambda node: node.args.get("finish") is None, "aggregate with a lambda for the end"
    ),
    exp.Anonymous: lambda node: _unknown_made(node) if node.name.lower() in MADE else None,
}
"""Form -> what is not known of one, None if all is."""


def _unknown_made(node: exp.Anonymous) -> str | None:
    name, arguments = node.name.lower(), node.expressions
    if name == "date_format":
        pattern = arguments[1] if len(arguments) == 2 else None
        is_known = pattern is not None and pattern.is_string and _strftime(pattern.this) is not None
    elif name in {"exists", "forall"}:
        is_known = len(arguments) == 2
    elif len(arguments) == 3:
        is_known = arguments[0].name.upper() in ELAPSED
    else:
        is_known = len(arguments) == 2 and name != "timestampdiff"
    return None if is_known else node.sql("spark")


def _words(node: exp.Expr) -> str:
    return " ".join(re.findall(r"[A-Z]+[a-z]*", type(node).__name__)).upper()


def _type(node: exp.Cast) -> str:
    return node.to.sql("spark").partition("(")[0].upper()


def _is_plain(text: exp.Expr) -> bool:
    return text.is_string and not {"$", "\\"} & set(text.this)


def _is_place(number: exp.Expr | None, least: int) -> bool:
    return number is not None and number.is_int and int(number.sql()) >= least


def _has_known_length(node: exp.Substring) -> bool:
    """DuckDB counts a negative length backwards, and finds nothing before the first character."""
    length = node.args.get("length")
    return length is None or _is_place(length, 0) or node.args["start"].sql() == "1"


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
    make = _MADE_BY.get(type(node))
    return node if make is None else make(node)


def _cast(node: exp.Cast) -> exp.Expr:
    kind = _type(node).lower()
    is_text = isinstance(node.this, exp.HexString) or (
        node.this.is_string and kind in {"timestamp", "string"}
    )
    if kind == "decimal":
        return _guarded(node, "op_decimal")
    return exp.func(f"op_{kind}", node.this) if kind in _CAST_BY and not is_text else node


def _sum(node: exp.Binary, macro: str) -> exp.Expr:
    """Of a number that is written there neither side is a time."""
    has_number = node.this.is_number or node.expression.is_number
    return node if has_number else exp.func(macro, node.this, node.expression)


def _guarded(node: exp.Expr, macro: str, key: str = "this") -> exp.Expr:
    """Hold what an expression has under `key` against a macro, in place."""
    value = node.args[key]
    node.set(
        key,
        [exp.func(macro, each) for each in value]
        if isinstance(value, list)
        else exp.func(macro, value),
    )
    return node


def _joined(node: exp.Expr, *keys: str) -> exp.Expr:
    """Hold the parts of a text against `op_string`, but for those that are texts already: a macro
    writes its argument several times, so a chain of them would grow without bound.
    """
    for key in keys:
        parts = node.args[key] if isinstance(node.args[key], list) else [node.args[key]]
        made = [each if _is_text(each.unnest()) else exp.func("op_string", each) for each in parts]
        node.set(key, made if isinstance(node.args[key], list) else made[0])
    return node


def _is_text(part: exp.Expr) -> bool:
    return part.is_string or isinstance(part, exp.DPipe | exp.Concat)


def _compared(node: exp.Binary) -> exp.Expr:
    return (
        _guarded(node, "op_ordered")
        if _may_nest(node.this) and _may_nest(node.expression)
        else node
    )


def _like(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Escape):
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _truncated(node: exp.Expr) -> exp.Expr:
    node.set("this", exp.cast(node.this, "timestamptz", dialect="duckdb"))
    return node


def _called(node: exp.Anonymous) -> exp.Expr:
    name, arguments = ALIASES.get(node.name.lower(), node.name.lower()), node.expressions
    if name in {"exists", "forall"}:
        return exp.func(f"op_{name}", exp.func("list_transform", *arguments))
    if name == "date_format":
        time = exp.cast(arguments[0], "timestamptz")
        return exp.func("strftime", time, exp.Literal.string(_strftime(arguments[1].this) or ""))
    if name in MADE and len(arguments) == 3:
        unit, since, until = arguments
        return exp.func("op_elapsed", since, until, exp.Literal.number(ELAPSED[unit.name.upper()]))
    return exp.func(f"spark_{name}", *arguments) if name in OWN else node


_CAST_BY: Final = {"string", "int", "bigint", "double", "timestamp"}
_MADE_BY: Final[Mapping[type[exp.Expr], Callable[[Any], exp.Expr]]] = {
    exp.Anonymous: _called,
    exp.TryCast: lambda node: exp.func(f"op_try_{_type(node).lower()}", node.this),
    exp.Cast: _cast,
    exp.Div: lambda node: exp.func("op_divide", node.this, node.expression),
    exp.Add: lambda node: _sum(node, "op_plus"),
    exp.Sub: lambda node: _sum(node, "op_minus"),
    exp.GT: _compared,
    exp.GTE: _compared,
    exp.LT: _compared,
    exp.LTE: _compared,
    exp.Like: _like,
    exp.ILike: _like,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.Min: lambda node: _guarded(node, "op_ordered"),
    exp.Max: lambda node: _guarded(node, "op_ordered"),
    exp.Greatest: lambda node: _guarded(node, "op_ordered"),
    exp.Least: lambda node: _guarded(node, "op_ordered"),
    exp.Avg: lambda node: _guarded(node, "op_number"),
    exp.Median: lambda node: _guarded(node, "op_number"),
    exp.DPipe: lambda node: _joined(node, "this", "expression"),
    exp.Concat: lambda node: _joined(node, "expressions"),
    exp.ConcatWs: lambda node: _guarded(node, "op_joined", "expressions"),
}
"""Form -> what is put in its place; what is below it has been."""


def _may_nest(side: exp.Expr) -> bool:
    return isinstance(side, exp.Column | exp.Dot | exp.Array | exp.Struct | exp.Anonymous)

"""Spark's SQL that DuckDB answers with Spark's values: what is known, as data. All else is refused
by its name.

A function is known if it is in SAME (sqlglot's translation has Spark's value) or has a macro in
spark_functions.sql. tests/spark/test_two_engines.py holds each function, form and type against
Spark.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import expressions as exp

MACROS: Final = Path(__file__).with_name("spark_functions.sql").read_text("utf-8")
OWN: Final = frozenset(re.findall(r"^CREATE MACRO spark_(\w+)", MACROS, re.MULTILINE))
"""Functions that DuckDB has by a macro."""

_SAME = """
count sum min max avg mean count_if collect_list collect_set array_agg max_by min_by bool_or
bool_and stddev stddev_samp
stddev_pop variance var_samp var_pop median covar_pop covar_samp listagg string_agg
row_number rank dense_rank lag lead first_value last_value nth_value ntile percent_rank cume_dist
abs sqrt pow power exp pi greatest least if coalesce nullif nvl nvl2 ifnull
upper ucase lower lcase length char_length character_length len substring substr ltrim rtrim concat
concat_ws replace
split split_part lpad rpad instr locate repeat reverse startswith endswith contains regexp_replace
regexp_extract
regexp_extract_all regexp_like regexp_count translate md5 sha1 hex
date_trunc hour minute second quarter make_date timestampadd
array array_size array_join array_sort sort_array array_max array_min array_append transform filter
aggregate reduce
slice element_at map_keys map_values map_from_entries struct named_struct explode
"""
SAME: Final = frozenset(_SAME.split())
"""Functions that sqlglot translates to what has Spark's value."""

MADE: Final = frozenset(
    {"date_format", "exists", "forall", "datediff", "date_diff", "timestampdiff"}
)
"""Functions that are made of several in `schemas.own_sql`."""

ALIASES: Final = {
    "ceiling": "ceil",
    "current_timestamp": "now",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "dayofmonth": "day",
    "to_unix_timestamp": "unix_timestamp",
}
"""Function -> another name of the same one, which has the macro."""

FUNCTIONS: Final = SAME | OWN | MADE | ALIASES.keys()
"""All functions that are known, as Spark names them."""

TYPES: Final = frozenset(
    ("STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL")
)
"""What CAST is known for."""
TRIED: Final = frozenset(("INT", "BIGINT"))
"""What TRY_CAST of a STRING is known for."""

ELAPSED: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 7 * 86_400_000_000,
}
"""Units of datediff(UNIT, ...) and timestampdiff, in microseconds. Months are of no one length."""
TRUNCATED: Final = frozenset(
    (
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
    )
)
"""Units of date_trunc."""
EXTRACTED: Final = frozenset(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE"))
"""Fields of EXTRACT."""

PATTERNS: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "M": "%-m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "a": "%p",
    "E": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "XXX": "Z",
    "X": "Z",
}
"""Letters of date_format -> strftime's. All times are UTC."""

_FORMS = """
Select From Where Group Having Order Ordered Limit Offset Distinct With CTE Subquery Union Intersect
Except Values Table TableAlias Identifier Alias Column Star Join Lateral Window WindowSpec Filter
IgnoreNulls WithinGroup Qualify Literal Boolean Null RawString Paren Neg Not And Or Xor Is In
Between Case If EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Add Sub Mul Div Mod IntDiv DPipe Like
ILike Escape RegexpLike Dot Bracket Cast TryCast DataType DataTypeParam Interval IntervalUnit Var
Lambda Extract Trim StrPosition Substring Exists CurrentDate CurrentTimestamp PropertyEQ Tuple
Anonymous Transform ArgMax ArgMin GroupConcat HexString
"""
FORMS: Final = frozenset(_FORMS.split())
"""Forms of SQL that are known, as sqlglot's classes."""


class OwnSpark(Spark):
    """Spark 4's SQL with the functions of SAME alone: sqlglot knows no other by its name."""

    ORIGINAL_NAME_META_KEY = "spark_name"

    class Tokenizer(Spark.Tokenizer):
        """A quote that is written twice is one, as Spark has it."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        """All other functions stay as they are: `schemas.own_sql` knows them, or refuses them."""

        STRICT_CAST = True
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            name: build for name, build in SparkParser.FUNCTIONS.items() if name.lower() in SAME
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            name: parse
            for name, parse in SparkParser.FUNCTION_PARSERS.items()
            if name in {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR"}
            or name.lower() in SAME
        }

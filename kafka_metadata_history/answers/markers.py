"""Values in the place of a query's parameter markers (`:since`).

Spark 4.2 binds markers while it parses, which Delta 4.4's parser passes by (delta-io/delta#7640).
In a classic session a setting makes up for that; over Spark Connect nothing does.
"""

import re
from collections.abc import Mapping

_MARKER_OR_TEXT = re.compile(
    r"""--[^\n]* | /\*.*?\*/                          # comments
      | [rR]'[^']*' | [rR]"[^"]*"                     # texts without escapes
      | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
      | (?<![\w:)\]`'"]):(?P<name>[A-Za-z_]\w*)       # no cast (x::int), nor a field (x:name)
    """,
    re.VERBOSE | re.DOTALL,
)


def with_values(sql: str, values: Mapping[str, object]) -> str:
    """A query with the value (text, whole number or None) of each marker that has one."""

    def value(found: re.Match[str]) -> str:
        return literal(values[found["name"]]) if found["name"] in values else found[0]

    return _MARKER_OR_TEXT.sub(value, sql)


def markers_of(sql: str) -> set[str]:
    """The names of a query's markers."""
    return {found["name"] for found in _MARKER_OR_TEXT.finditer(sql) if found["name"]}


def literal(value: object) -> str:
    """A value as SQL writes it. Of a text its bytes: no character of it can end the literal,
    whatever the settings.
    """
    if value is None:
        return "NULL"
    return (
        str(value) if isinstance(value, int) else f"CAST(X'{str(value).encode().hex()}' AS STRING)"
    )

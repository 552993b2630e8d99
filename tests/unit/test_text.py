"""Text for people: names of a cluster that would do something to a terminal do not."""

import pytest

from jobs.common.cli import one_line
from metadata_source.text import printable, text_table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-1 größe 注文", "orders-1 größe 注文"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("a\x9b2Jb", r"a\x9b2Jb"),  # the same as ESC [ in one character
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\u2028b\u200bc\u00a0d", r"a\u2028b\u200bc\xa0d"),
        ("a\ud800", r"a\ud800"),
    ],
)
def test_what_is_not_shown_as_itself_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_table_keeps_its_lines_and_columns() -> None:
    assert text_table(("name\n", "count"), [("a\nb", 1), ("\x1b[31mred", 22), (None, None)]) == [
        r"name\n       count",
        "-----------  -----",
        r"a\nb             1",
        r"\x1b[31mred     22",
        "",
    ]


def test_an_error_is_printable() -> None:
    assert one_line(RuntimeError("group \x1b[2J is odd")) == r"group \x1b[2J is odd"

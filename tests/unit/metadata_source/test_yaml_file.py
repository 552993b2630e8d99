"""A file of values: read, or refused in one line that shows none of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.yaml_file import kind_of, parse_yaml, read_text, truth
from tests.support.for_each import for_each


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "file.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def read_yaml(file: Path) -> object:
    return parse_yaml(read_text(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "password: hunter2: x",
            r"not YAML: mapping values are not allowed here \(line 1, column 18\)",
        ),
        ("a: 1\npassword: [hunter2", r"not YAML: .* \(line 2, column 19\)"),
        ('password: "hunter2\\y"', r"found unknown escape character 'y' \(line 1, column 20\)"),
        (
            "password: @hunter2",
            r"found character '@' that cannot start any token \(line 1, column 11\)",
        ),
        ("password: *hunter2", r"found undefined alias \.\.\. \(line 1, column 11\)"),
        (
            "password: !hunter2",
            r"could not determine a constructor for the tag \.\.\. \(line 1, column 11\)",
        ),
        (
            "password: !hunter2's",
            r"could not determine a constructor for the tag \.\.\. \(line 1, column 11\)",
        ),
        ("password: !hunter2!x", r"found undefined tag handle \.\.\. \(line 1, column 11\)"),
        *(
            (
                f"password: !!{tag} hunter2",
                r"a value has a tag such as !!int, .*: leave it out, .* \(line 1, column 11\)",
            )
            for tag in ("int", "float", "bool", "timestamp", "binary")
        ),
        *(
            (f"a: !!{tag} {{hunter2: 1}}", "a value has a tag such as !!int")
            for tag in ("set", "omap", "pairs")
        ),
        ("password: hunter2\0", "not YAML: it holds a character that YAML does not allow"),
        (b"password: hunter2\xff", "not YAML: not UTF-8 text"),
        ("? [hunter2]\n: x\n", r"not YAML: found unhashable key \(line 1, column 3\)"),
        ("a: 1\na: 2", r"not YAML: a is given twice \(line 1, column 1\)"),
        (
            "password: hunter2\na: " + "[" * 5_000,
            "not YAML that can be read: it is nested too deeply",
        ),
        (
            "password: hunter2\na: " + "{a: " * 5_000,
            "not YAML that can be read: it is nested too deeply",
        ),
    ],
)
def test_a_problem_is_one_line_that_shows_no_value(
    tmp_path: Path, text: str | bytes, says: str
) -> None:
    with pytest.raises(ValueError, match=says) as error:
        read_yaml(written(tmp_path, text))
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)


AS_WRITTEN = [
    "03303560",
    "12_34",
    "0o17",
    "0x1f",
    "1e3",
    "-.inf",
    ".nan",
    "+5",
    "007",
    "1.50",
    "9223372036854775808",
    *("1:30", "2026-11-22T09:00:00Z", "2026-11-01", "2026-13-45"),
    *("no", "Off", "True", "y", "="),
]


@for_each("text", AS_WRITTEN)
def test_a_text_is_what_is_written(tmp_path: Path, text: str) -> None:
    """As a value, in a list, and as a name; with quotes and without."""
    for form in (text, f"'{text}'", f'"{text}"', f"!!str {text}"):
        assert read_yaml(written(tmp_path, f"a: {form}")) == {"a": text}
        assert read_yaml(written(tmp_path, f"[{form}, x]")) == [text, "x"]
        assert read_yaml(written(tmp_path, f"{form}: x")) == {text: "x"}


@given(st.from_regex(r"[0-9A-Za-z_+.~=][0-9A-Za-z_+.:=-]{0,20}(?<![:])", fullmatch=True))
def test_no_plain_text_becomes_another(text: str) -> None:
    assert parse_yaml(text) == (None if text in {"~", "null", "Null", "NULL"} else text)


def test_nothing_is_none(tmp_path: Path) -> None:
    values = read_yaml(
        written(tmp_path, "{a: , b: ~, c: null, d: Null, e: NULL, f: '', g: 'null'}")
    )
    assert values == {**dict.fromkeys("abcde"), "f": "", "g": "null"}


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, b"\xef\xbb\xbfa: b\n")) == {"a": "b"}


def test_mappings_merge(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "a: &a {x: 01}\nb: {<<: *a, y: 2}")) == {
        "a": {"x": "01"},
        "b": {"x": "01", "y": "2"},
    }


def test_values_and_their_kinds(tmp_path: Path) -> None:
    values = read_yaml(written(tmp_path, "[1, 1.5, 2026-11-01T10:00:00Z, [], {}, ~]"))
    assert [kind_of(value) for value in values] == [*["text"] * 3, "a list", "a mapping", "nothing"]


def test_words_for_true_and_false() -> None:
    assert [truth(word) for word in ("true", "Yes", "ON", "false", "no", "Off")] == [True] * 3 + [
        False
    ] * 3
    assert [truth(word) for word in ("soon", "1", "", None, [])] == [None] * 5

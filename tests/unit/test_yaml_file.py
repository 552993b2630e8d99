"""A file of values: read, or refused in one line that shows none of them."""

from pathlib import Path

import pytest

from metadata_source.yaml_file import kind_of, read_yaml


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "file.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("password: hunter2: x", r"not YAML: mapping values are not allowed here \(line 1, column 18\)"),
        ("a: 1\npassword: [hunter2", r"not YAML: .* \(line 2, column 19\)"),
        ('password: "hunter2\\y"', r"found unknown escape character 'y' \(line 1, column 20\)"),
        ("password: @hunter2", r"found character '@' that cannot start any token \(line 1, column 11\)"),
        ("password: *hunter2", r"found undefined alias \.\.\. \(line 1, column 11\)"),
        ("password: !hunter2", r"could not determine a constructor for the tag \.\.\. \(line 1, column 11\)"),
        ("password: !hunter2's", r"could not determine a constructor for the tag \.\.\. \(line 1, column 11\)"),
        ("password: !hunter2!x", r"found undefined tag handle \.\.\. \(line 1, column 11\)"),
        ("password: !!int hunter2", "a value is not what its form or tag says: quote it"),
        ("password: !!binary hunter2", "not YAML: failed to decode base64 data"),
        ("password: 2026-13-45", "a value is not what its form or tag says: quote it"),
        ("password: hunter2\0", "not YAML: it holds a character that YAML does not allow"),
        (b"password: hunter2\xff", "not YAML: not UTF-8 text"),
        ("? [hunter2]\n: x\n", r"not YAML: found unhashable key \(line 1, column 3\)"),
        ("a: 1\na: 2", r"not YAML: a is given twice \(line 1, column 1\)"),
        ("password: hunter2\na: " + "[" * 5_000, "not YAML that can be read: it is nested too deeply"),
        ("password: hunter2\na: " + "{a: " * 5_000, "not YAML that can be read: it is nested too deeply"),
    ],
)
def test_a_problem_is_one_line_that_shows_no_value(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says) as error:
        read_yaml(written(tmp_path, text))
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)


def test_values_and_their_kinds(tmp_path: Path) -> None:
    values = read_yaml(written(tmp_path, "[1, 1.5, 2026-11-01, 2026-11-01T10:00:00Z, x, [], {}, ~, true]"))
    assert [kind_of(value) for value in values] == [
        "a whole number",
        "a number with a fraction",
        "a date",
        "a time",
        "text",
        "a list",
        "a mapping",
        "nothing",
        "true or false",
    ]

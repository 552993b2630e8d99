"""Files of Java's properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.properties_file import parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Truth = Beauty", {"Truth": "Beauty"}),
        (" Truth:Beauty", {"Truth": "Beauty"}),
        ("Truth            :Beauty", {"Truth": "Beauty"}),
        ("fruits   apple, \\\n     kiwi, \\\n   mango", {"fruits": "apple, kiwi, mango"}),
        ("cheeses", {"cheeses": ""}),
        (r"a\:b\=c\ d=1", {"a:b=c d": "1"}),
        ("a==b", {"a": "=b"}),
        ("a = b=c;d:e ", {"a": "b=c;d:e "}),
        ("a b\tc", {"a": "b\tc"}),
        (r"x=C:\\certs\\ca.pem", {"x": r"C:\certs\ca.pem"}),
        (r"x=C:\certs", {"x": "C:certs"}),
        (r"u=J\u00fcrgen \u2713", {"u": "Jürgen ✓"}),
        (r"a=\tb\nc\rd\fe\zf", {"a": "\tb\nc\rd\fezf"}),
        ("# c \\\nd=1\n! e\n\n \t\nf=2", {"d": "1", "f": "2"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\n  c=d", {"a": "b\\c=d"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("\\\n#x=1\ny=2", {"y": "2"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\na=1", {"a": "1"}),
        ("", {}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, found: dict[str, str]) -> None:
    """The answers are those of java.util.Properties (Java 21), the first of them the examples of
    its documentation.
    """
    assert parse_properties(text) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x=1\na=hunter2\na=hunter3", r"^a is given twice \(line 3\)$"),
        ("x=1\na=hunter2\\u12", r"^line 2: \\u without four hexadecimal digits$"),
    ],
)
def test_what_is_wrong_is_one_line_without_a_value(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_properties(text)


def _escaped(text: str) -> str:
    return "".join(
        f"\\u{ord(each):04x}" if not each.isalnum() or ord(each) > 126 else each for each in text
    )


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=0xD7FF)), st.text(st.characters(max_codepoint=0xD7FF))
    )
)
def test_what_is_escaped_comes_back(pairs: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(name)}={_escaped(value)}" for name, value in pairs.items())
    assert parse_properties(text) == pairs

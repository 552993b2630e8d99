"""Text for people: names of a cluster that would do something to a terminal do not."""

import io

import pytest

from jobs.run.cli import one_line
from metadata_source.text import let_write_all, printable, text_table


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


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("iso-8859-1", b"\xe4 -> >= - \\u4e16 \\ud83d\\ude00"),
        ("ascii", b"\\u00e4 -> >= - \\u4e16 \\ud83d\\ude00"),
        ("utf-8", "ä → ≥ ─ 世 😀".encode()),
    ],
)
def test_a_terminal_gets_characters_that_it_has(encoding: str, expected: bytes) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    let_write_all(stream, io.StringIO())
    stream.write("ä → ≥ ─ 世 😀")
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    assert written.getvalue() == expected


HADOOP = "Spark's Hadoop"


class JavaError(Exception):
    """As PySpark's exceptions are, with Java's own below."""

    def __init__(self, *texts: str) -> None:
        super().__init__(texts[0])
        self.java_exception = Java(texts)


class Java:
    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = texts

    def toString(self) -> str:  # noqa: N802 - Java's
        return self._texts[0]

    def getCause(self) -> object:  # noqa: N802
        return Java(self._texts[1:]) if len(self._texts) > 1 else None


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        (
            (
                "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem "
                "not found"
            ),
            (
                "org.apache.hadoop.fs.s3a.S3AFileSystem; org.apache.hadoop:hadoop-aws, of the "
                f"version of {HADOOP}, has it"
            ),
        ),
        ("java.lang.ClassNotFoundException: com.example.Store", "com.example.Store"),
        ("java.lang.NoClassDefFoundError: com/example/Store", "com.example.Store"),
    ],
)
def test_a_class_that_spark_lacks_is_named_with_what_brings_it(cause: str, says: str) -> None:
    todo = (
        "add it to spark.packages of the configuration, or give it to spark-submit by --packages "
        "(docs/spark-clusters.md, Lakes elsewhere)"
    )
    error = JavaError("java.lang.RuntimeException: java.lang.Exception", cause)
    assert one_line(error) == f"Spark lacks the class {says}: {todo}"


def test_a_file_system_that_spark_does_not_know_is_named() -> None:
    cause = 'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"'
    assert one_line(JavaError("java.lang.RuntimeException", cause)).startswith(
        "Spark knows no file system gs://; "
    )

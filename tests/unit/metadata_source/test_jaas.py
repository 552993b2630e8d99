import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.credentials import credentials
from metadata_source.errors import OptionsError
from metadata_source.jaas import parse_jaas
from metadata_source.options import parse

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            f'{MODULE} required username="alice" password="a \\"b\\";c";',
            {"username": "alice", "password": 'a "b";c'},
        ),
        (
            f"{MODULE} required\n  username = 'alice'\n  password='it\"s; = spaced' ;\n",
            {"password": 'it"s; = spaced'},
        ),
        (
            f"// mine\n{MODULE} /* so */ optional username=alice password=a-b_c.d$1",
            {"password": "a-b_c.d$1"},
        ),
        (
            f'{MODULE} required username="é" password="\\\\ \\t \\101 \\x";',
            {"username": "é", "password": "\\ \t A x"},
        ),
        (f'{MODULE} required password="a//b/*c*/#d";', {"password": "a//b/*c*/#d"}),
        (f"{MODULE} required;", {}),
    ],
)
def test_a_line_reads_as_java_clients_read_it(line, options):
    module, found = parse_jaas(line)
    assert module == "ScramLoginModule"
    assert options.items() <= found.items()


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_]+", fullmatch=True), st.text(st.characters(codec="latin-1"))
    )
)
def test_whatever_is_quoted_comes_back(options):
    for quote in "\"'":
        quoted = {
            name: "".join(f"\\{ord(char):03o}" for char in value) for name, value in options.items()
        }
        line = (
            f"{MODULE} required "
            f"{' '.join(f'{name}={quote}{value}{quote}' for name, value in quoted.items())};"
        )
        assert parse_jaas(line) == ("ScramLoginModule", options)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hunter2",
        f'{MODULE} required "hunter2',
        f"{MODULE} required password=hunter2!;",
        f"{MODULE} required password;",
        f"{MODULE} required password==hunter2;",
        f'{MODULE} required username="a" password="hun"ter2";',
        f'{MODULE} required password="hunter2"; {MODULE} required;',
        f'{MODULE} required password="hunter2\n";',
    ],
)
def test_what_is_no_line_is_refused_and_not_repeated(line):
    with pytest.raises(OptionsError, match=r"kafka.sasl.jaas.config: not a line such as") as caught:
        parse_jaas(line)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            f'{MODULE} required username="a";',
            "a line of ScramLoginModule needs username and password",
        ),
        (
            f'{MODULE} required username="a" password="";',
            "a line of ScramLoginModule needs username and password",
        ),
        (
            'x.PlainLoginModule required username="a" password="b";',
            "not a line of ScramLoginModule, which kafka.sasl",
        ),
        (
            f'{MODULE} required username="a" password="b" tokenauth="true";',
            "only username, password are understood",
        ),
    ],
)
def test_a_line_is_of_the_mechanism_and_understood_whole(line, said, tmp_path):
    (tmp_path / "jaas").write_text(line)
    sasl = {
        "kafka.bootstrap.servers": "one:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f"file:{tmp_path}/jaas",
    }
    with pytest.raises(OptionsError) as caught:
        credentials(parse(sasl).clusters[0], 0)
    assert said in str(caught.value)

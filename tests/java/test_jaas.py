"""JAAS lines, as Kafka's own JaasContext reads them."""

import pytest
from py4j.protocol import Py4JJavaError

from metadata_source.errors import OptionsError
from metadata_source.jaas import parse_jaas
from tests.support.for_each import for_each

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@for_each(
    "options",
    [
        "",
        'username="alice" password="a \\"b\\"; c=d"',
        "username = 'alice'\n\tpassword='it\"s'",
        "/* a */ username=alice // b\n password=a-b_c.d$e",
        'password="\\\\ \\t \\101 \\377 \\400 \\8 \\x \'"',
        'password="a//b/*c*/#d"',
        'password="é\u00a0"',
        "password=é",
        "password",
        "password=",
        "password==a",
        "password=a!b",
        'password="a"b"c"',
        'password="a',
        'password="a\nb"',
        f'password="a"; {MODULE} required',
        "password=a#b",
    ],
)
def test_a_line_is_read_as_kafka_reads_it(jvm, options):
    line = f"{MODULE} required {options};"
    configs = jvm.java.util.HashMap()
    configs.put("sasl.jaas.config", jvm.org.apache.kafka.common.config.types.Password(line))
    try:
        (entry,) = jvm.org.apache.kafka.common.security.JaasContext.loadClientContext(
            configs
        ).configurationEntries()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "IllegalArgumentException":
            raise
        with pytest.raises(OptionsError):
            parse_jaas(line)
    else:
        read = {name: entry.getOptions()[name] for name in entry.getOptions()}
        assert parse_jaas(line) == ("PlainLoginModule", read)

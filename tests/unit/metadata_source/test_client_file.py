"""Files that people have for clients of a cluster: read, or refused with what to write instead."""

from pathlib import Path

import pytest

from kafka_metadata_history.command import NAME, exit_status
from metadata_source.client_file import ClientFile, read_client_file
from metadata_source.errors import OptionsError
from metadata_source.options.table import BY_NAME
from tests.support.for_each import for_each

SASL = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "KEY",
}
PASSWORD = {"kafka.sasl.password": "env:KAFKA_PASSWORD"}
OF_A_CLOUD = """# Required connection configs
bootstrap.servers=broker.example.test:9092
security.protocol=SASL_SSL
sasl.mechanisms=PLAIN
sasl.username=KEY
sasl.password=env:KAFKA_PASSWORD

# Best practice for higher availability
session.timeout.ms=45000
client.dns.lookup=use_all_dns_ips
acks=all
schema.registry.url=https://registry.example.test
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=KEY:hunter2
auto.offset.reset=earliest
"""


def written(tmp_path: Path, text: str | bytes, name: str = "client.properties") -> Path:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def problem(file: Path) -> str:
    with pytest.raises(OptionsError) as caught:
        read_client_file(file)
    said: str = caught.value.problem
    assert said.startswith(f"{file}: ")
    assert "\n" not in said
    assert "hunter2" not in said
    return said.removeprefix(f"{file}: ")


@for_each(
    "name", ["client.properties", "librdkafka.config", "kcat.conf", "client", "of.PROPERTIES"]
)
@for_each("begin", ["", "[default]\n"])
def test_a_file_of_pairs_is_read_as_it_is(tmp_path: Path, name: str, begin: str) -> None:
    file = read_client_file(written(tmp_path, begin + OF_A_CLOUD, name))
    assert (file.options, file.servers) == (SASL | PASSWORD, "broker.example.test:9092")
    assert file.warning == (
        f"{file.file}: warning: passed over, nothing here needs it: session.timeout.ms, "
        "client.dns.lookup, acks, schema.registry.url, basic.auth.credentials.source, "
        f"basic.auth.user.info, {2 if begin else 1} more"
    )


@pytest.mark.parametrize("of", ["", "kafka."])
def test_yaml_has_the_names_with_kafka_or_without(tmp_path: Path, of: str) -> None:
    text = (
        f"{of}security.protocol: SASL_SSL\n{of}sasl.mechanisms: PLAIN\n{of}sasl.username: '0123'\n"
    )
    text += (
        f"{of}Sasl.Password: env:KAFKA_PASSWORD\n{of}session.timeout.ms: 45000\nkind: redpanda\n"
    )
    file = read_client_file(written(tmp_path, text, "client.yaml"))
    assert file.options == SASL | PASSWORD | {"kafka.sasl.username": "0123", "kind": "redpanda"}
    assert file.passed_over == (f"{of}session.timeout.ms",)


@pytest.mark.parametrize("text", ["no", "0123", "12_34", "1e3", "2026-11-01"])
def test_yaml_keeps_a_text_as_it_is_written(tmp_path: Path, text: str) -> None:
    file = read_client_file(written(tmp_path, f"kafka.sasl.username: {text}\n", "client.yaml"))
    assert file.options == {"kafka.sasl.username": text}


@for_each("text", ["", "# nothing\n"])
@for_each("name", ["client.yaml", "client.properties", "client"])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str, name: str) -> None:
    file = read_client_file(written(tmp_path, text, name))
    assert (file.options, file.servers, file.warning) == ({}, None, None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.properties", b"\xef\xbb\xbfsasl.username=J\xc3\xbcrgen"),
        ("a.properties", b"sasl.username=J\xfcrgen"),
        ("a.properties", rb"sasl.username=J\u00fcrgen"),
        ("a.config", b"\xef\xbb\xbfsasl.username=J\xc3\xbcrgen"),
        ("a.yaml", b"\xef\xbb\xbfkafka.sasl.username: J\xc3\xbcrgen"),
    ],
)
def test_bytes_before_and_beyond_ascii(tmp_path: Path, name: str, content: bytes) -> None:
    assert read_client_file(written(tmp_path, content, name)).options == {
        "kafka.sasl.username": "Jürgen"
    }


def test_nothing_for_the_algorithm_is_java_s_way_to_check_no_host_name(tmp_path: Path) -> None:
    for name, text in (("a.properties", "={}"), ("a.yaml", ": ")):
        file = written(tmp_path, f"ssl.endpoint.identification.algorithm{text.format('')}\n", name)
        assert read_client_file(file).options == {"kafka.ssl.endpoint.identification.algorithm": ""}


SECRETS = sorted(option.name.removeprefix("kafka.") for option in BY_NAME.values() if option.secret)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_refused_with_the_line_that_replaces_it(tmp_path: Path, name: str) -> None:
    variable = f"KAFKA_{name.replace('.', '_').upper()}"
    for file, joint in (
        (written(tmp_path, f"{name}=hunter2\n"), "="),
        (tmp_path / "client.yaml", ": "),
    ):
        file.write_text(f"{name}{joint}hunter2\n")
        assert problem(file) == (
            f"{name} holds a secret, which may not be in this file: move its value into a file of "
            f"its own, and write {name}{joint}file:/etc/kafka/{name} (or "
            f"{name}{joint}env:{variable}, and set that variable)"
        )
        for line in (f"{name}{joint}file:/etc/kafka/{name}", f"{name}{joint}env:{variable}"):
            file.write_text(line)
            assert len(read_client_file(file).options) == 1, "what it says can be written"


def test_a_jaas_line_over_many_lines_is_one_secret(tmp_path: Path) -> None:
    jaas = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    user = '  username="my-user" \\\n  password="hunter2";\n'
    assert problem(written(tmp_path, f"{jaas}{user}")).startswith("sasl.jaas.config holds a secret")


def test_all_that_is_to_be_said_otherwise_is_said_at_once(tmp_path: Path) -> None:
    text = (
        "sasl.jaas.config=x password='hunter2';\nssl.truststore.location=/t.p12\n"
        "ssl.truststore.type=PKCS12\n"
    )
    said = problem(
        written(tmp_path, f"{text}ssl.truststore.password=hunter2\nssl.crl.location=/c\n")
    )
    assert said.startswith("sasl.jaas.config holds a secret")
    assert said.endswith(
        "; unknown option 'ssl.truststore.location': use kafka.ssl.ca.location (a PEM file); "
        "unknown option 'ssl.crl.location': leave it out: no lists of revoked certificates are read"
    )
    assert "ssl.truststore.type" not in said, "needless, as the password is"


def test_what_clients_of_msk_begin_by_holds_no_secret(tmp_path: Path) -> None:
    text = "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
    text += "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required{};\n"
    text += (
        "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
    )
    file = read_client_file(written(tmp_path, text.format("")))
    assert file.options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
    }
    assert file.passed_over == ("sasl.jaas.config", "sasl.client.callback.handler.class")
    assert problem(written(tmp_path, text.format(' awsRoleArn="hunter2"'))).startswith(
        "sasl.jaas.config holds"
    )


OF_CLIENTS = """acks batch.size buffer.memory client.dns.lookup client.rack compression.type
connections.max.idle.ms default.api.timeout.ms enable.auto.commit enable.idempotence fetch.max.bytes
group.id group.instance.id interceptor.classes isolation.level key.serializer linger.ms max.block.ms
max.in.flight.requests.per.connection max.poll.records metadata.max.age.ms metric.reporters
partitioner.class receive.buffer.bytes reconnect.backoff.ms request.timeout.ms retries
retry.backoff.ms security.providers send.buffer.bytes session.timeout.ms
socket.connection.setup.timeout.ms transactional.id value.serializer ssl.cipher.suites
ssl.enabled.protocols ssl.keymanager.algorithm ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.engine.factory.class
sasl.login.class sasl.login.callback.handler.class sasl.login.connect.timeout.ms
sasl.login.refresh.buffer.seconds sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.assertion.file
sasl.oauthbearer.jwt.retriever.class sasl.kerberos.min.time.before.relogin
sasl.kerberos.ticket.renew.jitter builtin.features debug log_level socket.keepalive.enable
api.version.request broker.address.family enable.ssl.certificate.verification ssl.curves.list
ssl.sigalgs.list ssl.providers ssl.engine.location plugin.library.paths sasl.oauthbearer.config
enable.sasl.oauthbearer.unsecure.jwt statistics.interval.ms topic.metadata.refresh.interval.ms
schema.registry.url basic.auth.user.info basic.auth.credentials.source""".split()  # noqa: SIM905 - many names


def test_no_name_of_a_client_is_taken_for_a_mistyped_one(tmp_path: Path) -> None:
    """Names of Java's and librdkafka's configurations that mean nothing here."""
    for of in ("", "kafka."):
        names = tuple(f"{of}{name}" for name in OF_CLIENTS)
        file = read_client_file(written(tmp_path, "".join(f"{name}=x\n" for name in names)))
        assert (file.options, file.passed_over) == ({}, names)


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("securty.protocol", "kafka.security.protocol"),
        ("kafka.securty.protocol", "kafka.security.protocol"),
        ("sasl.mechansim", "kafka.sasl.mechanism"),
        ("ssl.endpoint.identification.algoritm", "kafka.ssl.endpoint.identification.algorithm"),
        ("kinds", "kind"),
    ],
)
def test_a_mistyped_name_is_not_passed_over(tmp_path: Path, mistyped: str, meant: str) -> None:
    assert (
        problem(written(tmp_path, f"{mistyped}=x"))
        == f"unknown option {mistyped!r}: did you mean {meant!r}?"
    )


def test_parts_of_a_key_that_lie_where_names_are_are_not_shown(tmp_path: Path) -> None:
    text = f"acks=all\n-----BEGIN PRIVATE KEY-----\nMIIEvQ{'x' * 58}\nhunter2+/\n"
    file = read_client_file(written(tmp_path, text))
    assert str(file.warning).endswith(": acks, 3 more")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "a.config",
            "sasl.username=DOMAIN\\user",
            "line 1: a backslash, which librdkafka keeps and Java does not",
        ),
        ("a.properties", "acks=1\nacks=2", "acks is given twice (line 2)"),
        (
            "a.properties",
            "sasl.mechanism=PLAIN\nsasl.mechanisms=GSSAPI",
            "kafka.sasl.mechanism: given twice, in two",
        ),
        ("a.yaml", "a: b: c", "not YAML: mapping values are not allowed here"),
        ("a.yaml", "a text", "not a mapping of kafka.* options to values"),
        (
            "a.yaml",
            "kafka.sasl.password: [hunter2]",
            "kafka.sasl.password: neither text nor a whole number",
        ),
        ("a.yaml", b"kafka.sasl.password: hunter2\xff", "not UTF-8 text"),
        ("truststore.jks", b"\xfe\xed\xfe\xed\x00", "not UTF-8 text"),
    ],
)
def test_mistakes(tmp_path: Path, name: str, text: str | bytes, says: str) -> None:
    assert says in problem(written(tmp_path, text, name))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert problem(tmp_path / "none") == "No such file or directory"
    assert problem(tmp_path) == "Is a directory"
    with pytest.raises(OptionsError, match="null byte"):
        read_client_file(Path("a\0b"))


def test_a_java_s_file_with_another_name_may_have_lines_that_go_on(tmp_path: Path) -> None:
    text = "# a \\ in a comment\nclient.id=a\\\n  b\n"
    assert read_client_file(written(tmp_path, text, "java.config")).options == {
        "kafka.client.id": "ab"
    }


def test_where_to_ask(tmp_path: Path) -> None:
    """The command line counts more than a file of a client, but options that are written for us
    have to agree.
    """
    file = ClientFile(tmp_path, SASL, (), "a:1")
    assert file.at("b:2") == {"kafka.bootstrap.servers": "b:2", **SASL}
    with pytest.raises(OptionsError, match="contradicts --bootstrap"):
        ClientFile(tmp_path, {"kafka.bootstrap.servers": "a:1"}, ()).at("b:2")


def test_check_asks_where_the_file_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "bootstrap.servers=PLAINTEXT://127.0.0.1:1,\nacks=all\n"
    file = written(tmp_path, text)
    assert exit_status(["check", "--client", str(file)]) == 3
    output, errors = capsys.readouterr()
    assert "failed: unreachable: 127.0.0.1:1" in output
    assert errors == f"{file}: warning: passed over, nothing here needs it: acks\n"
    assert exit_status(["check", "--client", str(file), "--bootstrap", "127.0.0.1:2"]) == 3
    assert "127.0.0.1:2" in capsys.readouterr().out
    file.write_text("acks=all\n")
    assert exit_status(["check", "--client", str(file)]) == 2
    said = f"{NAME}: --client: the file has no bootstrap.servers: give --bootstrap HOST:PORT, too\n"
    assert capsys.readouterr().err.endswith(said)

"""Tokens: of an endpoint on this machine, and for Amazon MSK, whose signature is computed here
again.
"""

import base64
import contextlib
import hashlib
import hmac
import logging
import socket
import sys
import threading
import time
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from metadata_source import tokens
from metadata_source.errors import OptionsError, TokenError
from metadata_source.options import Cluster, parse
from metadata_source.references import ENDPOINTS
from metadata_source.threads import side_by_side
from metadata_source.tokens import forget, token
from tests.support.token_endpoint import Signer, token_endpoint
from tests.support.waiting import eventually

SECRET = "client; secret & 100%"  # noqa: S105
TIMEOUT_S = 5


@pytest.fixture(scope="module")
def signer():
    return Signer()


@pytest.fixture
def endpoint(signer, monkeypatch):
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    tokens._kept.clear()
    with token_endpoint(signer, {"history": SECRET}) as listening:
        monkeypatch.setenv(ENDPOINTS, f"{listening.url},http://localhost:1/token")
        yield listening


def bearer(url: str, **more: str) -> Cluster:
    given = {
        "bootstrap.servers": "one:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": "history",
        "sasl.oauthbearer.client.secret": "env:CLIENT_SECRET",
    }
    return parse({f"kafka.{name}": value for name, value in (given | more).items()}).clusters[0]


def ask(cluster: Cluster, seconds: float = TIMEOUT_S) -> tokens.Token:
    return token(cluster, time.monotonic() + seconds)


def test_a_token_is_asked_for_once_and_again_at_four_fifths_of_its_life(endpoint, monkeypatch):
    cluster = bearer(
        endpoint.url, **{"sasl.oauthbearer.scope": "a b", "sasl.oauthbearer.extensions": "x=1"}
    )
    begin = time.time()
    first = ask(cluster)
    assert first.text == endpoint.given[0]
    assert first.extensions == {"x": "1"}
    assert 0 <= first.expires_at - begin - endpoint.lifetime_s < TIMEOUT_S
    assert endpoint.asked == [{"grant_type": "client_credentials", "scope": "a b"}]
    for passed, asked in ((0.79, 1), (0.82, 2)):
        monkeypatch.setattr(
            time, "time", lambda passed=passed: begin + passed * endpoint.lifetime_s
        )
        ask(cluster)
        assert len(endpoint.asked) == asked
    forget(cluster)
    ask(cluster)
    assert len(endpoint.asked) == 3
    assert not [kept for kept in endpoint.given if kept in repr(tokens._kept)]


def test_threads_that_connect_at_once_ask_for_one_token(endpoint):
    cluster = bearer(endpoint.url)
    given = side_by_side(range(20), lambda _: ask(cluster).text, "tokens")
    assert given == endpoint.given * 20


def test_a_token_that_another_thread_waits_for_is_not_waited_for_any_longer(endpoint, monkeypatch):
    cluster = bearer(endpoint.url)
    answered = threading.Event()
    monkeypatch.setattr(tokens, "_fetch", lambda *_: answered.wait(TIMEOUT_S) and b"{}")

    def asking(seconds: float) -> None:
        with pytest.raises(TokenError, match=r"timeout: token endpoint .*: no answer in time"):
            ask(cluster, seconds)

    try:
        side_by_side([0.2] * 5, asking, "tokens")
        assert not answered.is_set()
    finally:
        answered.set()


def test_a_token_that_says_itself_when_it_ends(endpoint, signer):
    said = signer.token("history", 60)
    endpoint.answer = 200, f'{{"access_token": "{said}"}}'.encode()
    assert 58 < ask(bearer(endpoint.url)).expires_at - time.time() <= 60


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (
            400,
            b'{"error": "invalid_scope"}',
            "authentication",
            "no token: HTTP 400, invalid_scope (check client id,",
        ),
        (
            401,
            b"<html>",
            "authentication",
            "no token: HTTP 401 (check client id, secret and scope)",
        ),
        (302, b"", "protocol", "HTTP 302: is it a token endpoint?"),
        (404, b"", "protocol", "HTTP 404: is it a token endpoint?"),
        (429, b"", "unreachable", "HTTP 429"),
        (503, b"", "unreachable", "HTTP 503"),
        (200, b"<html>", "protocol", "the answer is no JSON with an access_token and expires_in"),
        (200, b"[]", "protocol", "the answer is no JSON with an access_token and expires_in"),
        (
            200,
            b'{"access_token": "opaque"}',
            "protocol",
            "the answer is no JSON with an access_token and expires_in",
        ),
        (
            200,
            b'{"access_token": "a\\u0001b", "expires_in": 9}',
            "protocol",
            "the answer is no JSON with",
        ),
        (
            200,
            b'{"access_token": "a", "expires_in": null}',
            "protocol",
            "the answer is no JSON with",
        ),
    ],
)
def test_what_is_no_token_is_one_clear_line(endpoint, status, body, kind, said):
    endpoint.answer = status, body
    with pytest.raises(TokenError) as caught:
        ask(bearer(endpoint.url))
    assert (caught.value.kind, said in caught.value.problem) == (kind, True), caught.value
    assert caught.value.problem.startswith(f"token endpoint {endpoint.url}: ")
    assert "\n" not in str(caught.value)


def test_the_secret_is_repeated_nowhere(endpoint, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    cluster = bearer(endpoint.url)
    monkeypatch.setenv("CLIENT_SECRET", "hunter2")
    with pytest.raises(TokenError, match="HTTP 401, invalid_client") as caught:
        ask(cluster)
    monkeypatch.setenv("CLIENT_SECRET", SECRET)
    ask(cluster)
    told = f"{caught.value} {caplog.text} {cluster!r}"
    assert not [secret for secret in ("hunter2", SECRET, *endpoint.given) if secret in told]


def test_an_endpoint_that_hangs_or_is_not_there(endpoint):
    endpoint.pause_s = 1
    with pytest.raises(TokenError, match=r"timeout: token endpoint .*: no answer in time"):
        ask(bearer(endpoint.url), seconds=0.2)
    with pytest.raises(
        TokenError, match="unreachable: token endpoint http://localhost:1/token: connection refused"
    ):
        ask(bearer("http://localhost:1/token"))
    with pytest.raises(
        OptionsError, match=r"kafka.https.ca.location: /none.pem: no such file or directory"
    ):
        ask(bearer(endpoint.url, **{"https.ca.location": "/none.pem"}))


def test_no_secret_goes_out_unencrypted_unless_the_operator_says_so(endpoint, monkeypatch):
    monkeypatch.delenv(ENDPOINTS)
    with pytest.raises(OptionsError, match="would get the client's secret unencrypted"):
        ask(bearer(endpoint.url))
    assert endpoint.asked == []


@pytest.mark.parametrize(
    ("scheme", "begin"),
    [
        ("http", b""),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
        ("http", b"HTTP/1.1 401 No\r\nContent-Length: 1000000\r\n\r\n"),
        ("https", b"\x16\x03\x03\x40\x00"),
    ],
    ids=["header", "body", "refusal", "handshake"],
)
def test_an_endpoint_that_drips_leaves_no_thread_and_no_socket(
    endpoint, monkeypatch, scheme, begin
):
    """Each byte of it comes in time."""
    stopped = threading.Event()

    def drip(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.sendall(begin)
            while not stopped.wait(0.02):
                client.sendall(b"x")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

    def left() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "kafka_metadata token"]

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/token"
        monkeypatch.setenv(ENDPOINTS, url)
        threading.Thread(target=serve, daemon=True).start()
        begun = len(left())
        for _ in range(4):
            with pytest.raises(TokenError, match="no answer in time"):
                ask(bearer(url), seconds=0.2)
        eventually(lambda: len(left()) == begun, "the end of threads")
        stopped.set()


# --- Amazon MSK ---

MSK = "b-1.orders.x1y2z3.c2.kafka.eu-central-1.amazonaws.com:9098"
KEY_ID, KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def msk(servers: str = MSK, **more: str) -> Cluster:
    given = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
    }
    return parse({f"kafka.{name}": value for name, value in (given | more).items()}).clusters[0]


@pytest.fixture
def aws(monkeypatch, tmp_path):
    """Credentials in the environment, and a profile with others in a file; never those of this
    machine.
    """
    pytest.importorskip("aws_msk_iam_sasl_signer", reason="the extra msk is not installed")
    tokens._kept.clear()
    file = tmp_path / "credentials"
    file.write_text(f"[other]\naws_access_key_id = AKIDOTHER\naws_secret_access_key = {KEY}\n")
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_SHARED_CREDENTIALS_FILE": str(file),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)


def fields(made: tokens.Token) -> dict[str, str]:
    url = urlsplit(base64.urlsafe_b64decode(made.text + "=" * (-len(made.text) % 4)).decode())
    assert (url.scheme, url.path) == ("https", "/")
    return dict(parse_qsl(url.query)) | {"host": url.netloc}


def signature(signed: dict[str, str]) -> str:
    """Signature Version 4 of a URL, over all its fields but the signature and the agent, which are
    added after it.
    """
    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
        for name, value in sorted(signed.items())
        if name not in {"host", "X-Amz-Signature", "User-Agent"}
    )
    request = f"GET\n/\n{query}\nhost:{signed['host']}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = signed["X-Amz-Credential"].split("/", 1)[1]
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{KEY}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{signed['X-Amz-Date']}\n{scope}\n{digest}"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def test_a_token_for_msk_is_signed_for_its_region(aws, caplog):
    caplog.set_level(logging.DEBUG)
    made = ask(msk())
    said = fields(made)
    assert (said["Action"], said["host"]) == (
        "kafka-cluster:Connect",
        "kafka.eu-central-1.amazonaws.com",
    )
    assert said["X-Amz-Credential"].startswith(f"{KEY_ID}/")
    assert said["X-Amz-Credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert said["X-Amz-Signature"] == signature(said)
    assert 0 < made.expires_at - time.time() <= int(said["X-Amz-Expires"]) == 900
    assert not [
        secret
        for secret in (KEY, made.text, said["X-Amz-Signature"])
        if secret in caplog.text + repr(made)
    ]
    assert ask(msk()) is made


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("boot-x1.c1.kafka-serverless.us-west-2.amazonaws.com:9098", "us-west-2"),
        ("b-1.x.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example.com:9098", "eu-west-3"),
    ],
)
def test_the_region_is_in_a_host_s_name_or_where_aws_has_it(aws, monkeypatch, servers, region):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert fields(ask(msk(servers)))["host"] == f"kafka.{region}.amazonaws.com"


def test_the_profile_of_a_java_client_s_line(aws, tmp_path):
    (tmp_path / "jaas").write_text(
        'software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="other";'
    )
    cluster = msk(**{"sasl.jaas.config": f"file:{tmp_path}/jaas"})
    assert fields(ask(cluster))["X-Amz-Credential"].startswith("AKIDOTHER/")


def test_what_a_token_for_msk_lacks(aws, monkeypatch, tmp_path):
    with pytest.raises(
        OptionsError, match="no host's name has the AWS region that AWS_MSK_IAM needs"
    ):
        ask(msk("kafka.example.com:9098"))
    (tmp_path / "jaas").write_text('x.IAMLoginModule required awsProfileName="none";')
    with pytest.raises(TokenError, match=r"AWS_MSK_IAM: ProfileNotFound: .*none"):
        ask(msk(**{"sasl.jaas.config": f"file:{tmp_path}/jaas"}))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(
        TokenError, match="authentication: AWS_MSK_IAM: no AWS credentials where the connection is"
    ):
        ask(msk())


def test_msk_without_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(
        OptionsError, match=r"AWS_MSK_IAM needs the extra kafka-metadata-history\[msk\]"
    ):
        ask(msk())

"""Tokens for SASL OAUTHBEARER: of a token endpoint (KIP-768: RFC 6749, client credentials), or
signed for Amazon MSK.

A process keeps each cluster's token for four fifths of its lifetime, as Java clients do by default
(`sasl.login.refresh.window.factor`), so that no endpoint is asked with each connection.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import re
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from metadata_source.errors import OptionsError, TokenError
from metadata_source.jaas import jaas_options
from metadata_source.references import check_endpoint, resolve_secret
from metadata_source.waiting import Sockets, TooLateError, by_deadline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.options import Cluster

_REFRESH: Final = 0.8
_MOST_BYTES: Final = 1 << 20
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750. What else there is could end the message that carries the token."""
_MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")

# At DEBUG it logs signatures, and credentials as they come.
logging.getLogger("botocore").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, when it ends (s since 1970), and the SASL extensions with it (KIP-342)."""

    text: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str]


@dataclass(slots=True)
class _Kept:
    token: Token
    until: float


_kept: dict[Cluster, _Kept] = {}
_asking: dict[Cluster, threading.Lock] = {}
"""Held while a cluster's token is asked for."""


def token(cluster: Cluster, deadline: float) -> Token:
    """Return a cluster's token, asking for one by `deadline` (of `time.monotonic`) unless a kept
    one is fresh.

    Raises TokenError, and OptionsError for references and lines that cannot be used; neither with a
    secret.
    """
    # Connections to many brokers are made at once.
    asking = _asking.setdefault(cluster, threading.Lock())
    if not asking.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TokenError("timeout", f"{_source(cluster)}: no answer in time")
    try:
        kept = _kept.get(cluster)
        if kept is not None and time.time() < kept.until:
            return kept.token
        new = _asked_for(cluster, deadline)
        now = time.time()
        _kept[cluster] = _Kept(new, now + _REFRESH * (new.expires_at - now))
        return new
    finally:
        asking.release()


def _asked_for(cluster: Cluster, deadline: float) -> Token:
    get = _signed if cluster.sasl_mechanism == "AWS_MSK_IAM" else _granted
    try:
        with Sockets() as sockets:
            return by_deadline(
                lambda: get(cluster, deadline - time.monotonic(), sockets), deadline, "token"
            )
    except TooLateError:
        raise TokenError("timeout", f"{_source(cluster)}: no answer in time") from None


def forget(cluster: Cluster) -> None:
    """Forget a cluster's token: it was refused."""
    _kept.pop(cluster, None)


def _source(cluster: Cluster) -> str:
    if cluster.sasl_mechanism == "AWS_MSK_IAM":
        return "AWS_MSK_IAM"
    url = urlsplit(cluster.sasl_oauthbearer_token_endpoint_url or "")
    return f"token endpoint {url.scheme}://{url.netloc}{url.path}"


# --- a token endpoint ---


def _granted(cluster: Cluster, timeout_s: float, sockets: Sockets) -> Token:
    """Ask the token endpoint, as a client with an id and a secret."""
    url = cluster.sasl_oauthbearer_token_endpoint_url or ""
    check_endpoint("kafka.sasl.oauthbearer.token.endpoint.url", url)
    jaas = jaas_options(
        cluster, "OAuthBearerLoginModule", ("clientId", "clientSecret"), ("scope", "extension_*")
    )
    client_id = jaas.get("clientId", cluster.sasl_oauthbearer_client_id)
    secret = jaas.get("clientSecret")
    if cluster.sasl_oauthbearer_client_secret is not None:
        secret = resolve_secret(
            "kafka.sasl.oauthbearer.client.secret", cluster.sasl_oauthbearer_client_secret
        )
    scope = jaas.get("scope", cluster.sasl_oauthbearer_scope)
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    # Not encoded before, as Java's and librdkafka's clients do it unless they are told.
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    request = Request(  # noqa: S310 - http or https: checked with the options
        url,
        urlencode(form).encode(),
        {
            "Accept": "application/json",
            "Authorization": f"Basic {basic}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        body = _fetch(request, cluster.https_ca_location, timeout_s, sockets)
    except TokenError as error:
        raise TokenError(error.kind, f"{_source(cluster)}: {error.problem}") from None
    extensions = dict(cluster.sasl_oauthbearer_extensions) | {
        name.removeprefix("extension_"): value
        for name, value in jaas.items()
        if name.startswith("extension_")
    }
    try:
        return _read(body, extensions)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise TokenError(
            "protocol",
            (
                f"{_source(cluster)}: the answer is no JSON with an access_token and expires_in: "
                "is it a token endpoint?"
            ),
        ) from None


class _NoRedirects(HTTPRedirectHandler):
    """The secret goes to the endpoint that was named and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Http(HTTPHandler):
    """Opens its connections by `Sockets`."""

    def __init__(self, sockets: Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def do_open(self, http_class: Any, req: Request, **more: Any) -> Any:
        def connection(host: str, **settings: Any) -> Any:
            made = http_class(host, **settings)
            made._create_connection = self._sockets.connect  # noqa: SLF001 - that of a tunnel through a proxy, too
            return made

        return super().do_open(connection, req, **more)


class _Https(_Http, HTTPSHandler):
    def __init__(self, sockets: Sockets, context: ssl.SSLContext) -> None:
        HTTPSHandler.__init__(self, context=context)
        self._sockets = sockets


def _fetch(request: Request, ca_file: str | None, timeout_s: float, sockets: Sockets) -> bytes:
    """Return the answer's body, of bounded length. Raises TokenError."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = error.strerror or "no certificates"
        raise OptionsError(f"kafka.https.ca.location: {ca_file}: {reason.lower()}") from None
    opener = build_opener(_NoRedirects, _Http(sockets), _Https(sockets, context))
    try:
        with opener.open(request, timeout=max(0.001, timeout_s)) as response:
            return bytes(response.read(_MOST_BYTES))
    except HTTPError as error:
        with error:
            raise _refusal(error.code, error.read(_MOST_BYTES)) from None
    except URLError as error:
        raise _failure(error.reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise _failure(error) from None


def _refusal(status: int, body: bytes) -> TokenError:
    """Say what a status other than 200 means, with the error code of RFC 6749, 5.2, where there is
    one.

    Not with its description: endpoints may repeat in it what they were sent.
    """
    code = re.search(rb'"error"\s*:\s*"([a-z_]{1,40})"', body)
    what = f"HTTP {status}" + (f", {code[1].decode()}" if code else "")
    if status in {408, 429} or status >= 500:
        return TokenError("unreachable", what)
    if status in {400, 401, 403}:
        return TokenError("authentication", f"no token: {what} (check client id, secret and scope)")
    return TokenError("protocol", f"{what}: is it a token endpoint?")


def _failure(reason: object) -> TokenError:
    match reason:
        case ssl.SSLCertVerificationError():
            return TokenError(
                "tls",
                (
                    f"the certificate is not trusted: {reason.verify_message} (authorities: "
                    "kafka.https.ca.location)"
                ),
            )
        case ssl.SSLError():
            return TokenError("tls", f"no TLS connection: {reason.reason or reason.strerror}")
        case TimeoutError():
            return TokenError("timeout", "no answer in time")
        case OSError():
            return TokenError("unreachable", (reason.strerror or str(reason)).lower())
        case _:
            return TokenError("unreachable", str(reason) or type(reason).__name__)


def _read(body: bytes, extensions: Mapping[str, str]) -> Token:
    """Return the token of an answer (RFC 6749, 5.1). Raises ValueError and the like where there is
    none in it.

    `expires_in` may be missing; then the token itself must say it, as a JWT (RFC 7519) does.
    """
    answer = json.loads(body)
    text = answer["access_token"]
    if not _BEARER.fullmatch(text):
        raise ValueError("not a bearer token")
    if "expires_in" in answer:
        expires_at = time.time() + float(answer["expires_in"])
    else:
        claims = text.split(".")[1]
        expires_at = float(
            json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        )
    if not expires_at > time.time():
        raise ValueError("a token that is over")
    return Token(text, expires_at, dict(extensions))


# --- Amazon MSK ---


def _signed(cluster: Cluster, _timeout_s: float, _sockets: Sockets) -> Token:
    """Sign a token with the AWS credentials of this machine, or those that its JAAS line names."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer  # noqa: PLC0415
    except ImportError:
        raise OptionsError(
            "kafka.sasl.mechanism: AWS_MSK_IAM needs the extra kafka-metadata-history[msk] where "
            "the connection is made"
        ) from None
    jaas = jaas_options(
        cluster, "IAMLoginModule", more=("awsProfileName", "awsRoleArn", "awsRoleSessionName")
    )
    region = _region(cluster)
    try:
        if "awsRoleArn" in jaas:
            session = (
                {"sts_session_name": jaas["awsRoleSessionName"]}
                if "awsRoleSessionName" in jaas
                else {}
            )
            text, expires_ms = Signer.generate_auth_token_from_role_arn(
                region, jaas["awsRoleArn"], **session
            )
        elif "awsProfileName" in jaas:
            text, expires_ms = Signer.generate_auth_token_from_profile(
                region, jaas["awsProfileName"]
            )
        else:
            text, expires_ms = Signer.generate_auth_token(region)
    except AttributeError:  # of None, which it has then in place of credentials
        raise TokenError(
            "authentication", "AWS_MSK_IAM: no AWS credentials where the connection is made"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever botocore meets: files, its network, AWS's refusal
        what = " ".join(str(error).split())
        raise TokenError("authentication", f"AWS_MSK_IAM: {type(error).__name__}: {what}") from None
    return Token(text, expires_ms / 1000, {})


def _region(cluster: Cluster) -> str:
    """Return the AWS region: of the first bootstrap server with one, else as AWS's tools do."""
    from botocore.session import Session  # noqa: PLC0415

    for host, _ in cluster.bootstrap_servers:
        if match := _MSK_HOST.search(host.lower()):
            return match[1]
    region = Session().get_config_variable("region")
    if not region:
        raise OptionsError(
            "kafka.bootstrap.servers: no host's name has the AWS region that AWS_MSK_IAM needs: "
            "set AWS_DEFAULT_REGION where the connection is made"
        )
    return str(region)

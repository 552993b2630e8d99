"""Errors of connections and of brokers, in words that say what to do."""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING, Final

import kafka.errors

from metadata_source.addresses import format_address
from metadata_source.errors import PollError
from metadata_source.text import LONGEST, printable
from metadata_source.waiting import TooLateError

if TYPE_CHECKING:
    from metadata_source.addresses import Address
    from metadata_source.options import Cluster

UNREAD: Final = "Unable to decode response"
"""The library's words for an answer that is not the message it should be."""
_NEWER_ERRORS: Final = {
    128: "InvalidRegularExpressionError",
    129: "RebootstrapRequiredError",
    130: "StreamsInvalidTopologyError",
    131: "StreamsInvalidTopologyEpochError",
    132: "StreamsTopologyFencedError",
    133: "ShareSessionLimitReachedError",
    134: "GroupDeletionFailedError",
    135: "StreamsTopologyDescriptionUpdateFailedError",
    136: "ControllerIdNotRegisteredError",
}
"""Codes of Kafka 4.0 to 4.4 that the library does not know."""
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
_WRONG_HOST: Final = frozenset({62, 64})


def error_name(code: int) -> str:
    """Return an error code's name as kafka-python spells it (`ClusterAuthorizationFailedError`)."""
    return _NEWER_ERRORS.get(code) or str(kafka.errors.for_code(code).__name__)


def unreached(failure: OSError | TooLateError | ValueError, address: Address) -> PollError:
    """Return why no socket could be opened to a host: `failure` is of the system."""
    match failure:
        case TooLateError():
            return _at(address, "timeout", "the look-up of the host's name gave no answer in time")
        case OSError():
            return _at(address, *_explain_system(failure))
        case _:
            return _at(address, "unreachable", "not a host's name (a part is empty or too long)")


def connection_error(
    error: BaseException, cluster: Cluster, address: Address, asked: str
) -> PollError:
    """Return what the library's error means. `asked`: the request that was sent last."""
    return _at(address, *_explain(error, cluster, asked))


def _at(address: Address, kind: str, problem: str) -> PollError:
    where = format_address(address)
    return PollError(kind, f"{where}: {printable(' '.join(problem.split()))}")


def _explain(error: BaseException, cluster: Cluster, asked: str) -> tuple[str, str]:
    """Return the word for an error, and the line that says what to do."""
    cause = (
        error.args[0]
        if isinstance(error, kafka.errors.KafkaConnectionError) and error.args
        else error
    )
    text = _begin(str(error.args[0])) if error.args else type(error).__name__
    match cause:
        case ssl.SSLError():
            return "tls", _explain_tls(cause, cluster.ssl_certificate_location)
        case kafka.errors.InvalidReceiveError():
            return _explain_frame(text, cluster.max_response_bytes)
        case kafka.errors.KafkaTimeoutError() | kafka.errors.RequestTimedOutError():
            return "timeout", "no answer in time"
        case (
            kafka.errors.SaslAuthenticationFailedError()
            | kafka.errors.UnsupportedSaslMechanismError()
            | kafka.errors.IllegalSaslStateError()
        ):
            return "authentication", _explain_refusal(cause, text, cluster)
        case kafka.errors.BrokerResponseError():
            return _explain_code(cause, has_sasl=cluster.sent_mechanism is not None)
        case kafka.errors.KafkaProtocolError():
            unread = f"the answer to {asked} cannot be read: its bytes are no such message"
            return "protocol", unread if text == UNREAD else text
        case OSError():
            return _explain_system(cause)
        case kafka.errors.KafkaError() | str():
            return "unreachable", _explain_connection(text)
        case _ if type(cause).__module__.startswith("gssapi"):
            return "authentication", f"Kerberos: {cause}"
        case _:
            # The library's own code stumbled over what the broker sent.
            return "protocol", f"{type(cause).__name__}: {text}"


def _explain_code(error: kafka.errors.BrokerResponseError, *, has_sasl: bool) -> tuple[str, str]:
    # The library's own, of a server that does not name SaslHandshake among its requests.
    if has_sasl and isinstance(error, kafka.errors.IncompatibleBrokerVersion):
        return (
            "authentication",
            "this server has no SASL: set kafka.security.protocol to PLAINTEXT or SSL",
        )
    return "broker_error", f"error {error.errno} ({error_name(error.errno)})"


def _explain_refusal(error: BaseException, text: str, cluster: Cluster) -> str:
    if not isinstance(error, kafka.errors.SaslAuthenticationFailedError):
        return (
            f"this listener has no SASL mechanism {cluster.sent_mechanism}: set "
            "kafka.sasl.mechanism"
        )
    check = {
        "OAUTHBEARER": (
            "the broker's log says why: the token's issuer, audience, scope, signature or time"
        ),
        "AWS_MSK_IAM": "check that these AWS credentials may kafka-cluster:Connect",
    }.get(cluster.sasl_mechanism or "", "check user and password")
    return f"authentication refused: {text.removeprefix(f'{type(error).__name__}: ')} ({check})"


def _explain_frame(text: str, most_bytes: int) -> tuple[str, str]:
    size = int(text.rsplit(" ", 1)[-1])
    if size >> 16 in {0x1503, 0x1603}:  # a TLS record where a length should be
        return (
            "tls",
            "the broker speaks TLS here: set kafka.security.protocol to SSL or SASL_SSL",
        )
    begin = size.to_bytes(4, "big", signed=True)
    if size < 0 or begin.isalnum():
        return "protocol", f"not a Kafka broker: the answer begins with {begin!r}"
    return (
        "too_large",
        f"an answer of {size} bytes is larger than maxResponseBytes ({most_bytes})",
    )


def _explain_tls(error: ssl.SSLError, certificate: str | None) -> str:
    """Say what is wrong. Brokers refuse a client's certificate by an alert (RFC 8446, 6.2)."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_HOST:
            return f"the certificate is for another host: {error.verify_message}"
        return (
            f"the certificate is not trusted: {error.verify_message} (authorities: "
            "kafka.ssl.ca.location)"
        )
    reason = error.reason or error.strerror or ""
    if "_ALERT_" not in reason or not ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return f"no TLS connection: {reason}"
    alert = reason.rpartition("_ALERT_")[2].lower().replace("_", " ")
    if certificate is None:
        return (
            "the broker wants a certificate of the client: give kafka.ssl.certificate.location "
            f"({alert})"
        )
    return (
        f"the broker refused the client's certificate {certificate}: {alert} "
        "(kafka.ssl.certificate.location)"
    )


def _begin(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _explain_system(error: OSError) -> tuple[str, str]:
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return (
            "too_many_files",
            "no more files may be opened here: raise the limit (ulimit -n, LimitNOFILE)",
        )
    return "unreachable", (error.strerror or str(error)).lower()


def _explain_connection(text: str) -> str:
    if text == "socket disconnected":
        return "the broker closed the connection (as a listener with other security does)"
    return text

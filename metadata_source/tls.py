"""TLS settings of a cluster, made of the files that its options name."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from metadata_source.errors import OptionsError, PollError
from metadata_source.references import resolve_secret

if TYPE_CHECKING:
    from metadata_source.options import Cluster


def tls_context(cluster: Cluster) -> ssl.SSLContext | None:
    """Return a cluster's TLS settings, None without TLS. Raises PollError for unusable files."""
    try:
        return _ssl_context(cluster) if cluster.tls else None
    except OptionsError as error:
        raise PollError("options", error.problem) from None


def _ssl_context(cluster: Cluster) -> ssl.SSLContext:
    """Return the TLS settings of a cluster. Raises OptionsError for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=cluster.ssl_ca_location)
    except OSError as error:  # ssl.SSLError is one
        raise OptionsError(
            f"kafka.ssl.ca.location: {cluster.ssl_ca_location}: {_reason(error)}"
        ) from None
    context.check_hostname = cluster.ssl_check_hostname
    if cluster.ssl_certificate_location is not None:
        # Never None: OpenSSL would ask a terminal for the password of an encrypted key.
        password = (
            resolve_secret("kafka.ssl.key.password", cluster.ssl_key_password)
            if cluster.ssl_key_password
            else ""
        )
        try:
            context.load_cert_chain(
                cluster.ssl_certificate_location, cluster.ssl_key_location, password
            )
        except OSError as error:
            files = " and ".join(
                filter(None, (cluster.ssl_certificate_location, cluster.ssl_key_location))
            )
            # OpenSSL does not say which.
            unread = "no PEM files, or kafka.ssl.key.password is not the key's"
            reason = (
                unread
                if isinstance(error, ssl.SSLError) and error.reason is None
                else _reason(error)
            )
            raise OptionsError(
                f"kafka.ssl.certificate.location, kafka.ssl.key.location: {files}: {reason}"
            ) from None
        except ValueError:  # whose text may hold some of the password
            raise OptionsError(
                "kafka.ssl.key.password: longer than 1,024 bytes, or not UTF-8 text"
            ) from None
    return context


def _reason(error: OSError) -> str:
    return (
        (getattr(error, "reason", None) or error.strerror or type(error).__name__)
        .lower()
        .replace("_", " ")
    )

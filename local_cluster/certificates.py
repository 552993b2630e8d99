"""A certificate authority for tests, and certificates of brokers and clients signed by it."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = dt.timedelta(days=30)
_CLOCKS_DIFFER = dt.timedelta(hours=1)
"""Those of virtual machines do."""


@dataclass(frozen=True)
class Authority:
    """A self-signed certificate authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, name: str) -> "Authority":
        """A new authority with this common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(name)
        certificate = (
            _builder(subject, issuer=subject, key=key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    def write_certificate(self, file: Path) -> None:
        """The authority's certificate, which clients trust (PEM)."""
        file.write_bytes(_pem(self.certificate))

    def write_server_keystore(self, host: str, file: Path, *, expired: bool = False) -> None:
        """A new key and its certificate for the one DNS name `host` (PEM keystore of Kafka).

        An `expired` one was valid until an hour ago.
        """
        file.touch(mode=0o600)
        file.write_bytes(
            b"".join(self._issue(host, ExtendedKeyUsageOID.SERVER_AUTH, expired=expired))
        )

    def write_client_certificate(
        self, name: str, certificate: Path, key: Path, password: str
    ) -> None:
        """A new encrypted key, and its certificate for a client of this common name (PEM)."""
        private, *certificates = self._issue(
            name, ExtendedKeyUsageOID.CLIENT_AUTH, password=password
        )
        key.touch(mode=0o600)
        key.write_bytes(private)
        certificate.write_bytes(b"".join(certificates))

    def _issue(
        self,
        name: str,
        usage: x509.ObjectIdentifier,
        *,
        expired: bool = False,
        password: str | None = None,
    ) -> tuple[bytes, bytes, bytes]:
        """A new private key, its certificate and the authority's (PEM)."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_common_name(name), issuer=self.certificate.subject, key=key, expired=expired)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption(),
        )
        return private, _pem(certificate), _pem(self.certificate)


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, expired: bool = False
) -> x509.CertificateBuilder:
    end = dt.datetime.now(dt.UTC) + (-_CLOCKS_DIFFER if expired else _VALID)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - _VALID - _CLOCKS_DIFFER)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

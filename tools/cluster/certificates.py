# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of a cluster, and kubeconfig files made of them."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=365)
_SLACK = datetime.timedelta(hours=1)
"""A certificate is also good for a clock that is a little behind."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; its own is what the others are checked against."""

    def __init__(self, directory: Path, name: str) -> None:
        """Make a new authority, whose files are `<name>.crt` and `<name>.key`."""
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, ())
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_others=True), critical=True)
            .add_extension(self._identifier(), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = _save(directory, name, self._certificate, self._key)

    def issue(
        self, file: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> Pair:
        """Make a certificate for a client, also for a server when it has hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] * bool(hosts))]
        builder = (
            _builder(_name(user, groups), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_others=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return _save(self._directory, file, builder.sign(self._key, hashes.SHA256()), key)

    def kubeconfig(self, file: Path, server: str, pair: Pair) -> Path:
        """Write a kubeconfig for the holder of a certificate of this authority."""
        cluster = {"server": server, "certificate-authority-data": _encoded(self.pair.certificate)}
        user = {
            "client-certificate-data": _encoded(pair.certificate),
            "client-key-data": _encoded(pair.key),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "opensandbox", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [
                {"name": "opensandbox", "context": {"cluster": "opensandbox", "user": "user"}}
            ],
            "current-context": "opensandbox",
        }
        _write_private(file, json.dumps(config, indent=1).encode())
        return file

    def _identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def signing_pair(directory: Path, name: str) -> Pair:
    """Make a key and its public half, for tokens of service accounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = directory / f"{name}.pub"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    private = directory / f"{name}.key"
    _write_private(private, _pem(key))
    return Pair(public, private)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + VALID)
    )


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        encipher_only=False,
        decipher_only=False,
    )


def _save(
    directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> Pair:
    pair = Pair(directory / f"{name}.crt", directory / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(pair.key, _pem(key))
    return pair


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_private(file: Path, content: bytes) -> None:
    file.touch(mode=0o600)
    file.write_bytes(content)


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()

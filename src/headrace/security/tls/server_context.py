"""TLS of one listener: the context that new connections get, and its renewal.

A renewal replaces the context whole, so connections that live keep theirs, and sessions of the old one cannot be
resumed. The new pair must fit (`material`), and keep the distinguished name and every alternative name of the old one
unless `ssl.allow.dn.changes` or `ssl.allow.san.changes` say otherwise; a refused pair leaves the old one in force.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from cryptography import x509

from headrace.config import ConfigError, ListenerSecurity
from headrace.security.principal import ANONYMOUS
from headrace.security.tls.cipher_suites import restrict, restrict_curves
from headrace.security.tls.material import KeyMaterial, load_key_material, load_trusted, pem_of
from headrace.security.tls.names import principal_mapping, rfc2253

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# SSL_OP_ENABLE_KTLS: Python has its name from 3.12 on.
_ENABLE_KTLS: Final = 8


class ListenerTls:
    """Wraps accepted sockets, and returns the principal of a client after its handshake."""

    def __init__(self, security: ListenerSecurity) -> None:
        """`ConfigError` when the settings give no usable certificate."""
        self.security = security
        self.material, self._context = _load(security)
        self._principal = principal_mapping(security.ssl_principal_mapping_rules)

    @property
    def certificate(self) -> x509.Certificate:
        return self.material.certificate

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the current certificate."""
        return self._context

    def wrap(self, sock: socket.socket) -> ssl.SSLSocket:
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def principal_of(self, sock: ssl.SSLSocket) -> str:
        """The client's principal. Raises NoRule, or ValueError for a certificate that cannot be read."""
        # A certificate that the listener did not request does not identify the client.
        der = None if self._context.verify_mode is ssl.CERT_NONE else sock.getpeercert(binary_form=True)
        return ANONYMOUS if der is None else self.principal_of_certificate(der)

    def principal_of_certificate(self, der: bytes) -> str:
        """The principal of a certificate that a handshake has verified. Raises NoRule or ValueError."""
        return self._principal(rfc2253(x509.load_der_x509_certificate(der).subject))

    def renew(self, security: ListenerSecurity) -> None:
        """Loads the certificates of the current settings. After a `ConfigError` the old ones stay in force."""
        material, context = self.check(security)
        self.security, self.material, self._context = security, material, context

    def check(self, security: ListenerSecurity) -> tuple[KeyMaterial, ssl.SSLContext]:
        """Checks a renewal. `ConfigError` if it would be refused."""
        material, context = _load(security)
        if material.certificate != self.certificate:
            refuse_other_identity(security, self.certificate, material.certificate)
        return material, context


def refuse_other_identity(security: ListenerSecurity, old: x509.Certificate, new: x509.Certificate) -> None:
    named = f"{security.ssl_keystore.setting}.location"
    where = security.ssl_keystore.location
    if old.subject != new.subject and not security.ssl_allow_dn_changes:
        raise ConfigError(
            named,
            where,
            f"the new certificate is for {rfc2253(new.subject)}, the one in use for {rfc2253(old.subject)}; the old "
            "one stays. ssl.allow.dn.changes=true allows it",
        )
    lost = alternative_names(old) - alternative_names(new)
    if lost and not security.ssl_allow_san_changes:
        raise ConfigError(
            named,
            where,
            f"the new certificate lacks {', '.join(sorted(lost))}; the old one stays. ssl.allow.san.changes=true "
            "allows it",
        )


def alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found}


def _load(security: ListenerSecurity) -> tuple[KeyMaterial, ssl.SSLContext]:
    material = load_key_material(security.ssl_keystore)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, security.ssl_enabled_protocols, security.ssl_protocol, security.ssl_cipher_suites)
    restrict_curves(context)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_SINGLE_ECDH_USE | _ENABLE_KTLS
    # Without tickets every handshake checks the client's certificate against what is trusted now.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        with material.as_file() as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        settings = security.ssl_keystore
        why = f"OpenSSL does not take the certificate or its key: {error.reason or error}"
        raise ConfigError(f"{settings.setting}.location", settings.location, why) from None
    trust(context, security)
    return material, context


def trust(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    """Whether clients are asked for a certificate, and which are trusted."""
    context.verify_mode = _CLIENT_AUTH[security.ssl_client_auth]
    if context.verify_mode is ssl.CERT_NONE:
        return
    if not security.ssl_truststore.is_given:
        raise ConfigError(
            f"{security.ssl_truststore.setting}.location",
            None,
            f"must be set, because ssl.client.auth={security.ssl_client_auth} asks clients for certificates",
        )
    context.load_verify_locations(cadata=pem_of(load_trusted(security.ssl_truststore)))
    # As in Java, every certificate of the store is trusted, also one that is not an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

"""The certificate that a server shows, trusted or not, and how long it is valid."""

from __future__ import annotations

import datetime
import socket
import ssl

from headrace.kernel.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    is_valid: bool
    warning: str | None
    """A sentence when it is not valid now, or not for long."""


def shown_certificate(host: str, port: int, timeout_s: float) -> ShownCertificate | None:
    """None when no handshake succeeds. Blocks."""
    from cryptography import x509

    from headrace.security.tls.expiry import validity_warning

    # Not verified: the certificate is only shown, and nothing is sent to this server.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as encrypted,
        ):
            der = encrypted.getpeercert(binary_form=True)
    except OSError:
        return None
    if der is None:
        return None
    certificate, now = x509.load_der_x509_certificate(der), datetime.datetime.now(datetime.UTC)
    is_valid = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
    return ShownCertificate(is_valid, validity_warning(certificate, now))

"""Validity of certificates and its warnings. As in Kafka, a listener serves an expired certificate; the log warns."""

from __future__ import annotations

import datetime
from typing import Final

from cryptography import x509

from headrace.security.tls.names import rfc2253

# Enough time to renew a certificate by hand.
WARNED_DAYS: Final = 30
_A_DAY: Final = datetime.timedelta(days=1)


def validity_warning(certificate: x509.Certificate, now: datetime.datetime) -> str | None:
    """A warning if a certificate is invalid now or expires soon, else None."""
    name = rfc2253(certificate.subject)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begins:
        return f"certificate {name} is not valid before {begins:%Y-%m-%d %H:%M} UTC: clients refuse it"
    if now >= ends:
        return f"certificate {name} expired on {ends:%Y-%m-%d %H:%M} UTC: clients refuse it; renew it"
    left = ends - now
    if left < WARNED_DAYS * _A_DAY:
        days = left // _A_DAY
        when = "within a day" if days == 0 else "in one day" if days == 1 else f"in {days} days"
        return f"certificate {name} expires {when}, on {ends:%Y-%m-%d %H:%M} UTC: renew it"
    return None


def seconds_left(certificate: x509.Certificate, now: datetime.datetime) -> float:
    """Negative after it has expired."""
    return (certificate.not_valid_after_utc - now).total_seconds()

"""Versions and cipher suites of TLS: 1.2 with ECDHE and AEAD, and 1.3.

Kafka also takes four suites with CBC. They are left out: no client of the last ten years needs them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Final

from headrace.config import ConfigError

_TLS_1_2: Final = {
    f"TLS_ECDHE_{kind}_WITH_{cipher.upper().replace('-', '_')}": f"ECDHE-{kind}-{openssl}"
    for kind in ("ECDSA", "RSA")
    for cipher, openssl in (
        ("aes-128-gcm-sha256", "AES128-GCM-SHA256"),
        ("aes-256-gcm-sha384", "AES256-GCM-SHA384"),
        ("chacha20-poly1305-sha256", "CHACHA20-POLY1305"),
    )
}
_TLS_1_3: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def restrict(context: ssl.SSLContext, protocols: Sequence[str], newest: str, suites: Sequence[str]) -> None:
    """Sets what a context may negotiate. `ConfigError` for a suite that is not offered, or when nothing is left."""
    versions = {_VERSIONS[name] for name in protocols}
    if newest == "TLSv1.2":
        versions.discard(ssl.TLSVersion.TLSv1_3)
    chosen = tuple(_TLS_1_2.values())
    if suites:
        chosen, has_1_3 = _chosen(suites)
        if not chosen:
            versions.discard(ssl.TLSVersion.TLSv1_2)
        if not has_1_3:
            versions.discard(ssl.TLSVersion.TLSv1_3)
    if not versions:
        raise ConfigError("ssl.enabled.protocols", ",".join(protocols), "leaves no version with a cipher suite")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if chosen:
        context.set_ciphers(":".join(chosen))


def restrict_curves(context: ssl.SSLContext) -> None:
    """Curves of a server, as Mozilla's "intermediate" configuration has them. Python before 3.15 can name only one:
    P-256, which every client has. Without a limit OpenSSL would also take secp521r1 and X448."""
    set_groups: Callable[[str], None] | None = getattr(context, "set_groups", None)
    if set_groups is not None:
        set_groups("X25519:prime256v1:secp384r1")
    else:
        context.set_ecdh_curve("prime256v1")


def _chosen(suites: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    shown = ",".join(suites)
    for name in suites:
        if name not in _TLS_1_2 and name not in _TLS_1_3 and name not in _TLS_1_2.values():
            offered = ", ".join((*_TLS_1_3, *_TLS_1_2))
            raise ConfigError("ssl.cipher.suites", shown, f"{name} is not offered; these are: {offered}")
    of_1_3 = [name for name in _TLS_1_3 if name in suites]
    if 0 < len(of_1_3) < len(_TLS_1_3):
        raise ConfigError(
            "ssl.cipher.suites",
            shown,
            f"TLS 1.3 has all of its suites or none: name {', '.join(_TLS_1_3)}, or none of them",
        )
    return tuple(_TLS_1_2.get(name, name) for name in suites if name not in _TLS_1_3), bool(of_1_3)

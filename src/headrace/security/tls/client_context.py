"""TLS towards a server: a broker, or ZooKeeper. Certificates are checked; host names too, unless a setting says not."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from headrace.config import ConfigError
from headrace.config.listener_security import StoreSettings
from headrace.kernel.dataclass import dataclass
from headrace.security.tls.cipher_suites import restrict
from headrace.security.tls.material import KeyMaterial, load_key_material, load_trusted, pem_of

_BOTH_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What a client shows and trusts, read once."""

    material: KeyMaterial | None
    """Its own certificate, where it has one."""
    trusted_pem: str | None
    """None trusts what the system trusts."""
    check_hostname: bool = True
    protocols: Sequence[str] = _BOTH_VERSIONS
    suites: Sequence[str] = ()

    @classmethod
    def load(
        cls,
        keystore: StoreSettings,
        truststore: StoreSettings,
        *,
        check_hostname: bool = True,
        protocols: Sequence[str] = _BOTH_VERSIONS,
        suites: Sequence[str] = (),
    ) -> ClientTls:
        """`ConfigError` names the setting whose file cannot be used."""
        material = load_key_material(keystore) if keystore.is_given else None
        trusted = pem_of(load_trusted(truststore)) if truststore.is_given else None
        return cls(material, trusted, check_hostname, tuple(protocols), tuple(suites))

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        restrict(context, self.protocols, "TLSv1.3", self.suites)
        context.check_hostname = self.check_hostname
        if self.trusted_pem is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(cadata=self.trusted_pem)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.material is not None:
            try:
                with self.material.as_file() as path:
                    context.load_cert_chain(path)
            except ssl.SSLError as error:
                why = f"OpenSSL does not take the certificate or its key: {error.reason or error}"
                raise ConfigError("ssl.keystore.location", None, why) from None
        return context

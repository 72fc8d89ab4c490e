"""Authentication of a client connection: TLS and SASL, read from Kafka's own setting names.

`ClientSecurity.from_settings({"security.protocol": "SASL_SSL", ...})` takes the names that a Java or librdkafka user
already has. Certificates are PEM files (`ssl.ca.location`, or `ssl.truststore.location` with type PEM), PEM text or
PKCS12 stores; for a JKS store, the message gives the command that converts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.client.bearer_tokens import BearerTokens
from headrace.client.errors import Unreachable
from headrace.client.server_kind import connect_trouble
from headrace.config.listener_security import StoreSettings
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.sasl import oauthbearer
from headrace.security.sasl.client_login import CLIENT_MECHANISMS, SaslCredentials, client_tokens
from headrace.security.sasl.jaas import BadJaas, one_login_module
from headrace.security.sasl.mechanism import Denied
from headrace.security.sasl.token_source import CLIENT_ID, CLIENT_SECRET, BadTokenSource, TokenSource, token_source

if TYPE_CHECKING:
    import socket
    import ssl

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NO_TRUSTSTORE: Final = StoreSettings("ssl.truststore", "PEM", None, None)
_NO_KEYSTORE: Final = StoreSettings("ssl.keystore", "PEM", None, None)


def _wrong(message: str) -> Refused:
    return Refused(ErrorCode.invalid_config, message)


@dataclass(frozen=True)
class ClientSecurity:
    """Picklable, because Spark carries it to the executors."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    by_token: bool = False
    bearer: BearerTokens | None = field(default=None, repr=False)
    """The source of tokens for OAUTHBEARER."""
    truststore: StoreSettings = field(default=_NO_TRUSTSTORE, repr=False)
    keystore: StoreSettings = field(default=_NO_KEYSTORE, repr=False)
    key_file: str | None = None
    """The private key, where it stands in a file of its own (librdkafka's `ssl.key.location`)."""
    check_hostname: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> ClientSecurity:
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise _wrong(f"security.protocol={protocol!r}: must be one of {', '.join(_PROTOCOLS)}")
        mechanism = username = password = ""
        by_token = False
        bearer = None
        if protocol.startswith("SASL"):
            mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")).upper()
            if not mechanism:
                # Kafka's default GSSAPI is not supported, and a default of PLAIN would send a password in the clear.
                raise _wrong(
                    f"security.protocol={protocol} needs sasl.mechanism: one of {', '.join(CLIENT_MECHANISMS)}"
                )
            if mechanism not in CLIENT_MECHANISMS:
                raise _wrong(f"sasl.mechanism={mechanism!r}: must be one of {', '.join(CLIENT_MECHANISMS)}")
            if mechanism == oauthbearer.NAME:
                bearer = BearerTokens(_token_source(settings))
                username = bearer.source.title
            else:
                username, password, by_token = _credentials(settings)
        return cls(
            protocol=protocol,
            mechanism=mechanism,
            username=username,
            password=password,
            by_token=by_token,
            bearer=bearer,
            truststore=_truststore(settings),
            keystore=_keystore(settings),
            key_file=settings.get("ssl.key.location"),
            check_hostname=settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
        )

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def tls_context(self) -> ssl.SSLContext:
        # Imported when needed: it is a third of the imports of a short-lived planning process.
        import ssl

        if not (_is_pem_file(self.truststore) and _is_pem_file(self.keystore)):
            from headrace.security.tls.client_context import ClientTls  # PEM files alone do not need `cryptography`

            return ClientTls.load(self.keystore, self.truststore, check_hostname=self.check_hostname).context()
        ca_file, certificate_file = self.truststore.location, self.keystore.location
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise _wrong(f"certificates of {ca_file!r} cannot be read: {_why(error)}") from error
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = self.check_hostname
        if certificate_file:
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(certificate_file, self.key_file, self.keystore.key_password or "")
            except OSError as error:
                names = " and ".join(repr(name) for name in (certificate_file, self.key_file) if name)
                raise _wrong(f"certificate and key of {names} cannot be read: {_why(error)}") from error
        return context

    def trusted_pem(self) -> str:
        """The trusted certificates as PEM text, from any type of store."""
        from headrace.security.tls.material import load_trusted, pem_of

        return pem_of(load_trusted(self.truststore))

    def key_and_chain_pem(self) -> tuple[str, str]:
        """The decrypted private key and its certificates as PEM text, from any type of store."""
        from headrace.security.tls.material import load_key_material

        material = load_key_material(self.keystore)
        return material.key_pem.decode(), material.chain_pem.decode()

    def encrypt(self, plain: socket.socket, context: ssl.SSLContext, address: str) -> ssl.SSLSocket:
        """The connection after a TLS handshake; an untrusted certificate is final, a lost connection is not."""
        import ssl

        try:
            return context.wrap_socket(plain, server_hostname=address.rpartition(":")[0])
        except ssl.SSLCertVerificationError as error:
            host, _, port = address.rpartition(":")
            raise _wrong(connect_trouble(host, int(port), error, 0)) from error
        except OSError as error:
            raise Unreachable(
                f"no TLS with {address}: {_why(error)} (security.protocol={self.protocol}: is this a TLS listener?)"
            ) from error

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def tokens(self) -> Generator[bytes, bytes, None]:
        """The client's side of the login (`client_tokens`)."""
        if self.bearer is not None:
            return oauthbearer.client_tokens(self.bearer.current)
        return client_tokens(SaslCredentials(self.mechanism, self.username, self.password, self.by_token))

    def authenticate(self, exchange: Callable[[bytes], bytes]) -> None:
        """Runs the mechanism; `exchange` sends our bytes and returns the server's."""
        tokens = self.tokens()
        try:
            ours = next(tokens)
            while True:
                ours = tokens.send(exchange(ours))
        except StopIteration:
            return
        except Denied as denied:
            raise Refused(ErrorCode.sasl_authentication_failed, denied.reason) from denied


def _why(error: OSError) -> str:
    """OpenSSL's message without the position in its source."""
    return re.sub(r"^\[.*?\] | \(_ssl\.c:\d+\)$", "", error.strerror or str(error)) or "no PEM, or a wrong password"


def _is_pem_file(store: StoreSettings) -> bool:
    """Whether the store is a PEM file that OpenSSL reads itself, or there is no store."""
    return not store.is_given or (store.location is not None and store.type == "PEM")


def _truststore(settings: Mapping[str, str]) -> StoreSettings:
    own = settings.get("ssl.ca.location")  # librdkafka's name, always PEM
    text = settings.get("ssl.truststore.certificates") or settings.get("ssl.ca.pem")
    return StoreSettings(
        "ssl.truststore",
        "PEM" if own or "ssl.ca.pem" in settings else settings.get("ssl.truststore.type", "JKS").upper(),
        own or settings.get("ssl.truststore.location"),
        settings.get("ssl.truststore.password"),
        certificates=text,
    )


def _keystore(settings: Mapping[str, str]) -> StoreSettings:
    own = settings.get("ssl.certificate.location")  # librdkafka's name, always PEM
    kind = "PEM" if own or "ssl.certificate.pem" in settings else settings.get("ssl.keystore.type", "JKS").upper()
    return StoreSettings(
        "ssl.keystore",
        kind,
        own or settings.get("ssl.keystore.location"),
        settings.get("ssl.keystore.password"),
        key=settings.get("ssl.keystore.key") or settings.get("ssl.key.pem"),
        certificates=settings.get("ssl.keystore.certificate.chain") or settings.get("ssl.certificate.pem"),
        key_password=settings.get("ssl.key.password"),
    )


# librdkafka's names of settings that Kafka spells differently.
_LIBRDKAFKA_NAMES: Final = {
    CLIENT_ID: "sasl.oauthbearer.client.id",
    CLIENT_SECRET: "sasl.oauthbearer.client.secret",
}


def _token_source(settings: Mapping[str, str]) -> TokenSource:
    def setting(name: str) -> str | None:
        return settings.get(name) or settings.get(_LIBRDKAFKA_NAMES.get(name, name))

    try:
        text = settings.get("sasl.jaas.config")
        return token_source(setting, one_login_module(text).options if text else {})
    except BadJaas as bad:
        raise _wrong(f"sasl.jaas.config: {bad}") from None
    except BadTokenSource as bad:
        raise _wrong(str(bad)) from None


def _credentials(settings: Mapping[str, str]) -> tuple[str, str, bool]:
    """User name, password, and whether they are those of a delegation token."""
    if "sasl.username" in settings:
        return settings["sasl.username"], settings.get("sasl.password", ""), False
    try:
        options = one_login_module(settings.get("sasl.jaas.config", "")).options
    except BadJaas as bad:
        raise _wrong(
            f"SASL needs sasl.username and sasl.password, or a sasl.jaas.config with both: of the latter, {bad}"
        ) from None
    if not {"username", "password"} <= set(options):
        raise _wrong("SASL needs sasl.username and sasl.password, or a sasl.jaas.config with both")
    return options["username"], options["password"], options.get("tokenauth", "").lower() == "true"

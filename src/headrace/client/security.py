"""How a client connection proves itself: TLS and SASL (PLAIN, SCRAM), read from Kafka's own setting names.

`ClientSecurity.from_settings({"security.protocol": "SASL_SSL", ...})` takes the names that a Java or librdkafka user
already has. Certificates are PEM (`ssl.ca.location`, or `ssl.truststore.location` with `ssl.truststore.type=PEM`):
Python opens no JKS or PKCS12 store, and the message gives the command that turns one into PEM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.client.errors import Unreachable
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.sasl.client_login import CLIENT_MECHANISMS, SaslCredentials, client_tokens
from headrace.security.sasl.jaas import BadJaas, one_login_module
from headrace.security.sasl.mechanism import Denied

if TYPE_CHECKING:
    import socket
    import ssl

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# How a store of Java's becomes PEM. A JKS store is a PKCS12 store first.
_TO_PKCS12: Final = "keytool -importkeystore -srckeystore {0} -destkeystore {0}.p12 -deststoretype PKCS12"
_TO_PEM: Final = {
    "ssl.truststore": "openssl pkcs12 -in {0} -nokeys -out {0}.pem",
    "ssl.keystore": "openssl pkcs12 -in {0} -nodes -out {0}.pem",
}


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
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> ClientSecurity:
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise _wrong(f"security.protocol={protocol!r}: must be one of {', '.join(_PROTOCOLS)}")
        mechanism = username = password = ""
        by_token = False
        if protocol.startswith("SASL"):
            mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")).upper()
            if not mechanism:
                # Kafka's default, GSSAPI, cannot be had here; and guessing PLAIN would send a password in the clear.
                raise _wrong(
                    f"security.protocol={protocol} needs sasl.mechanism: one of {', '.join(CLIENT_MECHANISMS)}"
                )
            if mechanism not in CLIENT_MECHANISMS:
                raise _wrong(f"sasl.mechanism={mechanism!r}: must be one of {', '.join(CLIENT_MECHANISMS)}")
            username, password, by_token = _credentials(settings)
        return cls(
            protocol=protocol,
            mechanism=mechanism,
            username=username,
            password=password,
            by_token=by_token,
            ca_file=settings.get("ssl.ca.location") or _pem(settings, "ssl.truststore"),
            certificate_file=settings.get("ssl.certificate.location") or _pem(settings, "ssl.keystore"),
            key_file=settings.get("ssl.key.location"),
            key_password=settings.get("ssl.key.password"),
            check_hostname=settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
        )

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def tls_context(self) -> ssl.SSLContext:
        # Loaded when needed: it is a third of what a short-lived planning process imports.
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise _wrong(f"certificates of {self.ca_file!r} cannot be read: {_why(error)}") from error
        context.check_hostname = self.check_hostname
        if self.certificate_file:
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.certificate_file, self.key_file, self.key_password or "")
            except OSError as error:
                names = " and ".join(repr(name) for name in (self.certificate_file, self.key_file) if name)
                raise _wrong(f"certificate and key of {names} cannot be read: {_why(error)}") from error
        return context

    def encrypt(self, plain: socket.socket, context: ssl.SSLContext, address: str) -> ssl.SSLSocket:
        """The connection after a TLS handshake; an untrusted certificate is final, a lost connection is not."""
        import ssl

        try:
            return context.wrap_socket(plain, server_hostname=address.rpartition(":")[0])
        except ssl.SSLCertVerificationError as error:
            raise _wrong(
                f"{address} shows a certificate that is not trusted ({error.verify_message}): give the authority that "
                "signed it with ssl.ca.location (PEM), or connect by a name that it holds"
            ) from error
        except OSError as error:
            raise Unreachable(
                f"no TLS with {address}: {_why(error)} (security.protocol={self.protocol}: is this a TLS listener?)"
            ) from error

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def tokens(self) -> Generator[bytes, bytes, None]:
        """The client's side of the login (`client_tokens`)."""
        return client_tokens(SaslCredentials(self.mechanism, self.username, self.password, self.by_token))

    def authenticate(self, exchange: Callable[[bytes], bytes]) -> None:
        """Runs the mechanism; `exchange` sends our bytes and gives the server's."""
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
    """OpenSSL's own words come with the place in its source."""
    return re.sub(r"^\[.*?\] | \(_ssl\.c:\d+\)$", "", error.strerror or str(error)) or "no PEM, or a wrong password"


def _pem(settings: Mapping[str, str], store: str) -> str | None:
    location = settings.get(f"{store}.location")
    kind = settings.get(f"{store}.type", "JKS").upper()
    if location and kind != "PEM":
        steps = [_TO_PEM[store].format(location)]
        if kind == "JKS":
            steps = [_TO_PKCS12.format(location), _TO_PEM[store].format(f"{location}.p12")]
        raise _wrong(
            f"{store}.location={location!r} is a {kind} store, and only PEM can be read here: convert it "
            f"({' && '.join(steps)}), then give the .pem file and {store}.type=PEM"
        )
    return location


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

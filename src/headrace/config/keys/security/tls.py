"""Broker keys of TLS. Each also works for one listener, as `listener.name.<name>.<key>`, which wins.

The certificate and the trusted certificates can change while the broker runs (`RENEWED`); other keys cannot.
"""

from __future__ import annotations

from headrace.config.effect import harmless, refused
from headrace.config.key import Importance, Key, Type, Update
from headrace.config.rules import one_of, some_of

BOOLEAN = Type.BOOLEAN
CLASS = Type.CLASS
LIST = Type.LIST
PASSWORD = Type.PASSWORD
STRING = Type.STRING
LOW = Importance.LOW
PER_BROKER = Update.PER_BROKER

OPENSSL = "OpenSSL does this work, and Java's settings do not apply to it"
NOT_JAVA = refused("the broker loads no Java code")
STORES = one_of("PEM", "PKCS12", "JKS")


KEYS = (
    Key(
        "ssl.keystore.location",
        STRING,
        None,
        "File with the broker's private key and certificate.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "Format of that file: PEM or PKCS12. Java's own format, JKS, cannot be read: keytool turns it into PKCS12.",
        STORES,
        update=PER_BROKER,
    ),
    Key(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "Password of that file.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key itself, as PEM text.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The broker's certificates themselves, as PEM text.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.key.password",
        PASSWORD,
        None,
        "Password of the private key.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.truststore.location",
        STRING,
        None,
        "File with the certificates that the broker trusts.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "Format of that file: PEM or PKCS12. Java's own format, JKS, cannot be read: keytool turns it into PKCS12.",
        STORES,
        update=PER_BROKER,
    ),
    Key(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "Password of that file.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The trusted certificates themselves, as PEM text.",
        update=PER_BROKER,
    ),
    Key(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate: none, requested or required.",
        one_of("none", "requested", "required"),
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "ssl.protocol",
        STRING,
        "TLSv1.3",
        "Newest version of TLS that the broker speaks.",
        one_of("TLS", "TLSv1.2", "TLSv1.3"),
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "ssl.enabled.protocols",
        LIST,
        ["TLSv1.2", "TLSv1.3"],
        "Versions of TLS that the broker accepts.",
        some_of("TLSv1.2", "TLSv1.3"),
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "ssl.cipher.suites",
        LIST,
        [],
        "Cipher suites that the broker accepts, by their IANA names; empty accepts those with ECDHE and AEAD.",
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How the name of another broker is checked against its certificate; empty does not check it.",
        importance=LOW,
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "Rules that turn the name in a client's certificate into a principal.",
        importance=LOW,
    ),
    Key(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "Whether a new certificate may have another distinguished name while the broker runs.",
        importance=LOW,
    ),
    Key(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "Whether a new certificate may have other alternative names while the broker runs.",
        importance=LOW,
    ),
    Key(
        "ssl.engine.factory.class",
        CLASS,
        None,
        "Class that makes the TLS engine.",
        importance=LOW,
        update=PER_BROKER,
        effect=NOT_JAVA,
    ),
    Key(
        "ssl.keymanager.algorithm",
        STRING,
        "SunX509",
        "Algorithm of Java's key manager.",
        update=PER_BROKER,
        effect=harmless(OPENSSL),
    ),
    Key(
        "ssl.trustmanager.algorithm",
        STRING,
        "PKIX",
        "Algorithm of Java's trust manager.",
        update=PER_BROKER,
        effect=harmless(OPENSSL),
    ),
    Key(
        "ssl.provider",
        STRING,
        None,
        "Java security provider for TLS.",
        update=PER_BROKER,
        effect=NOT_JAVA,
    ),
    Key(
        "ssl.secure.random.implementation",
        STRING,
        None,
        "Java's source of random numbers for TLS.",
        importance=LOW,
        update=PER_BROKER,
        effect=harmless(OPENSSL),
    ),
    Key(
        "security.providers",
        STRING,
        None,
        "Java security providers to install.",
        importance=LOW,
        effect=NOT_JAVA,
    ),
)

# Keys that can change while a broker runs, for one listener at a time. Passwords and private keys cannot, because
# dynamic values are stored in clear text. A new file must have the old password.
RENEWED = frozenset(("ssl.keystore.type", "ssl.keystore.location", "ssl.truststore.type", "ssl.truststore.location"))

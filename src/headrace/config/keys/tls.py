"""Broker keys of TLS. Honour one by removing its `effect`."""

from __future__ import annotations

from headrace.config.effect import refused
from headrace.config.key import Importance, Key, Type, Update

BOOLEAN = Type.BOOLEAN
CLASS = Type.CLASS
LIST = Type.LIST
PASSWORD = Type.PASSWORD
STRING = Type.STRING
LOW = Importance.LOW
PER_BROKER = Update.PER_BROKER

NOT_OFFERED = refused("TLS is not offered yet")


KEYS = (
    Key(
        "ssl.keystore.location",
        STRING,
        None,
        "File with the broker's private key and certificate.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "Format of that file.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "Password of that file.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key itself, as PEM text.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The broker's certificates themselves, as PEM text.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.key.password",
        PASSWORD,
        None,
        "Password of the private key.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.truststore.location",
        STRING,
        None,
        "File with the certificates that the broker trusts.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "Format of that file.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "Password of that file.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The trusted certificates themselves, as PEM text.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate: none, requested or required.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.protocol",
        STRING,
        "TLSv1.3",
        "Newest version of TLS that the broker speaks.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.enabled.protocols",
        LIST,
        ["TLSv1.2", "TLSv1.3"],
        "Versions of TLS that the broker accepts.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.cipher.suites",
        LIST,
        [],
        "Cipher suites that the broker accepts; empty accepts the library's.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How the name of a server is checked against its certificate; empty does not check it.",
        importance=LOW,
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "Rules that turn the name in a client's certificate into a principal.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "Whether a new certificate may have another distinguished name while the broker runs.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "Whether a new certificate may have other alternative names while the broker runs.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.engine.factory.class",
        CLASS,
        None,
        "Class that makes the TLS engine.",
        importance=LOW,
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.keymanager.algorithm",
        STRING,
        "SunX509",
        "Algorithm of Java's key manager.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.trustmanager.algorithm",
        STRING,
        "PKIX",
        "Algorithm of Java's trust manager.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.provider",
        STRING,
        None,
        "Java security provider for TLS.",
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "ssl.secure.random.implementation",
        STRING,
        None,
        "Java's source of random numbers for TLS.",
        importance=LOW,
        update=PER_BROKER,
        effect=NOT_OFFERED,
    ),
    Key(
        "security.providers",
        STRING,
        None,
        "Java security providers to install.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
)

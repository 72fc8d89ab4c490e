"""Broker keys of TLS to ZooKeeper."""

from __future__ import annotations

from headrace.config.effect import harmless, refused
from headrace.config.key import Importance, Key, Type
from headrace.config.rules import one_of, some_of

BOOLEAN = Type.BOOLEAN
LIST = Type.LIST
PASSWORD = Type.PASSWORD
STRING = Type.STRING
LOW = Importance.LOW

NOT_OFFERED = refused("revocation of certificates is not checked")


KEYS = (
    Key(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        "Whether brokers connect to ZooKeeper with TLS.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        "File with the broker's key and certificate for ZooKeeper.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        "Password of that file.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.keystore.type",
        STRING,
        None,
        "Format of that file: PEM or PKCS12; told by the end of its name when unset.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        "File with the certificates that the broker trusts.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.truststore.password",
        PASSWORD,
        None,
        "Password of that file.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.truststore.type",
        STRING,
        None,
        "Format of that file: PEM or PKCS12; told by the end of its name when unset.",
        ours=True,
    ),
    Key(
        "zookeeper.ssl.protocol",
        STRING,
        "TLSv1.2",
        "Oldest version of TLS to ZooKeeper, where `zookeeper.ssl.enabled.protocols` is unset.",
        one_of("TLSv1.2", "TLSv1.3"),
        importance=LOW,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.enabled.protocols",
        LIST,
        None,
        "Versions of TLS that are accepted.",
        some_of("TLSv1.2", "TLSv1.3"),
        importance=LOW,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.cipher.suites",
        LIST,
        None,
        "Cipher suites that are accepted.",
        importance=LOW,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "How the name of the server is checked against its certificate: HTTPS, or empty for not at all.",
        importance=LOW,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.crl.enable",
        BOOLEAN,
        False,
        "Whether revocation lists are checked.",
        importance=LOW,
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.ocsp.enable",
        BOOLEAN,
        False,
        "Whether the status of certificates is asked for online.",
        importance=LOW,
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.clientCnxnSocket",
        STRING,
        None,
        "Java class of the connection to ZooKeeper.",
        effect=harmless("the ZooKeeper client is not Java's"),
        ours=True,
    ),
)

"""Broker keys of TLS to ZooKeeper. Honour one by removing its `effect`."""

from __future__ import annotations

from headrace.config.effect import harmless, refused
from headrace.config.key import Importance, Key, Type

BOOLEAN = Type.BOOLEAN
LIST = Type.LIST
PASSWORD = Type.PASSWORD
STRING = Type.STRING
LOW = Importance.LOW

NOT_OFFERED = refused("TLS to ZooKeeper is not offered yet")


KEYS = (
    Key(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        False,
        "Whether brokers connect to ZooKeeper with TLS.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        "File with the broker's key and certificate for ZooKeeper.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        "Password of that file.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.keystore.type",
        STRING,
        None,
        "Format of that file.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        "File with the certificates that the broker trusts.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.truststore.password",
        PASSWORD,
        None,
        "Password of that file.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.truststore.type",
        STRING,
        None,
        "Format of that file.",
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.protocol",
        STRING,
        "TLSv1.2",
        "Version of TLS to ZooKeeper.",
        importance=LOW,
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.enabled.protocols",
        LIST,
        None,
        "Versions of TLS that are accepted.",
        importance=LOW,
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.cipher.suites",
        LIST,
        None,
        "Cipher suites that are accepted.",
        importance=LOW,
        effect=NOT_OFFERED,
        ours=True,
    ),
    Key(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        "How the name of the server is checked against its certificate.",
        importance=LOW,
        effect=NOT_OFFERED,
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

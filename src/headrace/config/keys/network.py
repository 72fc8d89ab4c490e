"""Broker keys: listeners, connections and request sizes."""

from __future__ import annotations

from headrace.config.effect import harmless, warned
from headrace.config.key import INT_MAX, Importance, Key, Type, Update
from headrace.config.rules import CONNECTIONS_OF_ADDRESSES, at_least, one_of

STRING = Type.STRING
INT = Type.INT
LONG = Type.LONG
LIST = Type.LIST
HIGH = Importance.HIGH
LOW = Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE
PER_BROKER = Update.PER_BROKER

KEYS = (
    Key(
        "listeners",
        LIST,
        ["PLAINTEXT://127.0.0.1:9092"],
        "Where the broker listens: `NAME://host:port`, separated by commas. An empty host means every "
        "interface; port 0 lets the system choose.",
        importance=HIGH,
        update=PER_BROKER,
        static_only=True,
        difference="Default is loopback: PLAINTEXT beyond this machine must be asked for by naming the listener.",
    ),
    Key(
        "advertised.listeners",
        LIST,
        None,
        "Addresses that clients are told to use, by listener name. Set it where the address to bind is not "
        "the one clients can reach. When unset, `listeners` is told.",
        importance=HIGH,
    ),
    Key(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name stands for.",
        importance=LOW,
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener that brokers use among themselves; when unset, the one of `security.inter.broker.protocol`.",
    ),
    Key(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "Security protocol between brokers; not together with `inter.broker.listener.name`.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Key(
        "num.network.threads",
        INT,
        3,
        "Threads that read requests and send answers.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        effect=harmless("one event loop does this work"),
    ),
    Key(
        "num.io.threads",
        INT,
        8,
        "Threads that handle requests.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        effect=harmless("one event loop does this work"),
    ),
    Key(
        "background.threads",
        INT,
        10,
        "Threads for housekeeping.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        effect=harmless("a fixed pool of threads does the disk work"),
    ),
    Key(
        "queued.max.requests",
        INT,
        500,
        "Requests that may wait before the broker stops reading from its connections.",
        at_least(1),
        importance=HIGH,
        effect=harmless("the event loop serves requests as it reads them, so none wait in a queue"),
    ),
    Key(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes of requests that may wait before the broker stops reading; -1 sets no limit.",
        effect=warned("the broker bounds the memory for requests by itself"),
    ),
    Key(
        "request.timeout.ms",
        INT,
        30_000,
        "How long the broker waits for another broker's answer.",
        importance=HIGH,
        effect=warned("requests between brokers have fixed time limits"),
    ),
    Key(
        "socket.request.max.bytes",
        INT,
        104_857_600,
        "The largest request that is read; a connection that announces more is closed.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "socket.send.buffer.bytes",
        INT,
        102_400,
        "SO_SNDBUF of the sockets; -1 leaves it to the system.",
        importance=HIGH,
    ),
    Key(
        "socket.receive.buffer.bytes",
        INT,
        102_400,
        "SO_RCVBUF of the sockets; -1 leaves it to the system.",
        importance=HIGH,
        effect=harmless("the operating system tunes the receive buffers"),
    ),
    Key(
        "socket.listen.backlog.size",
        INT,
        50,
        "Connections that may wait to be accepted.",
        at_least(1),
        difference="At least 1024 may wait.",
    ),
    Key(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "How long opening a connection to another broker may take at first.",
        effect=warned("connections between brokers have fixed time limits"),
    ),
    Key(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "How long it may take at most, after retries lengthened it.",
        effect=warned("connections between brokers have fixed time limits"),
    ),
    Key("connections.max.idle.ms", LONG, 600_000, "A connection without traffic for this long is closed."),
    Key(
        "connections.max.reauth.ms",
        LONG,
        0,
        "How long an authenticated session lasts before the client must authenticate again; 0 means for ever.",
    ),
    Key(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "Time between a failed authentication and closing the connection.",
        at_least(0),
        importance=LOW,
    ),
    Key("max.connections", INT, INT_MAX, "Connections the broker holds at once.", at_least(0), update=CLUSTER_WIDE),
    Key(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Connections held at once from one address.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "`address:count` pairs, separated by commas, that differ from `max.connections.per.ip`.",
        CONNECTIONS_OF_ADDRESSES,
        update=CLUSTER_WIDE,
    ),
    Key(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "New connections accepted in a second.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "early.start.listeners",
        LIST,
        None,
        "Listeners that open before the broker has its metadata.",
        importance=HIGH,
        effect=harmless("every listener opens when the broker can serve"),
    ),
    Key(
        "fetch.max.bytes",
        INT,
        57_671_680,
        "The most bytes one fetch answer holds, whatever the client asks.",
        at_least(1024),
    ),
    Key("max.incremental.fetch.session.cache.slots", INT, 1000, "Incremental fetch sessions kept.", at_least(0)),
    Key(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions one DescribeTopicPartitions answer holds.",
        at_least(1),
    ),
)

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
        difference="The default is the loopback address: to serve PLAINTEXT to other machines, set the listener.",
    ),
    Key(
        "advertised.listeners",
        LIST,
        None,
        "Addresses that the broker gives to clients, by listener name. Set it if clients cannot reach the addresses "
        "in `listeners`. Default: `listeners`.",
        importance=HIGH,
    ),
    Key(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name.",
        importance=LOW,
        update=PER_BROKER,
        static_only=True,
    ),
    Key(
        "inter.broker.listener.name",
        STRING,
        None,
        "Listener for requests between brokers. Default: the listener of `security.inter.broker.protocol`.",
    ),
    Key(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "Security protocol between brokers. Do not set it together with `inter.broker.listener.name`.",
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
        effect=harmless("the event loop serves each request when it reads it, so there is no queue"),
    ),
    Key(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes of requests that may wait before the broker stops reading; -1 sets no limit.",
        effect=warned("the broker limits the memory for requests by itself"),
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
        "Maximum size of a request. The broker closes a connection that sends a larger one.",
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
        "Timeout for the first attempt to open a connection to another broker.",
        effect=warned("connections between brokers have fixed time limits"),
    ),
    Key(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "Maximum of this timeout after several retries.",
        effect=warned("connections between brokers have fixed time limits"),
    ),
    Key("connections.max.idle.ms", LONG, 600_000, "The broker closes a connection that is idle for this time."),
    Key(
        "connections.max.reauth.ms",
        LONG,
        0,
        "Time after which a client must authenticate again; 0 means never.",
    ),
    Key(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "Time between a failed authentication and closing the connection.",
        at_least(0),
        importance=LOW,
    ),
    Key("max.connections", INT, INT_MAX, "Maximum number of connections.", at_least(0), update=CLUSTER_WIDE),
    Key(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Maximum number of connections from one address.",
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
        "Maximum number of new connections per second.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "early.start.listeners",
        LIST,
        None,
        "Listeners that open before the broker has the cluster metadata.",
        importance=HIGH,
        effect=harmless("every listener opens when the broker can serve"),
    ),
    Key(
        "fetch.max.bytes",
        INT,
        57_671_680,
        "Maximum bytes of one fetch answer, for every client.",
        at_least(1024),
    ),
    Key(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "Maximum number of incremental fetch sessions.",
        at_least(0),
    ),
    Key(
        "max.request.partition.size.limit",
        INT,
        2000,
        "Maximum number of partitions in one DescribeTopicPartitions answer.",
        at_least(1),
    ),
)

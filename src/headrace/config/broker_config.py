"""A broker's configuration: layers of text, and the typed values of the keys.

    dynamic, this broker  →  dynamic, all brokers  →  server.properties  →  default      (the first that has it wins)

The broker builds it at the start (`load_broker_config`: a wrong value stops the start) and again when a dynamic value
changes (`with_dynamic`: it ignores a wrong stored value with a warning, so that the value cannot stop a restart). It is
immutable, so each holder sees consistent settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from headrace.config.aliases import BROKER_ALIASES
from headrace.config.attributes import BrokerAttributes
from headrace.config.key import ConfigError, Key, Update, Value, attribute_names
from headrace.config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, tls
from headrace.config.listener_keys import listener_key, listener_keys
from headrace.config.secrets import with_secrets
from headrace.config.unknown_keys import refuse_unknown_protection, unknown_key_warning

# The values of Kafka's sample file for a single broker. It cannot have three replicas of its internal topics, and with
# Kafka's default delay the first consumer of every new group waits three seconds for other members.
_STANDALONE_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_EMPTY: Mapping[str, str] = MappingProxyType({})
# In `cordoned.log.dirs`.
ALL_LOG_DIRS = "*"
_ATTRIBUTES = attribute_names(BROKER_KEYS, but="log.dirs")


def load_broker_config(properties: Mapping[str, str]) -> BrokerConfig:
    """The configuration from `server.properties`, overridden by `--set key=value`. Only this function replaces
    references to secrets (`${file:…}`, `${env:…}`), never in values that a client sends."""
    return BrokerConfig(with_secrets(properties))


class BrokerConfig(BrokerAttributes):
    """`config.num_partitions` is the effective value of `num.partitions`, or None if it is not set and has no default.
    `config["num.partitions"]` is for callers that have the name of a key as text."""

    def __init__(
        self,
        originals: Mapping[str, str],
        *,
        dynamic_broker: Mapping[str, str] = _EMPTY,
        dynamic_default: Mapping[str, str] = _EMPTY,
    ) -> None:
        self.originals: Mapping[str, str] = MappingProxyType(dict(originals))
        self.warnings: list[str] = []
        static = self._known(originals)
        _add_implied_values(static)
        self.static: Mapping[str, str] = MappingProxyType(static)
        self.static_of_listeners: Mapping[str, str] = MappingProxyType(self._of_listeners(originals))
        self.dynamic_of_listeners: Mapping[str, str] = MappingProxyType(
            {key.name: text for key, text in listener_keys(dynamic_broker) if key.changes_while_running}
        )
        """Certificates that were changed while the broker runs. The code that loads them checks their content."""
        parsed = {name: BROKER_KEYS[name].parse(text) for name, text in static.items()}
        self.dynamic_default = self._stored(dynamic_default)
        self.dynamic_broker = self._stored(dynamic_broker)
        self._values: dict[str, Value] = {name: key.default for name, key in BROKER_KEYS.items()}
        self._values.update(parsed)
        for layer in (self.dynamic_default, self.dynamic_broker):
            self._values.update({name: BROKER_KEYS[name].parse(text) for name, text in layer.items()})
        check_together(self._values)
        self.topic_values: Mapping[str, Value] = {name: self._inherited(key) for name, key in TOPIC_KEYS.items()}
        self.group_values: Mapping[str, Value] = {name: self._inherited(key) for name, key in GROUP_KEYS.items()}
        self.__dict__.update({name: self._values[key] for name, key in _ATTRIBUTES.items()})

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def get(self, name: str, default: Value = None) -> Value:
        return self._values.get(name, default)

    def is_set(self, name: str) -> bool:
        """Whether the value is set explicitly and not by default."""
        return name in self.static or name in self.dynamic_default or name in self.dynamic_broker

    def with_dynamic(
        self, broker: Mapping[str, str] = _EMPTY, cluster_default: Mapping[str, str] = _EMPTY
    ) -> BrokerConfig:
        """The same file with other dynamic values. Replaces both dynamic layers completely."""
        return BrokerConfig(self.originals, dynamic_broker=broker, dynamic_default=cluster_default)

    def with_static(self, properties: Mapping[str, str]) -> BrokerConfig:
        """The configuration with `properties` appended to the file (a port from the system, a generated broker id)."""
        return BrokerConfig(
            {**self.originals, **properties},
            dynamic_broker=self.dynamic_broker,
            dynamic_default=self.dynamic_default,
        )

    @property
    def log_dirs(self) -> list[str]:
        chosen: list[str] = self["log.dirs"] or self["log.dir"]
        return chosen

    @property
    def store_timeout_s(self) -> float:
        """How long a starting broker waits for the connection to ZooKeeper, and for each answer."""
        timeout_ms = self.zookeeper_connection_timeout_ms
        return (self.zookeeper_session_timeout_ms if timeout_ms is None else timeout_ms) / 1000

    @property
    def processes(self) -> int | None:
        """The number of processes of the unit; None if `broker.processes` is not set."""
        if not self.broker_processes:
            return None
        return len(os.sched_getaffinity(0)) if self.broker_processes == "auto" else int(self.broker_processes)

    @property
    def shares_store(self) -> bool:
        """Whether this is a process of a unit without ZooKeeper: the supervisor has the embedded store."""
        return not self["zookeeper.connect"] and (self.processes or 1) > 1

    @property
    def stands_alone(self) -> bool:
        """Whether this is a standalone broker, with the embedded coordination store and without ZooKeeper."""
        return not self["zookeeper.connect"] and not self.shares_store

    def _known(self, properties: Mapping[str, str]) -> dict[str, str]:
        known: dict[str, str] = {}
        for given, text in properties.items():
            name = BROKER_ALIASES.get(given, given)
            if listener_key(given) is not None:
                continue
            if name not in BROKER_KEYS:
                refuse_unknown_protection(given)
                self.warnings.append(unknown_key_warning(given))
            elif name != given and name in properties:
                self.warnings.append(f"{given}: {name} is also set and wins. Ignored.")
            elif BROKER_KEYS[name].dynamic_only:
                self.warnings.append(f"{name}: can be set with kafka-configs.sh only. Ignored.")
            else:
                known[name] = text
                self._warn(BROKER_KEYS[name], text)
        return known

    def _of_listeners(self, properties: Mapping[str, str]) -> dict[str, str]:
        known: dict[str, str] = {}
        for key, text in listener_keys(properties):
            key.check(text)
            known[key.name] = text
        return known

    def _warn(self, key: Key, text: str) -> None:
        warning = key.warning(text)
        if warning is not None:
            self.warnings.append(warning)

    def _stored(self, properties: Mapping[str, str]) -> Mapping[str, str]:
        taken: dict[str, str] = {}
        for given, text in properties.items():
            name = BROKER_ALIASES.get(given, given)
            key = BROKER_KEYS.get(name)
            if key is None or key.update is Update.READ_ONLY or key.static_only or name in tls.RENEWED:
                continue  # Like Kafka, the store may have unknown dynamic keys; they have no effect.
            try:
                key.parse(text)
            except ConfigError as error:
                self.warnings.append(f"dynamic {error.message}. Ignored.")
            else:
                taken[name] = text
                self._warn(key, text)
        return MappingProxyType(taken)

    def _inherited(self, key: Key) -> Value:
        for synonym in key.synonyms:
            value = self._values[synonym.name]
            if value is not None:
                # A negative retention means "no limit" in every unit.
                if key.name == "retention.ms" and value < 0:
                    return -1
                return value * synonym.factor if synonym.factor != 1 else value
        return key.default


def _add_implied_values(static: dict[str, str]) -> None:
    """Adds values that other keys imply, as if they were in the file."""
    if "broker.id" in static or "node.id" in static:
        by_id, by_node = static.get("broker.id"), static.get("node.id")
        if by_id is not None and by_node is not None and by_id.strip() != by_node.strip():
            raise ConfigError("node.id", by_node, f"must equal broker.id ({by_id}) where both are set")
        static["broker.id"] = static["node.id"] = by_id if by_id is not None else str(by_node)
    if not static.get("zookeeper.connect", "").strip():
        for name, text in _STANDALONE_DEFAULTS.items():
            static.setdefault(name, text)


_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    *(
        (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")
        for kind in ("consumer", "share", "streams")
        for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    ),
    ("group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
)


def check_together(values: Mapping[str, Value]) -> None:
    for name in ("super.users", "allow.everyone.if.no.acl.found", "audit.topic"):
        if values[name] and not values["authorizer.class.name"]:
            why = "has an effect only with authorizer.class.name; without it every client may do everything"
            raise ConfigError(name, str(values[name]), why)
    for low, high in _ORDERED:
        if values[low] > values[high]:
            raise ConfigError(low, str(values[low]), f"must not be above {high} ({values[high]})")
    if values["broker.id"] < -1:
        raise ConfigError("broker.id", str(values["broker.id"]), "must be at least 0, or -1 to be given one")
    if not (values["log.dirs"] or values["log.dir"]):
        raise ConfigError("log.dirs", "", "must name at least one directory")
    check_cordons(values["cordoned.log.dirs"], values["log.dirs"] or values["log.dir"])
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        why = "may be 0 only where max.connections.per.ip.overrides names who may connect"
        raise ConfigError("max.connections.per.ip", "0", why)
    if values["sasl.jaas.config"] is not None:
        way_out = "listener.name.<listener>.<mechanism>.sasl.jaas.config"
        raise ConfigError("sasl.jaas.config", None, f"has no effect without listener and mechanism: write {way_out}")


def check_cordons(cordoned: Sequence[str], log_dirs: Sequence[str]) -> None:
    """Raises `ConfigError` unless each cordoned directory is a log directory of the broker."""
    if cordoned == [ALL_LOG_DIRS]:
        return
    named = ", ".join(cordoned)
    if ALL_LOG_DIRS in cordoned:
        raise ConfigError("cordoned.log.dirs", named, f"{ALL_LOG_DIRS} stands for all directories: write it alone")
    known = {name for directory in log_dirs for name in log_dir_names(directory)}
    for name in cordoned:
        if name not in known:
            raise ConfigError("cordoned.log.dirs", named, f"{name} is not in log.dirs ({', '.join(log_dirs)})")


def log_dir_names(directory: str) -> tuple[str, str]:
    """A directory as it is configured, and its absolute path, which DescribeLogDirs shows."""
    return directory, str(Path(directory).absolute())

"""The answer to DescribeConfigs, from the declarations and the layers.

The order is Kafka's: synonyms are sorted by source (dynamic topic, dynamic broker, dynamic default, static, default),
and within a source by the order of the key's broker names. Kafka then drops leading synonyms whose name is not the
first broker name, so that `segment.ms` under `log.roll.hours=24` shows the right value without its source. Headrace
answers the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum

from headrace.config.broker_config import BrokerConfig
from headrace.config.key import Key, Synonym, Update, Value, format_value
from headrace.config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from headrace.config.listener_keys import ListenerKey, listener_keys
from headrace.config.topic_config import GroupConfig, TopicConfig
from headrace.kernel.dataclass import dataclass


class Source(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: Source
    config_type: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[ConfigSynonym]
    documentation: str

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """Entries for a topic with these overrides. `names` selects keys; unknown names are ignored."""
    topic = TopicConfig(broker, overrides)
    return [
        _inheriting_entry(key, topic[key.name], topic.overrides.get(key.name), Source.DYNAMIC_TOPIC, broker)
        for key in _picked(TOPIC_KEYS, names)
    ]


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    group = GroupConfig(broker, overrides)
    entries = []
    for key in _picked(GROUP_KEYS, names):
        entry = _inheriting_entry(key, group[key.name], overrides.get(key.name), Source.GROUP, broker)
        if not key.synonyms:  # A key that inherits from no broker key shows its own default.
            entry.synonyms.append(ConfigSynonym(key.name, format_value(key.type, key.default), Source.DEFAULT))
        entries.append(entry)
    return entries


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    entries = []
    for key in _picked(BROKER_KEYS, names):
        if key.dynamic_only and not config.is_set(key.name):
            continue
        synonyms = _broker_synonyms(config, _own_synonyms(key))
        if key.dynamic_only:  # as in Kafka, a key that no file can set shows no default
            synonyms = [one for one in synonyms if one.source is not Source.DEFAULT]
        entries.append(
            ConfigEntry(
                name=key.name,
                value=None if key.is_sensitive else format_value(key.type, config[key.name]),
                source=synonyms[0].source if synonyms else Source.DEFAULT,
                config_type=int(key.type),
                is_sensitive=key.is_sensitive,
                is_read_only=key.update is Update.READ_ONLY,
                synonyms=synonyms,
                documentation=key.doc,
            )
        )
    for found, source in _listener_entries(config):
        if names is None or found.name in names:
            layer = config.dynamic_of_listeners if source is Source.DYNAMIC_BROKER else config.static_of_listeners
            shown = None if found.key.is_sensitive else layer[found.name]
            entries.append(
                ConfigEntry(
                    name=found.name,
                    value=shown,
                    source=source,
                    config_type=int(found.key.type),
                    is_sensitive=found.key.is_sensitive,
                    is_read_only=not found.changes_while_running,
                    synonyms=[ConfigSynonym(found.name, shown, source)],
                    documentation=found.key.doc,
                )
            )
    return entries


def _listener_entries(config: BrokerConfig) -> Iterator[tuple[ListenerKey, Source]]:
    """The keys of single listeners, each with its source."""
    for found, _ in listener_keys(config.dynamic_of_listeners):
        yield found, Source.DYNAMIC_BROKER
    for found, _ in listener_keys(config.static_of_listeners):
        if found.name not in config.dynamic_of_listeners:
            yield found, Source.STATIC_BROKER


def describe_cluster_default(stored: Mapping[str, str], names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The BROKER resource with an empty name: only the values that are stored for all brokers."""
    entries = []
    for name, text in stored.items():
        if names is not None and name not in names:
            continue
        key = BROKER_KEYS.get(name)
        # An undeclared key may contain a secret. Kafka hides its value too.
        sensitive = key is None or key.is_sensitive
        shown = None if sensitive else text
        entries.append(
            ConfigEntry(
                name=name,
                value=shown,
                source=Source.DYNAMIC_DEFAULT_BROKER,
                config_type=int(key.type) if key else 0,
                is_sensitive=sensitive,
                is_read_only=False,
                synonyms=[ConfigSynonym(name, shown, Source.DYNAMIC_DEFAULT_BROKER)],
                documentation=key.doc if key else "",
            )
        )
    return entries


def _picked(table: Mapping[str, Key], names: Collection[str] | None) -> Iterable[Key]:
    return (key for key in table.values() if not key.internal and (names is None or key.name in names))


def _inheriting_entry(
    key: Key, value: Value, override: str | None, own_source: Source, broker: BrokerConfig
) -> ConfigEntry:
    synonyms = _broker_synonyms(broker, key.synonyms)
    shown = format_value(key.type, value)
    if override is not None:
        synonyms.insert(0, ConfigSynonym(key.name, shown, own_source))
    return ConfigEntry(
        name=key.name,
        value=shown,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        config_type=int(key.type),
        is_sensitive=False,
        is_read_only=False,
        synonyms=synonyms,
        documentation=key.doc,
    )


def _own_synonyms(key: Key) -> tuple[Synonym, ...]:
    """A broker key's synonyms: itself, and the keys in coarser units that it overrides."""
    for topic_key in TOPIC_KEYS.values():
        if len(topic_key.synonyms) > 1 and topic_key.synonyms[0].name == key.name:
            return topic_key.synonyms
    return (Synonym(key.name),)


def _broker_synonyms(config: BrokerConfig, names: tuple[Synonym, ...]) -> list[ConfigSynonym]:
    found: list[ConfigSynonym] = []
    for source, layer in (
        (Source.DYNAMIC_BROKER, config.dynamic_broker),
        (Source.DYNAMIC_DEFAULT_BROKER, config.dynamic_default),
        (Source.STATIC_BROKER, config.static),
    ):
        found += [
            ConfigSynonym(s.name, None if BROKER_KEYS[s.name].is_sensitive else layer[s.name], source)
            for s in names
            if s.name in layer
        ]
    for synonym in names:
        key = BROKER_KEYS[synonym.name]
        if key.default is not None:
            found.append(ConfigSynonym(key.name, format_value(key.type, key.default), Source.DEFAULT))
    while found and found[0].name != names[0].name:
        found.pop(0)
    return found

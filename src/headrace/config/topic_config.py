"""A topic's and a group's configuration: their overrides over the broker's values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headrace.config.aliases import TOPIC_ALIASES
from headrace.config.attributes import GroupAttributes, TopicAttributes
from headrace.config.broker_config import BrokerConfig
from headrace.config.key import ConfigError, Key, Value, attribute_names
from headrace.config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS

_TOPIC_ATTRIBUTES = attribute_names(TOPIC_KEYS)
_GROUP_ATTRIBUTES = attribute_names(GROUP_KEYS)
MAX_LAG: Final = "replica.lag.time.max.ms"
FETCH_WAIT: Final = "replica.fetch.wait.max.ms"


class TopicConfig(TopicAttributes):
    """`config.retention_ms` is the effective value of `retention.ms` for the topic.

    Stored overrides were validated when they were set. If one is invalid all the same (another release wrote it), the
    broker's value applies, so that the partition keeps working.
    """

    __slots__ = ("_own", "broker", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> None:
        self.broker = broker
        self.overrides: Mapping[str, str] = MappingProxyType(canonical_topic_overrides(overrides or {}))
        self._own: dict[str, Value] = {}
        for name, text in self.overrides.items():
            key = TOPIC_KEYS.get(name)
            if key is None:
                continue
            try:
                self._own[name] = key.parse(text)
            except ConfigError:
                continue
        # As in Kafka: the segment size for tests, which may be below the normal minimum, wins.
        if "internal.segment.bytes" in self._own:
            self._own["segment.bytes"] = self._own["internal.segment.bytes"]

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> Value:
            name = _TOPIC_ATTRIBUTES.get(attribute)
            if name is None:
                raise AttributeError(attribute)
            return self[name]

    def __getitem__(self, name: str) -> Value:
        own = self._own
        return own[name] if name in own else self.broker.topic_values[name]

    def get(self, name: str, default: Value = None) -> Value:
        return self[name] if name in TOPIC_KEYS else default


def canonical_topic_name(name: str) -> str:
    """Kafka's name of a key that may be spelled otherwise."""
    return TOPIC_ALIASES.get(name, name)


def canonical_topic_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """The same overrides under Kafka's names. If both spellings are given, Kafka's wins."""
    return {
        TOPIC_ALIASES.get(name, name): text
        for name, text in overrides.items()
        if name not in TOPIC_ALIASES or TOPIC_ALIASES[name] not in overrides
    }


def validate_topic_overrides(overrides: Mapping[str, str | None], broker: BrokerConfig | None = None) -> None:
    """Raises `ConfigError` with key, value and rule of the first invalid override."""
    values: dict[str, Value] = {}
    for given, text in overrides.items():
        name = TOPIC_ALIASES.get(given, given)
        values[name] = _parsed(TOPIC_KEYS, name, text, "topic")
    inherited = broker.topic_values if broker is not None else {name: key.default for name, key in TOPIC_KEYS.items()}
    together = {**inherited, **values}
    shortest, longest = together["min.compaction.lag.ms"], together["max.compaction.lag.ms"]
    if shortest > longest:
        raise ConfigError(
            "min.compaction.lag.ms", str(shortest), f"must not be above max.compaction.lag.ms ({longest})"
        )
    if MAX_LAG in values:
        # A follower's fetch of an idle partition may wait this long. With less, a healthy follower would leave the ISR.
        wait_ms = BROKER_KEYS[FETCH_WAIT].default if broker is None else broker[FETCH_WAIT]
        if values[MAX_LAG] < wait_ms:
            raise ConfigError(MAX_LAG, str(values[MAX_LAG]), f"must not be below the broker's {FETCH_WAIT} ({wait_ms})")


def validate_group_overrides(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Like `validate_topic_overrides`, for a GROUP resource. Values must also be within the broker's bounds."""
    values = {name: _parsed(GROUP_KEYS, name, text, "group") for name, text in overrides.items()}
    for name, value in values.items():
        low, high = _bounds(name)
        if low in broker and value < broker[low]:
            raise ConfigError(name, str(value), f"must not be below {low} ({broker[low]})")
        if high in broker and value > broker[high]:
            raise ConfigError(name, str(value), f"must not be above {high} ({broker[high]})")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session in values or heartbeat in values:
            together = {**broker.group_values, **values}
            timeout, interval = together[session], together[heartbeat]
            if timeout <= interval:
                raise ConfigError(session, str(timeout), f"must be above {heartbeat} ({interval})")


class GroupConfig(GroupAttributes):
    """`config.consumer_session_timeout_ms`: the group's value, otherwise the broker's, within the broker's bounds."""

    __slots__ = ("broker", "overrides")

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> None:
        self.broker = broker
        self.overrides: Mapping[str, str] = MappingProxyType(dict(overrides or {}))

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> Value:
            name = _GROUP_ATTRIBUTES.get(attribute)
            if name is None:
                raise AttributeError(attribute)
            return self[name]

    def __getitem__(self, name: str) -> Value:
        text = self.overrides.get(name)
        if text is None:
            return self.broker.group_values[name]
        try:
            value = GROUP_KEYS[name].parse(text)
        except ConfigError:
            return self.broker.group_values[name]
        # The bounds may have changed since the value was stored.
        low, high = map(self.broker.get, _bounds(name))
        if low is not None:
            value = max(value, low)
        return value if high is None else min(value, high)


def _bounds(name: str) -> tuple[str, str]:
    """The broker keys that bound a group key, if the broker has them."""
    kind, _, rest = name.partition(".")
    # Kafka's bound of num.standby.replicas has another name than all others.
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest.removeprefix('num.')}"


def _parsed(table: Mapping[str, Key], name: str, text: str | None, kind: str) -> Value:
    key = table.get(name)
    if key is None:
        import difflib  # only a request with an unknown key pays for loading it

        near = difflib.get_close_matches(name, list(table), n=1)
        raise ConfigError(name, None, f"unknown {kind} config name" + (f"; did you mean {near[0]}?" if near else ""))
    if text is None:
        raise ConfigError(name, None, "needs a value")
    return key.parse(text)

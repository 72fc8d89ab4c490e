"""Validates dynamic broker values before they are stored: which may change, by how much, and which would lock all
clients out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.config.aliases import BROKER_ALIASES
from headrace.config.broker_config import BrokerConfig, check_together
from headrace.config.key import ConfigError, Update, Value
from headrace.config.keys import BROKER_KEYS
from headrace.config.listener_keys import listener_key, refuse_change
from headrace.config.unknown_keys import refuse_unknown_protection

# Kafka lets a thread pool at most double or halve in one step. Headrace hardly uses these keys, but answers scripts the
# same way.
_THREADS: Final = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)
# A file may set 0, as in Kafka. A running broker refuses it, because no client could connect to change it back.
_NOT_ZERO: Final = ("max.connections", "max.connection.creation.rate")


def validate_broker_overrides(config: BrokerConfig, changes: Mapping[str, str], *, cluster_wide: bool) -> None:
    """Raises `ConfigError` if dynamic values may not be stored for one broker or (`cluster_wide`) for all."""
    values: dict[str, Value] = {name: config[name] for name in config}
    for given, text in changes.items():
        name = BROKER_ALIASES.get(given, given)
        key = BROKER_KEYS.get(name)
        refuse_change(name)
        of_listener = listener_key(name)
        if of_listener is not None:
            of_listener.check(text)
            key = of_listener.key
        if key is None:
            refuse_unknown_protection(given)
            continue  # As in Kafka: an unknown key may belong to a plug-in, and has no effect.
        if cluster_wide and key.update is Update.PER_BROKER:
            raise ConfigError(given, None, "is set for each broker by its id, not for all at once")
        if of_listener is not None:
            continue
        values[name] = key.parse(text)
        if name in _THREADS:
            _check_threads(name, int(config[name]), values[name])
        if name in _NOT_ZERO and values[name] == 0:
            raise ConfigError(name, text, "would let no connection in, not even one to change it back")
    check_together(values)


def _check_threads(name: str, now: int, wanted: int) -> None:
    if wanted == now:
        return
    if wanted < max(1, now // 2):
        raise ConfigError(name, str(wanted), f"must be at least half the current value ({now})")
    if wanted > now * 2:
        raise ConfigError(name, str(wanted), f"must not be more than double the current value ({now})")

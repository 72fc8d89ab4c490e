"""Keys of one listener: `listener.name.<name>.<key>` and `listener.name.<name>.<mechanism>.<key>`.

The name is the listener's name in lower case, as in Kafka. A key of one listener overrides the same key for all
listeners. A key with a mechanism applies to that mechanism on that listener; credentials (`sasl.jaas.config`) exist
only in this form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.config.key import ConfigError, Key, Update
from headrace.config.keys import BROKER_KEYS, tls
from headrace.kernel.dataclass import dataclass

LISTENER_PREFIX: Final = "listener.name."
MECHANISMS: Final = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")
_BESIDES: Final = (
    "connections.max.reauth.ms",
    "connection.failed.authentication.delay.ms",
    "principal.builder.class",
)
_OF_A_MECHANISM: Final = ("sasl.jaas.config", "sasl.server.callback.handler.class", "connections.max.reauth.ms")
_NOT_OF_A_LISTENER: Final = ("sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol")


@dataclass(frozen=True, slots=True)
class ListenerKey:
    """A key of one listener."""

    name: str
    """The whole name, as in the file."""
    listener: str
    """In lower case."""
    mechanism: str | None
    """In lower case; None for a key of the whole listener."""
    key: Key

    @property
    def setting(self) -> str:
        """The part of the name behind the listener's name."""
        return self.key.name if self.mechanism is None else f"{self.mechanism}.{self.key.name}"

    @property
    def changes_while_running(self) -> bool:
        return self.mechanism is None and self.key.name in tls.RENEWED

    def check(self, text: str) -> None:
        """Raises `ConfigError` with the whole name if the value is invalid."""
        try:
            self.key.parse(text)
        except ConfigError as error:
            raise ConfigError(self.name, error.value, error.rule) from None


def without_listener(name: str) -> str:
    """The part behind `listener.name.<name>.`, or the name itself if it is not a key of a listener."""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name


def listener_key(name: str) -> ListenerKey | None:
    """Parses the name; None if it is not a key that a listener may have."""
    rest = without_listener(name)
    if rest == name or not rest:
        return None
    listener = name.removeprefix(LISTENER_PREFIX).partition(".")[0]
    mechanism, _, behind = rest.partition(".")
    if mechanism in MECHANISMS:
        fits = behind in _OF_A_MECHANISM or behind.startswith("sasl.oauthbearer.")
        return ListenerKey(name, listener, mechanism, BROKER_KEYS[behind]) if fits and behind in BROKER_KEYS else None
    fits = rest.startswith(("ssl.", "sasl.")) and rest not in (*_NOT_OF_A_LISTENER, "sasl.jaas.config")
    if not (fits or rest in _BESIDES) or rest not in BROKER_KEYS:
        return None
    return ListenerKey(name, listener, None, BROKER_KEYS[rest])


def listener_keys(properties: Mapping[str, str]) -> Iterator[tuple[ListenerKey, str]]:
    """The keys of listeners among the properties, with their values."""
    for name, text in properties.items():
        if name.startswith(LISTENER_PREFIX):
            known = listener_key(name)
            if known is not None:
                yield known, text


def refuse_change(name: str) -> None:
    """Raises `ConfigError` unless the key can change while the broker runs: only certificates of one listener can."""
    key = BROKER_KEYS.get(name)
    if key is not None:
        if name in tls.RENEWED:
            raise ConfigError(name, None, f"changes for one listener at a time: set {LISTENER_PREFIX}<name>.{name}")
        if key.update is Update.READ_ONLY or key.static_only or (name.startswith("ssl.") and key.is_sensitive):
            raise ConfigError(name, None, "cannot change while the broker runs: set it in server.properties")
        return
    of_listener = listener_key(name)
    if of_listener is None or of_listener.changes_while_running:
        return
    why = "cannot change while the broker runs: set it in server.properties"
    if of_listener.key.is_sensitive:
        why = "is a secret, and dynamic values are stored in clear text: set it in server.properties, as ${file:…}"
    raise ConfigError(name, None, why)

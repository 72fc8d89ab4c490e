"""Undeclared keys: a warning with the nearest known key, or a refusal for security keys.

As in Kafka, a file may contain keys of plug-ins and of other programs, so an unknown key does not stop the start.
Security keys are the exception, because a misspelled `ssl.` key would silently leave a broker unprotected:

    ssl.keystore.locaton                         unknown security key: refused
    listener.name.internal.ssl.keystore.locaton  the same, for one listener
    listener.name.internal.max.connections       a limit of one listener: a warning

`listener_keys` defines which keys a listener may have.
"""

from __future__ import annotations

from typing import Final

from headrace.config.effect import Outcome
from headrace.config.key import ConfigError
from headrace.config.keys import BROKER_KEYS
from headrace.config.listener_keys import LISTENER_PREFIX, MECHANISMS, without_listener

_SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "zookeeper.ssl.", "authorizer.", "delegation.token.", "password.encoder.")
_ELSEWHERE: Final = (
    (LISTENER_PREFIX, "a listener has no such setting of its own"),
    ("rsm.config.", "Headrace does not support tiered storage"),
    ("rlmm.config.", "Headrace does not support tiered storage"),
    ("confluent.", "that key belongs to another product"),
    ("host.name", "use listeners"),
    ("port", "use listeners"),
    ("advertised.host.name", "use advertised.listeners"),
    ("advertised.port", "use advertised.listeners"),
    ("quota.producer.default", "set a default client quota with kafka-configs.sh"),
    ("quota.consumer.default", "set a default client quota with kafka-configs.sh"),
)


def refuse_unknown_protection(name: str) -> None:
    """Raises `ConfigError` if an unknown key looks like a security setting."""
    rest = without_listener(name)
    prefix = name.removesuffix(rest)
    first, _, behind = rest.partition(".")
    if first in MECHANISMS and not prefix:
        way_out = f"listener.name.<listener>.{name}"
        raise ConfigError(name, None, f"has no effect without its listener: write {way_out}")
    # `listener.name.NAME.MECHANISM.sasl.jaas.config`: the mechanism is between the listener and the key.
    if prefix and (first in MECHANISMS or behind in BROKER_KEYS or behind.startswith(_SECURITY_PREFIXES)):
        prefix, rest = f"{prefix}{first}.", behind
    key = BROKER_KEYS.get(rest)
    if key is not None and key.effect.outcome is Outcome.REFUSED:
        raise ConfigError(name, None, f"{key.effect.why}; remove this key")
    if not rest.startswith(_SECURITY_PREFIXES):
        return
    if key is not None:
        raise ConfigError(name, None, f"has no effect for one listener; set {rest}, or correct the name before it")
    near = nearest_key(rest)
    hint = f"did you mean {prefix}{near}?" if near else "remove this key"
    raise ConfigError(name, None, f"no such key, and its name claims protection; {hint}")


def unknown_key_warning(name: str) -> str:
    near = nearest_key(name, similarity=0.85)
    if near is None:
        for prefix, why in _ELSEWHERE:
            if name == prefix or (prefix.endswith(".") and name.startswith(prefix)):
                return f"{name}: {why}. Ignored."
        near = nearest_key(name)
    return f"{name}: no such key; did you mean {near}? Ignored." if near else f"{name}: no such key. Ignored."


def nearest_key(name: str, *, similarity: float = 0.6) -> str | None:
    import difflib  # only a file with an unknown key pays for loading it

    near = difflib.get_close_matches(name, list(BROKER_KEYS), n=1, cutoff=similarity)
    return near[0] if near else None

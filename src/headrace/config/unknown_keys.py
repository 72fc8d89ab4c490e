"""Keys without a declaration: a warning with the nearest known key, or a refusal where the name claims protection.

As in Kafka, a file may hold keys of plug-ins and of other programs, so an unknown key does not stop the start. A name
that belongs to security is the exception, because a misspelled `ssl.` key would leave a broker open in silence:

    ssl.keystore.locaton                         unknown, and of a family that claims protection
    listener.name.internal.ssl.keystore.location a declared key, for one listener
    listener.name.internal.max.connections       a limit of one listener: a warning
"""

from __future__ import annotations

import re
from typing import Final

from headrace.config.effect import Outcome
from headrace.config.key import ConfigError
from headrace.config.keys import BROKER_KEYS

_CLAIMS_PROTECTION: Final = ("ssl.", "sasl.", "zookeeper.ssl.", "authorizer.", "delegation.token.", "password.encoder.")
_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(?P<rest>.+)")
_ELSEWHERE: Final = (
    ("listener.name.", "listeners have no settings of their own"),
    ("rsm.config.", "tiered storage is not offered"),
    ("rlmm.config.", "tiered storage is not offered"),
    ("confluent.", "that key belongs to another product"),
    ("host.name", "use listeners"),
    ("port", "use listeners"),
    ("advertised.host.name", "use advertised.listeners"),
    ("advertised.port", "use advertised.listeners"),
    ("quota.producer.default", "set a default client quota with kafka-configs.sh"),
    ("quota.consumer.default", "set a default client quota with kafka-configs.sh"),
)


def refuse_unknown_protection(name: str) -> None:
    """`ConfigError` when an unknown key claims protection that the broker does not give."""
    listener = _OF_A_LISTENER.match(name)
    rest = listener["rest"] if listener is not None else name
    # `listener.name.NAME.MECHANISM.sasl.jaas.config`: the mechanism stands between the listener and the key.
    candidates = (rest, rest.partition(".")[2]) if listener is not None else (rest,)
    for candidate in candidates:
        key = BROKER_KEYS.get(candidate)
        if key is not None and key.effect.outcome is Outcome.REFUSED:
            raise ConfigError(name, None, f"{key.effect.why}; remove this key")
        if key is None and candidate.startswith(_CLAIMS_PROTECTION):
            near = nearest_key(candidate)
            hint = f"did you mean {near}?" if near else "remove this key"
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

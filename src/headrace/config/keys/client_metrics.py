"""Keys of a client metrics subscription (CLIENT_METRICS resources, KIP-714).

Clients get them if `client.telemetry.enable` is set. Otherwise the broker only stores, lists and describes them.
"""

from __future__ import annotations

from headrace.config.key import Key, Type
from headrace.config.rules import CLIENT_MATCH, NO_EMPTY_NAMES

LEAST_INTERVAL_MS, MOST_INTERVAL_MS = 100, 3_600_000

KEYS = (
    Key("metrics", Type.LIST, [], "Prefixes of the requested metrics; `*` means all.", NO_EMPTY_NAMES),
    Key(
        "interval.ms",
        Type.INT,
        300_000,
        f"How often clients are to send metrics; from {LEAST_INTERVAL_MS} to {MOST_INTERVAL_MS} (an hour).",
    ),
    Key(
        "match",
        Type.LIST,
        [],
        "`name=pattern` pairs that a client must match, for instance `client_id=a.*`.",
        CLIENT_MATCH,
    ),
)

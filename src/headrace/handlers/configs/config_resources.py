"""The kinds of things that have a configuration, by their number on the wire and their name in the cluster image."""

from __future__ import annotations

from typing import Final

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

NAMES: Final = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "broker-logger",
    CLIENT_METRICS: "client-metrics",
    GROUP: "group",
}
NUMBERS: Final = {name: number for number, name in NAMES.items()}

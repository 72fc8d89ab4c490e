"""Configuration of client metrics subscriptions, validated and described as in Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.config.describe import ConfigEntry, ConfigSynonym, Source
from headrace.config.key import ConfigError, format_value
from headrace.config.keys import CLIENT_METRICS_KEYS
from headrace.config.keys.client_metrics import LEAST_INTERVAL_MS, MOST_INTERVAL_MS
from headrace.kernel.errors import ErrorCode, Refused


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raises ConfigError for an invalid value, and Refused where Kafka answers INVALID_REQUEST."""
    for name, text in overrides.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise Refused(ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}")
        value = key.parse(text)
        if name == "interval.ms" and not LEAST_INTERVAL_MS <= value <= MOST_INTERVAL_MS:
            why = ConfigError(
                name, text, f"must be between {LEAST_INTERVAL_MS} and {MOST_INTERVAL_MS} (1 hour)"
            ).message
            raise Refused(ErrorCode.invalid_request, why)


def describe_client_metrics(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[ConfigEntry]:
    entries = []
    for key in CLIENT_METRICS_KEYS.values():
        if names is not None and key.name not in names:
            continue
        override = overrides.get(key.name)
        shown = format_value(key.type, key.default if override is None else key.parse(override))
        entries.append(
            ConfigEntry(
                name=key.name,
                value=shown,
                source=Source.DEFAULT if override is None else Source.CLIENT_METRICS,
                config_type=int(key.type),
                is_sensitive=False,
                is_read_only=False,
                synonyms=[] if override is None else [ConfigSynonym(key.name, shown, Source.CLIENT_METRICS)],
                documentation=key.doc,
            )
        )
    return entries

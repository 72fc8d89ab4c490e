"""Feature levels of Kafka's releases and their dependencies, as in Kafka 4.3, for kafka-features.

They describe Kafka, not a cluster: `version-mapping` and `feature-dependencies` need no connection.
"""

from __future__ import annotations

from typing import Final

METADATA: Final = "metadata.version"
_FIRST_LEVEL: Final = 7
# In the order of their levels, without gaps.
_NAMES: Final = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0"),
)
LEVELS: Final = {name: level for level, name in enumerate(_NAMES, _FIRST_LEVEL)}
LATEST_STABLE: Final = "4.3-IV0"
# Feature → for each level from 0 on, the first metadata version at which it is the default of a new cluster.
_SINCE: Final = {
    "kraft.version": ("3.3-IV3", "3.9-IV0"),
    "transaction.version": ("3.3-IV3", "4.0-IV2", "4.0-IV2"),
    "group.version": ("3.3-IV3", "4.0-IV0"),
    "eligible.leader.replicas.version": ("3.3-IV3", "4.1-IV0"),
    "share.version": ("3.3-IV3", "4.2-IV0"),
    "streams.version": ("3.3-IV3", "4.2-IV1"),
}
_NEEDS: Final = {("eligible.leader.replicas.version", 1): {METADATA: LEVELS["4.0-IV1"]}}


def metadata_name(level: int) -> str | None:
    """30 → 4.3-IV0; None for a level that Kafka 4.3 does not know."""
    at = level - _FIRST_LEVEL
    return _NAMES[at] if 0 <= at < len(_NAMES) else None


def level_text(feature: str, level: int) -> str:
    """Text of a level: the name of a metadata version, the number of other features."""
    return (metadata_name(level) or f"UNKNOWN [{level}]") if feature == METADATA else str(level)


def metadata_level(release: str) -> int:
    """4.3-IV0, 4.3 or 4.3.0 → 30. A release without -IV means its last stable metadata version."""
    wanted = ".".join(release.split(".")[:2])
    if wanted in LEVELS:
        return LEVELS[wanted]
    stable = [level for name, level in LEVELS.items() if level <= LEVELS[LATEST_STABLE] and _release(name) == wanted]
    if not stable:
        known = ", ".join(LEVELS)
        raise ValueError(f"Unknown {METADATA} '{release}'. Supported {METADATA} are: {known}")
    return max(stable)


def _release(name: str) -> str:
    return name.partition("-")[0]


def defaults_at(metadata: int) -> dict[str, int]:
    """The default levels of the other features in a new cluster with this metadata version."""
    return {
        feature: max(level for level, name in enumerate(since) if LEVELS[name] <= metadata)
        for feature, since in _SINCE.items()
    }


def dependencies(feature: str, level: int) -> dict[str, int]:
    """Levels that this level requires. Raises ValueError for a feature or level unknown to Kafka 4.3."""
    if feature == METADATA:
        if metadata_name(level) is None:
            raise ValueError(f"Unknown {METADATA} {level}")
    elif feature not in _SINCE:
        raise ValueError(f"Unknown feature: {feature}")
    elif not 0 <= level < len(_SINCE[feature]):
        raise ValueError(f"No feature:{feature} with feature level {level}")
    return _NEEDS.get((feature, level), {})

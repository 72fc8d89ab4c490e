"""Which feature levels belong to which Kafka release, and what a level needs: Kafka 4.3's facts, for kafka-features.

They describe Kafka, not the cluster asked: `version-mapping` and `feature-dependencies` answer without a connection.
"""

from __future__ import annotations

from typing import Final

METADATA: Final = "metadata.version"
_FIRST_LEVEL: Final = 7
# In order of their levels, which have no gaps.
_NAMES: Final = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0"),
)
LEVELS: Final = {name: level for level, name in enumerate(_NAMES, _FIRST_LEVEL)}
LATEST_STABLE: Final = "4.3-IV0"
# Feature → the metadata version from which each of its levels, from 0 on, is a new cluster's own.
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
    """A level as people know it: metadata versions by name, the others by number."""
    return (metadata_name(level) or f"UNKNOWN [{level}]") if feature == METADATA else str(level)


def metadata_level(release: str) -> int:
    """4.3-IV0, 4.3 or 4.3.0 → 30. A release without -IV is its last metadata version, once it is out."""
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
    """The level of every other feature in a new cluster of this metadata version."""
    return {
        feature: max(level for level, name in enumerate(since) if LEVELS[name] <= metadata)
        for feature, since in _SINCE.items()
    }


def dependencies(feature: str, level: int) -> dict[str, int]:
    """What must be in place before this level; ValueError for a feature or level that Kafka 4.3 does not know."""
    if feature == METADATA:
        if metadata_name(level) is None:
            raise ValueError(f"Unknown {METADATA} {level}")
    elif feature not in _SINCE:
        raise ValueError(f"Unknown feature: {feature}")
    elif not 0 <= level < len(_SINCE[feature]):
        raise ValueError(f"No feature:{feature} with feature level {level}")
    return _NEEDS.get((feature, level), {})

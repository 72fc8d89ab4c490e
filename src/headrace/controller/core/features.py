"""Rules for changes of feature levels (KIP-584, 778), with Kafka's messages."""

from __future__ import annotations

from headrace.cluster.core.changes import FeatureSet
from headrace.cluster.core.features import ELIGIBLE_LEADERS, INITIAL_LEVELS, SUPPORTED, ranges_of
from headrace.cluster.core.image import ClusterImage
from headrace.kernel.errors import ErrorCode, Refused

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def change_level(image: ClusterImage, name: str, level: int, upgrade_type: int) -> FeatureSet | None:
    """The change, or None if the level is unchanged. Raises Refused."""
    code = ErrorCode.invalid_update_version
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        what = f"Invalid update version {level} for feature {name}."
        why = f"{what} The controller does not support the given upgrade type."
        raise Refused(code, why)
    if name not in SUPPORTED:
        raise Refused(
            code, f"Invalid update version {level} for feature {name}. The broker does not support this feature."
        )
    lowest, highest = SUPPORTED[name]
    if level < 0 or (level > 0 and not lowest <= level <= highest) or (level == 0 and lowest > 0):
        why = f"Invalid update version {level} for feature {name}. This release supports {lowest} to {highest}."
        raise Refused(code, why)
    now = image.features.get(name, 0)
    if level == now:
        return None
    for broker in sorted(image.brokers.values(), key=lambda broker: broker.id):
        able = ranges_of(broker).get(name)
        if level > 0 and (able is None or not able[0] <= level <= able[1]):
            what = f"only supports versions {able[0]}-{able[1]}" if able else "does not support this feature"
            raise Refused(code, f"Invalid update version {level} for feature {name}. Broker {broker.id} {what}.")
    if level > now and upgrade_type != UPGRADE:
        why = f"Invalid update version {level} for feature {name}. Can't downgrade to a newer version."
        raise Refused(code, why)
    if level < now and upgrade_type == UPGRADE:
        why = (
            f"Invalid update version {level} for feature {name}. "
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
        raise Refused(code, why)
    if name == "metadata.version" and level < now and upgrade_type == SAFE_DOWNGRADE:
        why = f"Invalid metadata.version {level}. Refusing the downgrade because it might delete metadata."
        raise Refused(code, why)
    return FeatureSet(name, level)


__all__ = ["ELIGIBLE_LEADERS", "INITIAL_LEVELS", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE", "UPGRADE", "change_level"]

"""kafka-features: feature levels of the cluster, and of Kafka's releases."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headrace.cli.kafka_tools.feature_levels import (
    LATEST_STABLE,
    METADATA,
    defaults_at,
    dependencies,
    level_text,
    metadata_level,
)
from headrace.cli.kafka_tools.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.running import CONNECTION, Tool, ToolFailed, answer_error, guarded
from headrace.client.cluster_client import ClusterClient

UPDATE_FEATURES = 57
ACTIONS = {"describe": 0, "upgrade": 1, "downgrade": 2, "disable": 2}
LOOK_UPS = ("version-mapping", "feature-dependencies")
OPTIONS = (
    *CONNECTION,
    Option("feature", "name=level (a name alone with disable).", "name=level", repeated=True),
    Option("dry-run", "Only check."),
    Option("unsafe", "Allow a downgrade that may lose metadata."),
    Option("release-version", f"The release to look up with version-mapping ({LATEST_STABLE} if none).", "release"),
)


def check(arguments: Arguments) -> None:
    if len(arguments.rest) != 1 or arguments.rest[0] not in (*ACTIONS, *LOOK_UPS):
        raise UsageError(f"One of {', '.join((*ACTIONS, *LOOK_UPS))} must be given")
    action = arguments.rest[0]
    if action != "version-mapping":
        arguments.refuse(action, "release-version")
    if action in LOOK_UPS:
        arguments.refuse(action, "dry-run", "unsafe", *(("feature",) if action == "version-mapping" else ()))


def look_up(arguments: Arguments) -> int:
    """Answers what needs no cluster, and leaves the rest to the connected tool."""
    if arguments.rest[0] == "version-mapping":
        version_mapping(str(arguments["release-version"] or LATEST_STABLE))
    elif arguments.rest[0] == "feature-dependencies":
        arguments.require("feature")
        for text in arguments["feature"]:
            feature_dependencies(*feature_level(text))
    else:
        return TOOL.run_connected(arguments)
    return 0


def version_mapping(release: str) -> None:
    level = metadata_level(release)
    print(f"{METADATA}={level} ({release})")
    for feature, default in defaults_at(level).items():
        print(f"{feature}={default}")


def feature_dependencies(feature: str, level: int) -> None:
    needed = dependencies(feature, level)
    print(f"{_named(feature, level)} {'requires:' if needed else 'has no dependencies.'}")
    for other, least in needed.items():
        print(f"    {_named(other, least)}")


def _named(feature: str, level: int) -> str:
    return f"{feature}={level}" + (f" ({level_text(feature, level)})" if feature == METADATA else "")


def feature_level(text: str) -> tuple[str, int]:
    """`group.version=1` → its parts."""
    name, equals, level = text.partition("=")
    wrong = f"Can't parse feature=level string {text}"
    if not equals:
        raise ToolFailed(f"{wrong}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError as error:
        raise ToolFailed(f"{wrong}: unable to parse {level} as a short.") from error


async def run(arguments: Arguments, client: ClusterClient) -> None:
    action = arguments.rest[0]
    if action == "describe":
        await describe(client)
        return
    arguments.require("feature")
    updates = []
    for text in arguments["feature"]:
        name, level = (text, 0) if action == "disable" else feature_level(text)
        if level < 0:
            raise ToolFailed("Cannot specify a negative version level.")
        upgrade_type = 3 if arguments["unsafe"] and action != "upgrade" else ACTIONS[action]
        updates.append(
            {
                "feature": name,
                "max_version_level": level,
                "upgrade_type": upgrade_type,
            }
        )
    body = {"timeout": 60_000, "feature_updates": updates, "validate_only": bool(arguments["dry-run"])}
    answer = await client.to_controller(UPDATE_FEATURES, body)
    if answer.error_code:
        raise ToolFailed(answer_error(answer))
    for update in updates:
        verb = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}[action]
        can = "can be " if arguments["dry-run"] else "was "
        tail = "." if action == "disable" else f" to {update['max_version_level']}."
        print(f"{update['feature']} {can}{verb}{tail}")


async def describe(client: ClusterClient) -> None:
    versions = (await client.any_connection()).api_versions
    finalized = {str(f.name): int(f.max_version_level) for f in getattr(versions, "finalized_features", ()) or ()}
    epoch = int(getattr(versions, "finalized_features_epoch", -1))
    for feature in sorted(getattr(versions, "supported_features", ()) or (), key=lambda f: str(f.name)):
        name = str(feature.name)
        least, most = (level_text(name, int(level)) for level in (feature.min_version, feature.max_version))
        now = level_text(name, finalized[name]) if name in finalized else "0"
        levels = f"SupportedMinVersion: {least:<16} SupportedMaxVersion: {most:<16}"
        print(f"Feature: {name:<41} {levels} FinalizedVersionLevel: {now:<16} Epoch: {epoch}")


ABOUT = f"Show or change feature levels: {', '.join(ACTIONS)}; or look them up: {', '.join(LOOK_UPS)}."
TOOL = Tool(ABOUT, OPTIONS, run, failure_prefix="", check=check, allow_rest=True)


def main(argv: Sequence[str] | None = None) -> int:
    return guarded(ABOUT, OPTIONS, look_up, argv, TOOL.failure_prefix, check, TOOL.allow_rest)


if __name__ == "__main__":
    sys.exit(main())

"""kafka-features: feature levels of the cluster, and of Kafka's releases."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headrace.cli.kafka_tools.support.feature_levels import (
    LATEST_STABLE,
    METADATA,
    defaults_at,
    dependencies,
    level_text,
    metadata_level,
)
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error, guarded
from headrace.client.cluster_client import ClusterClient
from headrace.wire.apis import ApiKey

ACTIONS = {"describe": 0, "upgrade": 1, "downgrade": 2, "disable": 2}
UNSAFE = 3
LOOK_UPS = ("version-mapping", "feature-dependencies")
OPTIONS = (
    *CONNECTION,
    Option("feature", "name=level (a name alone with disable).", "name=level", repeated=True),
    Option("dry-run", "Only check."),
    Option("unsafe", "Allow a downgrade that may lose metadata."),
    Option("metadata", "The older way to say --feature metadata.version: a release's name.", "release"),
    Option(
        "release-version",
        f"Every feature as a release has it; with version-mapping, the release to look up ({LATEST_STABLE} if none).",
        "release",
    ),
    Option("node-id", "With describe: the broker to ask.", "id", int),
)
# Options of each action besides the connection.
_TAKES = {
    "describe": ("node-id",),
    "upgrade": ("feature", "metadata", "release-version", "dry-run"),
    "downgrade": ("feature", "metadata", "release-version", "dry-run", "unsafe"),
    "disable": ("feature", "dry-run", "unsafe"),
    "version-mapping": ("release-version",),
    "feature-dependencies": ("feature",),
}


def check(arguments: Arguments) -> None:
    if len(arguments.rest) != 1 or arguments.rest[0] not in (*ACTIONS, *LOOK_UPS):
        raise UsageError(f"One of {', '.join((*ACTIONS, *LOOK_UPS))} must be given")
    action = arguments.rest[0]
    taken = {name for names in _TAKES.values() for name in names}
    for name in sorted(taken.difference(_TAKES[action])):
        if arguments.given(name):
            raise UsageError(f"Command line error: unrecognized arguments: '--{name}'. Type --help for help.")
    if action == "feature-dependencies" and not arguments.given("feature"):
        raise UsageError("Command line error: argument --feature is required. Type --help for help.")


def look_up(arguments: Arguments) -> int:
    """Runs the actions that need no cluster. The connected tool runs the others."""
    if arguments.rest[0] == "version-mapping":
        version_mapping(str(arguments["release-version"] or LATEST_STABLE))
    elif arguments.rest[0] == "feature-dependencies":
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
        await describe(client, arguments["node-id"])
        return
    dry = bool(arguments["dry-run"])
    levels = wanted_levels(action, arguments)
    upgrade_type = UNSAFE if arguments["unsafe"] else ACTIONS[action]
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": upgrade_type} for name, level in levels.items()
    ]
    body = {"timeout": 60_000, "feature_updates": updates, "validate_only": dry}
    answer = await client.to_controller(ApiKey.UPDATE_FEATURES, body)
    failed = dict.fromkeys(levels, answer_error(answer)) if answer.error_code else {}
    # Up to version 1 of the request each feature has its own result.
    failed |= {str(each.feature): answer_error(each) for each in getattr(answer, "results", ()) if each.error_code}
    for name, level in sorted(levels.items()):
        target = "" if action == "disable" else f" to {level}"
        if name in failed:
            print(f"{'Can' if dry else 'Could'} not {action} {name}{target}. {failed[name]}")
        else:
            print(f"{name} {'can be' if dry else 'was'} {action}d{target}.")
    if failed:
        raise ToolFailed(f"{len(failed)} out of {len(levels)} operation(s) failed.")


def wanted_levels(action: str, arguments: Arguments) -> dict[str, int]:
    """Feature → requested level."""
    release = arguments["release-version"]
    if release is not None:
        if arguments.given("feature") or arguments.given("metadata"):
            raise ToolFailed("Can not specify `release-version` with other feature flags.")
        level = metadata_level(release)
        others = {name: level for name, level in defaults_at(level).items() if level > 0 or action == "downgrade"}
        return {METADATA: level, **others}
    levels = {}
    if arguments["metadata"] is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA] = metadata_level(arguments["metadata"])
    for text in arguments["feature"]:
        name, level = (text, 0) if action == "disable" else feature_level(text)
        if level < 0:
            raise ToolFailed("Cannot specify a negative version level.")
        if name in levels:
            raise ToolFailed(f"Feature {name} was specified more than once.")
        levels[name] = level
    if not levels:
        raise ToolFailed(f"You must specify at least one feature to {action}")
    return levels


async def describe(client: ClusterClient, node: int | None) -> None:
    if node is not None and node < 0:
        raise ToolFailed(f"Invalid node id {node}: must be non-negative.")
    versions = (await (client.any_connection() if node is None else client.connection(node))).api_versions
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

"""kafka-features: feature levels of the cluster."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.running import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient

UPDATE_FEATURES = 57
ACTIONS = {"describe": 0, "upgrade": 1, "downgrade": 2, "disable": 2}
OPTIONS = (
    *CONNECTION,
    Option("feature", "name=level (a name alone with disable).", "name=level", repeated=True),
    Option("dry-run", "Only check."),
    Option("unsafe", "Allow a downgrade that may lose metadata."),
)


def check(arguments: Arguments) -> None:
    if len(arguments.rest) != 1 or arguments.rest[0] not in ACTIONS:
        raise UsageError(f"One of {', '.join(ACTIONS)} must be given")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    action = arguments.rest[0]
    if action == "describe":
        await describe(client)
        return
    arguments.require("feature")
    updates = []
    for text in arguments["feature"]:
        name, equals, level = text.partition("=")
        if action != "disable" and (not equals or not level.isdecimal()):
            raise ToolFailed(f"Can't parse feature={text}: must be name=level")
        upgrade_type = 3 if arguments["unsafe"] and action != "upgrade" else ACTIONS[action]
        updates.append(
            {
                "feature": name,
                "max_version_level": 0 if action == "disable" else int(level),
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
        levels = f"SupportedMinVersion: {feature.min_version:<16} SupportedMaxVersion: {feature.max_version:<16}"
        print(f"Feature: {name:<41} {levels} FinalizedVersionLevel: {finalized.get(name, 0):<16} Epoch: {epoch}")


TOOL = Tool(
    "Show or change feature levels: describe, upgrade, downgrade, disable.", OPTIONS, run, check=check, allow_rest=True
)

if __name__ == "__main__":
    sys.exit(TOOL.main())

"""Entities of kafka-configs: topics, brokers, loggers, groups, and the users, clients and addresses of quotas.

Parses the entity options, and names an entity in messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.cli.kafka_tools.support.options import Arguments, UsageError

# Entity type on the command line → resource type on the wire (None: quotas, which have their own API).
RESOURCES: Final[dict[str, int | None]] = {
    "topics": 2,
    "brokers": 4,
    "broker-loggers": 8,
    "client-metrics": 16,
    "groups": 32,
    "users": None,
    "clients": None,
    "ips": None,
}
QUOTA_ENTITIES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_SHORT: Final = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "client-metrics": "client-metrics",
    "group": "groups",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
SINGULAR: Final = {kind: kind[:-1] if kind != "client-metrics" else kind for kind in RESOURCES}


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity. `name` None means all entities of the type, "" the default entity."""

    kind: str
    name: str | None

    @property
    def wire_name(self) -> str | None:
        """The name in a quota request, where the default entity is null."""
        return self.name or None


def entities(arguments: Arguments, argv: list[str]) -> list[Entity]:
    """The entities of the command line, in their order. Raises UsageError."""
    found: list[Entity] = []
    names = _names_in_order(argv)
    for kind in arguments["entity-type"]:
        if kind not in RESOURCES:
            listed = "topics, clients, users, brokers, ips, client-metrics, groups, broker-loggers"
            raise UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {listed} with a --bootstrap-server or "
                "--bootstrap-controller argument"
            )
        found.append(Entity(kind, names.pop(0) if names else None))
    for short, kind in _SHORT.items():
        if arguments.values.get(short) is not None:
            found.append(Entity(kind, arguments[short]))
        if arguments.values.get(f"{short}-defaults"):
            found.append(Entity(kind, ""))
    if not found:
        raise UsageError("At least one entity type must be specified")
    kinds = [entity.kind for entity in found]
    if len(found) > 1 and not set(kinds) <= {"users", "clients"}:
        raise UsageError("Only 'users' and 'clients' entity types can be specified together")
    return found


def _names_in_order(argv: list[str]) -> list[str]:
    """`--entity-name X` and `--entity-default` belong to the entity type before them, so the order matters."""
    names = []
    for at, word in enumerate(argv):
        if word == "--entity-name" and at + 1 < len(argv):
            names.append(argv[at + 1])
        elif word.startswith("--entity-name="):
            names.append(word.partition("=")[2])
        elif word == "--entity-default":
            names.append("")
    return names

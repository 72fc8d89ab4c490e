"""The schema that a person chooses for values that name none: `?schema=` is an id, or a subject (its last version)."""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.console.core.masking import masks_of
from headrace.console.protection import Rejected
from headrace.console.visit import Visit
from headrace.serialization.errors import RegistryError, RegistryUnreachable
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import RegisteredSchema

_OFFERED: Final = 200
_LARGEST_ID: Final = 2**31 - 1


async def chosen_schema(visit: Visit) -> RegisteredSchema | None:
    """None: values are decoded by the schemas that they name. Raises Rejected."""
    wanted = visit.query.get("schema", "").strip()
    if not wanted:
        return None
    topic = visit.path("topic")
    if masks_of(visit.settings.masks, topic):
        raise Rejected(403, f"this console masks fields of {topic}, so its values are decoded by the schemas they name")
    registry = visit.cluster.registry
    if registry is None:
        raise Rejected(404, "this console has no schema registry: start it with --registry URL")
    try:
        return await asyncio.to_thread(_look_up, registry, wanted)
    except RegistryUnreachable as fault:
        raise Rejected(502, str(fault)) from fault
    except RegistryError as fault:
        raise Rejected(404, f"schema {wanted!r}: {fault}. Type a subject, or the id of a schema") from fault


def _look_up(registry: RegistryClient, wanted: str) -> RegisteredSchema:
    if wanted.isdecimal() and int(wanted) <= _LARGEST_ID:
        return registry.schema_by_id(int(wanted))
    return registry.latest(wanted)


async def offered_subjects(visit: Visit, topic: str) -> list[str] | None:
    """Subjects that a field offers, those of the topic first. None without a registry."""
    registry = visit.cluster.registry
    if registry is None:
        return None
    try:
        subjects: list[str] = await asyncio.to_thread(registry.call, "GET", "/subjects")
    except RegistryError:
        return []  # the field takes an id as well
    return sorted(map(str, subjects), key=lambda name: (not name.startswith(topic), name))[:_OFFERED]

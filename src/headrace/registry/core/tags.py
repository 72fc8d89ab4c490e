"""Tags of records and fields, which stand in the text of a schema: what a data catalogue knows about them.

An entity is a record or a field, named by its path: `shop.Order` and `shop.Order.total` (Avro), `object.total` (JSON
Schema), `Order.total` (Protobuf, without the package).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue
from headrace.registry.core.errors import BadRequest, InvalidSchema

TAGS: Final = "confluent:tags"
RECORD: Final = "sr_record"
FIELD: Final = "sr_field"


@dataclass(frozen=True, slots=True)
class Entity:
    path: str
    type: str

    def as_json(self) -> dict[str, str]:
        return {"entityPath": self.path, "entityType": self.type}


Tags = Mapping[Entity, tuple[str, ...]]
EMPTY: Final[Tags] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TagChange:
    """Tags to add and to remove. `inherited` are tags of the previous version, for entities that still exist."""

    add: Tags
    remove: Tags
    inherited: Tags

    def __bool__(self) -> bool:
        return bool(self.add or self.remove or self.inherited)

    def applied(self, entity: Entity, present: Iterable[str]) -> list[str]:
        together = dict.fromkeys((*present, *self.inherited.get(entity, ()), *self.add.get(entity, ())))
        return [tag for tag in together if tag not in self.remove.get(entity, ())]

    def check_found(self, found: Iterable[Entity]) -> None:
        """Raises InvalidSchema if the request names an entity that the schema does not have."""
        missing = sorted(each.path for each in {*self.add, *self.remove}.difference(found))
        if missing:
            raise InvalidSchema(f"No matching entity with path '{missing[0]}' was found in the schema")


def tags_json(tags: Tags) -> list[dict[str, JsonValue]]:
    return [{"schemaEntity": entity.as_json(), "tags": list(names)} for entity, names in tags.items()]


def tags_from_json(body: Mapping[str, JsonValue], field: str) -> Tags:
    """Raises BadRequest for a list that does not have the form of `tags_json`."""
    found: dict[Entity, tuple[str, ...]] = {}
    for each in body.get(field) or ():
        try:
            entity = each["schemaEntity"]
            kind = str(entity["entityType"]).lower()
            names = tuple(str(tag) for tag in each["tags"])
            path = str(entity["entityPath"]).lstrip(".")
        except (KeyError, TypeError) as fault:
            raise BadRequest(
                400,
                f'field `{field}` must be a list of {{"schemaEntity":{{"entityPath":…,"entityType":…}},"tags":[…]}}, '
                f"not {each!r:.80}",
            ) from fault
        if kind not in (RECORD, FIELD):
            raise BadRequest(400, f"field `{field}`: entityType {kind!r} must be {RECORD} or {FIELD}")
        found[Entity(path, kind)] = names
    return found


def names_in(value: JsonValue) -> tuple[str, ...]:
    """The tags in a property of Avro or JSON Schema; other values are not tags."""
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()

"""Random Avro schemas and random changes to them: pairs that are often, but not always, compatible."""

from __future__ import annotations

import copy
from random import Random
from typing import Any, Final

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SPACES: Final = (None, None, "shop", "shop.sub", "")
_NAMES: Final = ("A", "B", "C", "D")
_FIELDS: Final = ("a", "b", "c", "d")
_SYMBOLS: Final = ("X", "Y", "Z", "W")
_DEFAULTS: Final[tuple[Any, ...]] = (None, 0, 1.5, 1e10, 2e-5, "text", [], {}, True, 'ä\u0001"\\\n')


class AvroSchemas:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._defined: list[str] = []

    def pair(self) -> tuple[Any, Any]:
        """(reader, writer): two independent schemas, or one and a changed copy."""
        first = self.schema()
        if self.random.random() < 0.25:
            return first, self.schema()
        second = copy.deepcopy(first)
        for _ in range(self.random.randint(1, 3)):
            second = self.changed(second)
        return (first, second) if self.random.random() < 0.5 else (second, first)

    def schema(self) -> Any:
        self._defined = []
        return self._any(0)

    def _any(self, depth: int, *, in_union: bool = False) -> Any:
        kinds = ["primitive"] * 4 + ["named"]
        if depth < 4:
            kinds += ["record"] * 4 + ["enum", "enum", "fixed", "array", "map"] + ([] if in_union else ["union"] * 3)
        kind = self.random.choice(kinds)
        made: Any = getattr(self, f"_{kind}")(depth)
        return made

    def _primitive(self, _: int) -> Any:
        kind = self.random.choice(PRIMITIVES)
        chance = self.random.random()
        if chance < 0.1:
            return {"type": kind}
        return {"type": kind, "logicalType": "x", "p": self.random.choice(_DEFAULTS)} if chance < 0.2 else kind

    def _named(self, depth: int) -> Any:
        return self.random.choice(self._defined) if self._defined else self._primitive(depth)

    def _definition(self, kind: str) -> dict[str, Any]:
        made: dict[str, Any] = {"type": kind, "name": self.random.choice(_NAMES)}
        space = self.random.choice(_SPACES)
        if space is not None:
            made["namespace"] = space
        elif self.random.random() < 0.2:
            made["name"] = f"dotted.{made['name']}"
        if self.random.random() < 0.2:
            made["doc"] = self.random.choice(("", "what it is"))
        if self.random.random() < 0.2:
            made["aliases"] = [self.random.choice((*_NAMES, "shop.A", "other.B"))]
        if self.random.random() < 0.1:
            made["extra"] = {"b": 1, "a": [None]}
        self._defined.append(made["name"] if "." in made["name"] or not space else f"{space}.{made['name']}")
        return made

    def _record(self, depth: int) -> Any:
        made = self._definition("record")
        names = self.random.sample(_FIELDS, self.random.randint(0, 3))
        made["fields"] = [self._field(name, depth) for name in names]
        return made

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        made = {"name": name, "type": self._any(depth + 1)}
        if self.random.random() < 0.4:
            made["default"] = self.random.choice(_DEFAULTS)
        if self.random.random() < 0.15:
            made["aliases"] = [self.random.choice(_FIELDS)]
        if self.random.random() < 0.1:
            made["order"] = self.random.choice(("ascending", "descending", "ignore"))
        if self.random.random() < 0.1:
            made["doc"] = "field"
        return made

    def _enum(self, _: int) -> Any:
        made = self._definition("enum")
        made["symbols"] = self.random.sample(_SYMBOLS, self.random.randint(1, 4))
        if self.random.random() < 0.3:
            made["default"] = self.random.choice(made["symbols"])
        return made

    def _fixed(self, _: int) -> Any:
        return {**self._definition("fixed"), "size": self.random.randint(1, 3)}

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self._any(depth + 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self._any(depth + 1)}

    def _union(self, depth: int) -> Any:
        return [self._any(depth + 1, in_union=True) for _ in range(self.random.randint(0, 3))]

    def changed(self, schema: Any) -> Any:
        """Makes one change somewhere in the tree."""
        places = list(_places(schema))
        if not places or self.random.random() < 0.15:
            return self._primitive(0) if not isinstance(schema, dict) else {**schema, "note": 1}
        container, key = self.random.choice(places)
        node = container[key]
        if isinstance(node, dict) and node.get("type") == "record" and self.random.random() < 0.6:
            self._change_fields(node)
        elif isinstance(node, dict) and node.get("type") == "enum":
            node["symbols"] = self.random.sample(_SYMBOLS, self.random.randint(1, 4))
        elif isinstance(node, dict) and "name" in node and self.random.random() < 0.5:
            node["name"] = self.random.choice(_NAMES)
        elif isinstance(node, list):
            node.insert(self.random.randint(0, len(node)), self._primitive(0))
        else:
            container[key] = self.random.choice((self._primitive(0), [node, "null"], "long", "double"))
        return schema

    def _change_fields(self, record: dict[str, Any]) -> None:
        fields = record["fields"]
        if fields and self.random.random() < 0.5:
            fields.pop(self.random.randrange(len(fields)))
        else:
            fields.append({"name": self.random.choice(_FIELDS), "type": self._primitive(0)})
            if self.random.random() < 0.5:
                fields[-1]["default"] = 0


def _places(schema: Any) -> Any:
    """(container, key) of this schema and of every schema below it."""
    root = [schema]
    waiting: list[tuple[Any, Any]] = [(root, 0)]
    while waiting:
        container, key = waiting.pop()
        node = container[key]
        if container is not root:
            yield container, key
        if isinstance(node, list):
            waiting += [(node, index) for index in range(len(node))]
        elif isinstance(node, dict):
            if node.get("type") == "record":
                waiting += [(field, "type") for field in node["fields"]]
            waiting += [(node, name) for name in ("items", "values") if name in node]

"""Settings of a source or a target in a connector file, with sentences for what is wrong in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.pipelines.errors import OptionError, nearest

# Settings that name a source or a target, the best first.
_LABELS: Final = ("name", "table", "collection", "path", "pattern")


@dataclass(frozen=True)
class End:
    """Source or target of a connector: its kind, and its settings as strings, lists and mappings."""

    kind: str
    settings: Mapping[str, object]
    place: str

    def text(self, name: str, default: str | None = None) -> str:
        value = self.settings.get(name, default)
        if value is None:
            raise OptionError(f'{self.place}: "{name}" is missing')
        if isinstance(value, (list, dict)):
            raise OptionError(f'{self.place}: "{name}" is {kind_of(value)}: must be a text')
        return str(value)

    def label(self) -> tuple[str, str]:
        """(kind, name) for people. Never an address: it may hold a password."""
        given = next((self.settings[name] for name in _LABELS if isinstance(self.settings.get(name), str)), None)
        tables = self.settings.get("tables")
        if given is None and isinstance(tables, list):
            given = ", ".join(map(str, tables))
        return self.kind, str(given or self.kind)

    def names(self, name: str) -> list[str]:
        value = self.settings.get(name) or []
        if isinstance(value, str):
            return [part.strip() for part in value.split(",")]
        if not isinstance(value, list):
            raise OptionError(f'{self.place}: "{name}" is {kind_of(value)}: must be a list, or names with commas')
        return [str(part) for part in value]

    def is_on(self, name: str, *, default: bool = False) -> bool:
        value = self.settings.get(name, default)
        if not isinstance(value, bool):
            raise OptionError(f'{self.place}: "{name}" is {kind_of(value)}: must be true or false')
        return value

    def options(self) -> dict[str, str]:
        return texts_of(self.settings.get("options"), f"{self.place}.options")

    def only(self, *known: str) -> End:
        if unknown := next((name for name in self.settings if name not in known), None):
            raise OptionError(f"{self.place}: {unknown!r} is unknown{nearest(str(unknown), known)}")
        return self


def kind_of(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean"}
    return kinds.get(type(value), f"{value!r}")


def texts_of(given: object, place: str) -> dict[str, str]:
    """The values as text in Spark's spelling."""
    given = given or {}
    if not isinstance(given, dict):
        raise OptionError(f"{place} is {kind_of(given)}: must be a mapping such as {{name: value}}")
    for name, value in given.items():
        if isinstance(value, (list, dict)):
            raise OptionError(f'{place}: "{name}" is {kind_of(value)}: must be a text')
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}

"""Masking rules: fields of decoded records that the server replaces before any page, export or search shows them.

A rule is `TOPIC:FIELD.FIELD`: `customers:card.number` masks the field in the topic `customers`, `*:email` in all
topics. A `*` in the topic matches any characters; a `*` as a field matches every field of an object. Dead letters hold
the values of the topic they came from, so a rule for `customers` holds for `customers.dlq`, too.

Where a rule goes on into an object and the value is none, the whole value is replaced: nothing says which part of it is
the field. So a value that is only a text is never shown.
"""

from __future__ import annotations

import fnmatch
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.json_values import JsonValue

MASKED: Final = "••••••"
_DEAD_LETTERS: Final = ".dlq"


@dataclass(frozen=True, slots=True)
class Mask:
    topic: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Mask:
        """Raises ValueError with the rule."""
        topic, colon, path = text.partition(":")
        fields = tuple(path.split("."))
        if not topic or not colon or not all(fields):
            raise ValueError(
                f"masking rule {text!r}: must be TOPIC:FIELD or TOPIC:FIELD.FIELD, for example *:card.number"
            )
        return cls(topic, fields)


def masks_of(masks: tuple[Mask, ...], topic: str) -> tuple[Mask, ...]:
    names = (topic, topic.removesuffix(_DEAD_LETTERS))
    return tuple(mask for mask in masks if any(fnmatch.fnmatchcase(name, mask.topic) for name in names))


def masked(value: JsonValue, masks: tuple[Mask, ...]) -> JsonValue:
    """A copy of the value with the fields of these rules replaced. Lists are walked through."""
    for mask in masks:
        value = _masked(value, mask.path)
    return value


def _masked(value: JsonValue, path: tuple[str, ...]) -> JsonValue:
    if isinstance(value, list):
        return [_masked(item, path) for item in value]
    if not isinstance(value, dict):
        return None if value is None else MASKED
    field, rest = path[0], path[1:]
    return {
        name: (_masked(item, rest) if rest else MASKED) if field in ("*", name) else item
        for name, item in value.items()
    }

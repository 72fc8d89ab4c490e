"""Classes of connectors by their name in a connector file: the shipped ones, and entry points of other packages.

A package offers a class in its pyproject.toml:

    [project.entry-points."headrace.connectors"]
    numbers = "numbers_connector:Numbers"

Classes are imported when a connector uses them, so a missing library stops only the connectors that need it.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError
from headrace.pipelines.plugins.api import Sink, Source

GROUP: Final = "headrace.connectors"
_HERE: Final = "headrace.pipelines.plugins"
_SHIPPED: Final = {
    "from": {
        "s3": f"{_HERE}.objects:ObjectSource",
        "http": f"{_HERE}.http_polling:PollingSource",
        "mqtt": f"{_HERE}.mqtt_source:MqttSource",
        "lines": f"{_HERE}.line_file:LineSource",
    },
    "to": {
        "s3": f"{_HERE}.objects:ObjectSink",
        "http": f"{_HERE}.webhook:Webhook",
        "redis": f"{_HERE}.redis_sink:RedisSink",
        "lines": f"{_HERE}.line_file:LineSink",
    },
}
_Kind = TypeVar("_Kind", Source, Sink)


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def is_plugin(name: str, direction: str) -> bool:
    """Whether a connector may name this kind; `direction` is "from" or "to"."""
    return name in _SHIPPED[direction] or name in _installed()


def plugin_names(direction: str) -> tuple[str, ...]:
    """All names, those of other packages last. Their direction is known only when they are imported."""
    return (*_SHIPPED[direction], *sorted(set(_installed()) - set(_SHIPPED[direction])))


def open_source(end: End) -> Source:
    return _class(end, "from", Source)(end)


def open_sink(end: End) -> Sink:
    return _class(end, "to", Sink)(end)


def _class(end: End, direction: str, wanted: type[_Kind]) -> type[_Kind]:
    place = _SHIPPED[direction].get(end.kind)
    if place is not None:
        module, _, name = place.partition(":")
        found = getattr(importlib.import_module(module), name)
    else:
        point = _installed()[end.kind]
        try:
            found = point.load()
        except (ImportError, AttributeError) as error:
            raise OptionError(f"{end.place}: {point.value} cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, wanted):
        raise OptionError(
            f"{end.place}: {end.kind!r} is not a {wanted.__name__.lower()}: its class must inherit "
            f"{wanted.__module__}.{wanted.__name__}"
        )
    return found

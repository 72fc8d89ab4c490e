"""The connector files of a configuration of Kafka Connect, or a refusal with everything that is missing.

files = translated(config, schema=None)          # {"orders": {"from": …, "to": …}}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import yaml

from headrace.pipelines.connect.connect_config import ConnectConfig, Missing
from headrace.pipelines.connect.debezium_configs import debezium_postgres
from headrace.pipelines.connect.file_configs import file_sink, file_source
from headrace.pipelines.connect.jdbc_configs import jdbc_sink, jdbc_source

# The class of connectors that are written as connector files: the setting `connector.yaml` has the text.
OWN: Final = "headrace"
Translator = Callable[[ConnectConfig, str | None], dict[str, dict[str, object]]]
_CLASSES: Final[dict[str, tuple[str, Translator]]] = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": ("source", file_source),
    "org.apache.kafka.connect.file.FileStreamSinkConnector": ("sink", file_sink),
    "io.confluent.connect.jdbc.JdbcSourceConnector": ("source", jdbc_source),
    "io.confluent.connect.jdbc.JdbcSinkConnector": ("sink", jdbc_sink),
    "io.aiven.connect.jdbc.JdbcSourceConnector": ("source", jdbc_source),
    "io.aiven.connect.jdbc.JdbcSinkConnector": ("sink", jdbc_sink),
    "io.debezium.connector.postgresql.PostgresConnector": ("source", debezium_postgres),
}


def plugin_classes() -> dict[str, str]:
    """Classes that can be translated, with their kind: source or sink."""
    return {OWN: "source", **{name: kind for name, (kind, _) in _CLASSES.items()}}


def class_of(given: str) -> str | None:
    """The full name of a class. Kafka Connect also takes the last part of it, with or without `Connector`."""
    if given == OWN or given in _CLASSES:
        return given
    for name in _CLASSES:
        if given in (name.rpartition(".")[2], name.rpartition(".")[2].removesuffix("Connector")):
            return name
    return None


def translated(config: ConnectConfig, schema: str | None = None) -> dict[str, dict[str, object]]:
    """Connector files by their names. Raises Missing."""
    given = config.take("connector.class", "") or ""
    name = class_of(given)
    if name is None or name == OWN:
        known = ", ".join(one.rpartition(".")[2] for one in _CLASSES)
        raise Missing(config.name, [f"connector.class {given!r} is not known: there are {known}"])
    files = _CLASSES[name][1](config, schema)
    config.finish()
    return {file: {"name": file, **document} for file, document in files.items()}


def as_yaml(document: dict[str, object]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)

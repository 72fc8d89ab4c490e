"""Connectors: a source, a SELECT and a target in one YAML file, without code.

    name: orders-to-lake
    bootstrap: localhost:9092
    from:
      topic: {name: orders, schema: "id string, amount double"}
    select: SELECT id, amount FROM source WHERE amount > 10
    to:
      parquet: {path: lake/orders}

A connector runs as a pipeline with one flow for its rows and one for its dead letters. `runner` gives it restarts,
progress, a consumer group and exactly-once writes. Sources are in `sources`, targets in `targets`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from headrace.pipelines.brokers import as_options, in_configuration, kafka_settings
from headrace.pipelines.errors import OptionError, nearest
from headrace.pipelines.flows.spec import BOOTSTRAP, FILE_NAMES, FORMAT, PipelineSpec, load_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.flows.runner import PipelineRun

_FIELDS: Final = ("name", "bootstrap", "kafka", "storage", "from", "select", "to", "trigger", "configuration")
SOURCES: Final = ("topic", "file", "jdbc", "cdc")
TARGETS: Final = ("topic", "parquet", "delta", "jdbc", "console")


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
            raise OptionError(f'{self.place}: "{name}" is {_kind(value)}: must be a text')
        return str(value)

    def names(self, name: str) -> list[str]:
        value = self.settings.get(name) or []
        if isinstance(value, str):
            return [part.strip() for part in value.split(",")]
        if not isinstance(value, list):
            raise OptionError(f'{self.place}: "{name}" is {_kind(value)}: must be a list, or names with commas')
        return [str(part) for part in value]

    def is_on(self, name: str) -> bool:
        value = self.settings.get(name, False)
        if not isinstance(value, bool):
            raise OptionError(f'{self.place}: "{name}" is {_kind(value)}: must be true or false')
        return value

    def options(self) -> dict[str, str]:
        return _texts(self.settings.get("options"), f"{self.place}.options")

    def only(self, *known: str) -> End:
        if unknown := next((name for name in self.settings if name not in known), None):
            raise OptionError(f"{self.place}: {unknown!r} is unknown{nearest(str(unknown), known)}")
        return self


@dataclass(frozen=True)
class ConnectorSpec:
    file: Path
    name: str
    bootstrap: str | None
    storage: str
    source: End
    select: str | None
    target: End
    trigger: str | None
    configuration: Mapping[str, str]

    @property
    def topic_format(self) -> str:
        """Format that reads topics: `headrace`, or `kafka` (Spark's own connector)."""
        return self.configuration.get(FORMAT, "headrace")

    @property
    def brokers(self) -> dict[str, str]:
        """Broker options of a topic that is the source or the target."""
        return as_options(self.bootstrap or "", kafka_settings(self.configuration))

    def pipeline(self) -> PipelineSpec:
        configuration = dict(self.configuration)
        if self.bootstrap:
            configuration[BOOTSTRAP] = self.bootstrap
        if self.trigger:
            configuration["headrace.trigger.interval"] = self.trigger
        return PipelineSpec(self.file.parent.resolve(), self.name, self.storage, None, configuration, ())


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean"}
    return kinds.get(type(value), f"{value!r}")


def _texts(given: object, place: str) -> dict[str, str]:
    """The values as text in Spark's spelling."""
    given = given or {}
    if not isinstance(given, dict):
        raise OptionError(f"{place} is {_kind(given)}: must be a mapping such as {{name: value}}")
    for name, value in given.items():
        if isinstance(value, (list, dict)):
            raise OptionError(f'{place}: "{name}" is {_kind(value)}: must be a text')
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}


def is_connector(path: Path) -> bool:
    return path.is_file() and path.suffix in (".yml", ".yaml") and path.name not in FILE_NAMES


def load_connector(file: Path, bootstrap: str | None = None) -> ConnectorSpec:
    try:
        data = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise OptionError(f"{file}: {error.strerror}") from error
    if not isinstance(data, dict):
        raise OptionError(f"{file}: must be a mapping with from and to")
    if unknown := next((key for key in data if key not in _FIELDS), None):
        raise OptionError(f"{file}: field {unknown!r} is unknown{nearest(str(unknown), _FIELDS)}")
    if isinstance(data.get("bootstrap"), list):
        data["bootstrap"] = ",".join(map(str, data["bootstrap"]))
    for key in ("name", "bootstrap", "storage", "select", "trigger"):
        if not isinstance(data.get(key) or "", str):
            raise OptionError(f'{file}: "{key}" is {_kind(data[key])}: must be a text')
    name = data.get("name") or file.stem
    brokers = bootstrap or data.get("bootstrap") or os.environ.get("HEADRACE_BOOTSTRAP")
    return ConnectorSpec(
        file=file,
        name=name,
        bootstrap=brokers,
        storage=os.path.expandvars(data.get("storage") or f"storage/{name}"),
        source=_end(file, data, "from", SOURCES),
        select=data.get("select"),
        target=_end(file, data, "to", TARGETS),
        trigger=data.get("trigger"),
        configuration={
            **_texts(data.get("configuration"), f"{file}: configuration"),
            **in_configuration(_texts(data.get("kafka"), f"{file}: kafka")),
        },
    )


def _end(file: Path, data: Mapping[str, object], field: str, kinds: tuple[str, ...]) -> End:
    given = data.get(field)
    if isinstance(given, str):
        given = {given: {}}
    if not isinstance(given, dict) or len(given) != 1:
        raise OptionError(f'{file}: "{field}" must name one of {", ".join(kinds)}')
    ((kind, settings),) = given.items()
    if kind not in kinds:
        raise OptionError(f"{file}: {field}: {kind!r} is unknown{nearest(str(kind), kinds)}: use {', '.join(kinds)}")
    if isinstance(settings, str):
        settings = {"name" if kind == "topic" else "path": settings}
    if not isinstance(settings or {}, dict):
        raise OptionError(f"{file}: {field}.{kind} is {_kind(settings)}: must be a mapping of its settings")
    settings = {
        key: os.path.expandvars(value) if isinstance(value, str) else value for key, value in (settings or {}).items()
    }
    return End(kind, settings, f"{file.name}: {field}.{kind}")


def connector_run(
    spec: ConnectorSpec, spark: SparkSession, *, once: bool, report: Callable[[str], None]
) -> PipelineRun:
    """Creates the run of this connector without starting it."""
    from headrace.pipelines.connectors.sources import source_frames
    from headrace.pipelines.connectors.targets import target_output
    from headrace.pipelines.flows.graph import connector_graph
    from headrace.pipelines.flows.runner import PipelineRun

    graph = connector_graph(
        spark, spec.name, source_frames(spec, spark), spec.select, target_output(spec), spec.brokers
    )
    return PipelineRun(spec.pipeline(), spark, report, once=once, graph=graph)


def load_pipeline(path: Path, bootstrap: str | None = None) -> PipelineSpec:
    """Reads the specification of a pipeline directory or a connector file."""
    if is_connector(path):
        return load_connector(path, bootstrap).pipeline()
    spec = load_spec(path)
    return spec.with_settings({BOOTSTRAP: bootstrap}) if bootstrap else spec


def pipeline_run(
    path: Path, spec: PipelineSpec, spark: SparkSession, *, once: bool, report: Callable[[str], None]
) -> PipelineRun:
    """Creates the run of a pipeline directory or a connector file with the settings of `spec`."""
    from headrace.pipelines.flows.runner import PipelineRun

    if not is_connector(path):
        return PipelineRun(spec, spark, report, once=once)
    connector = replace(load_connector(path, spec.bootstrap), configuration=spec.configuration, storage=spec.storage)
    report(f"connector {spec.name}: {connector.source.kind} → {connector.target.kind}")
    return connector_run(connector, spark, once=once, report=report)

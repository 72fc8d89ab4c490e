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
from headrace.pipelines.connectors.settings import End, kind_of, texts_of
from headrace.pipelines.errors import OptionError, nearest
from headrace.pipelines.flows.run_lock import CHECKPOINTS
from headrace.pipelines.flows.spec import BOOTSTRAP, FILE_NAMES, FORMAT, PipelineSpec, load_spec
from headrace.pipelines.plugins.catalogue import is_plugin, plugin_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.expectations import Rule
    from headrace.pipelines.flows.runner import PipelineRun

_FIELDS: Final = ("name", "bootstrap", "kafka", "storage", "from", "expect", "select", "to", "trigger", "configuration")
# Settings that say what a JSON value becomes which does not fit the schema exactly.
STRICTNESS: Final = ("missing_field", "trailing_text", "extra_field")
SOURCES: Final = ("topic", "file", "jdbc", "cdc")
TARGETS: Final = ("topic", "parquet", "delta", "jdbc", "console")


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
    rules: tuple[Rule, ...] = ()

    @property
    def topic_format(self) -> str:
        """Format that reads topics: `headrace`, or `kafka` (Spark's own connector)."""
        return self.configuration.get(FORMAT, "headrace")

    @property
    def brokers(self) -> dict[str, str]:
        """Broker options of a topic that is the source or the target."""
        return as_options(self.bootstrap or "", kafka_settings(self.configuration))

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the rows. Journal and ledger of a plugin are files in it."""
        return self.pipeline().storage_path / CHECKPOINTS / self.name

    def pipeline(self) -> PipelineSpec:
        configuration = dict(self.configuration)
        if self.bootstrap:
            configuration[BOOTSTRAP] = self.bootstrap
        if self.trigger:
            configuration["headrace.trigger.interval"] = self.trigger
        return PipelineSpec(self.file.parent.resolve(), self.name, self.storage, None, configuration, ())


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
            raise OptionError(f'{file}: "{key}" is {kind_of(data[key])}: must be a text')
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
            **texts_of(data.get("configuration"), f"{file}: configuration"),
            **in_configuration(texts_of(data.get("kafka"), f"{file}: kafka")),
        },
        rules=_rules(data.get("expect"), f"{file.name}: expect"),
    )


def _rules(given: object, place: str) -> tuple[Rule, ...]:
    if given is None:
        return ()
    from headrace.pipelines.expectations import rules_of

    return tuple(rules_of(given, place))


def _end(file: Path, data: Mapping[str, object], field: str, kinds: tuple[str, ...]) -> End:
    given = data.get(field)
    if isinstance(given, str):
        given = {given: {}}
    if not isinstance(given, dict) or len(given) != 1:
        raise OptionError(f'{file}: "{field}" must name one of {", ".join(kinds)}')
    ((kind, settings),) = given.items()
    if kind not in kinds and not is_plugin(str(kind), field):
        known = (*kinds, *plugin_names(field))
        raise OptionError(f"{file}: {field}: {kind!r} is unknown{nearest(str(kind), known)}: use {', '.join(known)}")
    if isinstance(settings, str):
        settings = {"name" if kind == "topic" else "path": settings}
    if not isinstance(settings or {}, dict):
        raise OptionError(f"{file}: {field}.{kind} is {kind_of(settings)}: must be a mapping of its settings")
    settings = {
        key: os.path.expandvars(value) if isinstance(value, str) else value for key, value in (settings or {}).items()
    }
    # YAML reads the word null, which is one of their values, as no value.
    settings |= {key: "null" for key in STRICTNESS if key in settings and settings[key] is None}
    return End(kind, settings, f"{file.name}: {field}.{kind}")


def connector_run(
    spec: ConnectorSpec, spark: SparkSession, *, once: bool, report: Callable[[str], None]
) -> PipelineRun:
    """Creates the run of this connector without starting it."""
    from headrace.pipelines.connectors.sources import source_frames
    from headrace.pipelines.connectors.targets import target_output
    from headrace.pipelines.flows.graph import connector_graph
    from headrace.pipelines.flows.progress import flow_places
    from headrace.pipelines.flows.runner import PipelineRun
    from headrace.pipelines.lite.run import finish_open_batches

    finish_open_batches(spec, report)
    graph = connector_graph(
        spark, spec.name, source_frames(spec, spark), spec.select, target_output(spec), spec.brokers
    )
    places = flow_places(spec.source.label(), spec.target.label())
    return PipelineRun(spec.pipeline(), spark, report, once=once, graph=graph, places=places)


def load_pipeline(path: Path, bootstrap: str | None = None) -> PipelineSpec:
    """Reads the specification of a pipeline directory or a connector file."""
    if is_connector(path):
        return load_connector(path, bootstrap).pipeline()
    spec = load_spec(path)
    return spec.with_settings({BOOTSTRAP: bootstrap}) if bootstrap else spec


def connector_of(file: Path, spec: PipelineSpec) -> ConnectorSpec:
    """The connector with the settings of `spec`."""
    return replace(load_connector(file, spec.bootstrap), configuration=spec.configuration, storage=spec.storage)


def pipeline_run(
    path: Path, spec: PipelineSpec, spark: SparkSession, *, once: bool, report: Callable[[str], None]
) -> PipelineRun:
    """Creates the run of a pipeline directory or a connector file with the settings of `spec`."""
    from headrace.pipelines.flows.runner import PipelineRun

    if not is_connector(path):
        return PipelineRun(spec, spark, report, once=once)
    connector = connector_of(path, spec)
    report(f"connector {spec.name}: {connector.source.kind} → {connector.target.kind}")
    return connector_run(connector, spark, once=once, report=report)

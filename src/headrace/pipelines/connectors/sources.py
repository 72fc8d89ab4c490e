"""Sources of connectors: a topic, a watched directory, a database table, the changes of a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.pipelines.connectors.connector import STRICTNESS, ConnectorSpec
from headrace.pipelines.connectors.settings import End
from headrace.pipelines.decode import SOURCE_FIELDS, dead_letters, decode, doubtful_rows
from headrace.pipelines.errors import OptionError
from headrace.pipelines.expectations import QUARANTINE, checked_frame
from headrace.pipelines.flows.graph import DELETED
from headrace.pipelines.schemas.registry_options import REGISTRY_OPTIONS as REGISTRY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Settings that `decode` has, too.
_DECODING: Final = (*STRICTNESS, "writer_schema")
# Name of the rows in the metrics of rules.
_PLACE: Final = "source"
_FILE_FORMATS: Final = ("lines", "csv", "json", "parquet")


@dataclass(frozen=True)
class SourceFrames:
    rows: DataFrame
    dead: DataFrame | None = None


def source_frames(spec: ConnectorSpec, spark: SparkSession) -> SourceFrames:
    """The rows of the source that satisfy the rules of `expect`."""
    match spec.source.kind:
        case "topic":
            return _topic_frames(spec, spark)
        case "file":
            rows = _file(spec, spark)
        case "jdbc":
            rows = _table(spec.source, spark)
        case "cdc":
            rows = _changes(spec, spark)
        case _:
            rows = _plugin(spec, spark)
    return SourceFrames(checked_frame(rows, spec.rules, _PLACE))


def _topic_frames(spec: ConnectorSpec, spark: SparkSession) -> SourceFrames:
    frames = _split(checked_frame(_topic(spec, spark), spec.rules, _PLACE))
    may_quarantine = any(rule.action == QUARANTINE for rule in spec.rules)
    if frames.dead is None or may_quarantine or "schema" not in spec.source.settings:
        return frames
    # The flow of dead letters is a query of its own, which would parse every record a second time.
    suspects = _split(checked_frame(_topic(spec, spark, only_doubtful=True), spec.rules, _PLACE))
    return SourceFrames(frames.rows, suspects.dead)


def _split(rows: DataFrame) -> SourceFrames:
    """Good rows and dead letters, if the rows have an `_error`."""
    if "_error" not in rows.columns:
        return SourceFrames(rows)
    good = rows.where("_error IS NULL").drop("_error")
    # Decoded rows keep the record, whose key names the row that a tombstone deletes.
    return SourceFrames(good if DELETED in rows.columns else good.drop("_source"), dead_letters(rows))


def _topic(spec: ConnectorSpec, spark: SparkSession, *, only_doubtful: bool = False) -> DataFrame:
    known = ("name", "pattern", "schema", "format", "startingOffsets", "decode", "options")
    end = spec.source.only(*known, *REGISTRY, *_DECODING)
    if not spec.bootstrap:
        raise OptionError(f'{end.place}: say which brokers: "bootstrap" in the file, or --bootstrap')
    which = {"subscribePattern": end.text("pattern")} if "pattern" in end.settings else {"subscribe": end.text("name")}
    given = {
        **spec.brokers,
        "startingOffsets": end.text("startingOffsets", "earliest"),
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        **which,
        **end.options(),
    }
    if "decode" in end.settings:
        return _by_registry(spec, spark, given)
    frame = spark.readStream.format(spec.topic_format).options(**given).load()
    if "schema" not in end.settings:
        return _texts(frame, spec)
    rules = {name: end.text(name) for name in _DECODING if name in end.settings}
    schema, form = end.text("schema"), end.text("format", "json")
    if only_doubtful:
        frame = doubtful_rows(frame, schema, format=form)
    return decode(frame, schema, format=form, **rules)


def _texts(frame: DataFrame, spec: ConnectorSpec) -> DataFrame:
    """Records with key and value as text; with the columns of dead letters if a rule makes some."""
    columns = ["string(key) AS key", "string(value) AS value", "* EXCEPT (key, value)"]
    if any(rule.action == QUARANTINE for rule in spec.rules):
        names = ", ".join(name for name in SOURCE_FIELDS if name in frame.columns)
        columns += ["string(NULL) AS _error", f"struct({names}) AS _source"]
    return frame.selectExpr(*columns)


def _by_registry(spec: ConnectorSpec, spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
    """Typed columns. Spark's own connector gives bytes, which a step after it decodes."""
    from headrace.pipelines.options import decoding_of
    from headrace.pipelines.schemas.decoding import decoded_frame

    end = spec.source
    if unused := next((name for name in ("schema", "format") if name in end.settings), None):
        raise OptionError(f'{end.place}: "{unused}" does not go with decode: the registry has the schema')
    asked = {**given, "decode": end.text("decode"), **{n: end.text(n) for n in REGISTRY if n in end.settings}}
    if spec.topic_format == "headrace":
        decoded = spark.readStream.format("headrace").options(**asked).load()
    else:
        decoding = decoding_of(asked)
        assert decoding is not None
        decoded = decoded_frame(spark.readStream.format(spec.topic_format).options(**given).load(), decoding)
    return decoded


def _file(spec: ConnectorSpec, spark: SparkSession) -> DataFrame:
    end = spec.source.only("path", "format", "schema", "options")
    kind = end.text("format", "lines")
    if kind not in _FILE_FORMATS:
        raise OptionError(f"{end.place}: format {kind!r} must be one of {', '.join(_FILE_FORMATS)}")
    path = Path(end.text("path"))
    path = path if path.is_absolute() else spec.file.parent.resolve() / path
    if not path.exists():
        raise OptionError(f"{end.place}: {path} does not exist")
    reader = spark.readStream.options(**end.options())
    if kind == "lines":
        return reader.format("text").load(str(path))
    if "schema" in end.settings:
        reader = reader.schema(end.text("schema"))
    else:
        # The columns of a stream are fixed when it starts. They come from the existing files.
        sample = spark.read.format(kind).options(**{"inferSchema": "true", **end.options()}).load(str(path))
        if not sample.columns:
            raise OptionError(f'{end.place}: {path} is still empty: give a "schema"')
        reader = reader.schema(sample.schema)
    return reader.format(kind).load(str(path))


def _table(end: End, spark: SparkSession) -> DataFrame:
    from headrace.pipelines.connectors.table_source import TableSource

    end.only("url", "table", "column")
    spark.dataSource.register(TableSource)
    given = {name: end.text(name) for name in ("url", "table", "column")}
    return spark.readStream.format(TableSource.name()).options(**given).load()


def _plugin(spec: ConnectorSpec, spark: SparkSession) -> DataFrame:
    from headrace.pipelines.plugins.journal_source import PluginSource

    end, journal = spec.source, spec.checkpoint / "journal"
    spark.dataSource.register(PluginSource)
    given = {"kind": end.kind, "settings": json.dumps(end.settings), "place": end.place, "journal": str(journal)}
    return spark.readStream.format(PluginSource.name()).options(**given).load()


def _changes(spec: ConnectorSpec, spark: SparkSession) -> DataFrame:
    from headrace.pipelines.connectors.cdc.source import INITIAL, ChangeSource

    end = spec.source.only("url", "tables", "slot", "snapshot", "chunkRows")
    spark.dataSource.register(ChangeSource)
    slot = "".join(letter if letter.isalnum() else "_" for letter in f"headrace_{spec.name}").lower()
    given = {
        "url": end.text("url"),
        "tables": ",".join(end.names("tables")),
        "slot": end.text("slot", slot),
        "snapshot": end.text("snapshot", INITIAL),
        **({"chunkRows": end.text("chunkRows")} if "chunkRows" in end.settings else {}),
        **({"state": str(folder)} if (folder := snapshot_folder(spec)) else {}),
    }
    return spark.readStream.format(ChangeSource.name()).options(**given).load()


def snapshot_folder(spec: ConnectorSpec) -> Path | None:
    """Where change capture keeps chunks of a snapshot and the request for another; None if the storage is remote."""
    pipeline = spec.pipeline()
    return pipeline.storage_path / "snapshots" if pipeline.is_local else None

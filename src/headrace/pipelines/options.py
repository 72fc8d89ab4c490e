"""The options of `format("headrace")`: names, defaults and rules of Spark's own Kafka connector, so that a user changes
only the format, plus a few options that the connector lacks.

Every option is declared once below. An unknown option is an error that suggests the nearest name. Names are compared in
lower case, because Spark passes them in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.client.blocking.client import READ_COMMITTED, READ_UNCOMMITTED, parse_addresses
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Fault
from headrace.pipelines.errors import OptionError, PipelineError, nearest
from headrace.pipelines.schemas.registry_options import REGISTRY_OPTIONS
from headrace.pipelines.source.offsets import (
    Earliest,
    Latest,
    OffsetSpec,
    TopicPartitionPair,
    check_batch_specs,
    parse_assign,
    parse_spec,
)
from headrace.records.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.pipelines.schemas.decoding import Decoding
    from headrace.pipelines.schemas.encoding import Encoding

_SOURCE_OPTIONS: Final = (
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
    "history",
    "historyDirectory",
    "decode",
    *REGISTRY_OPTIONS,
)
_SINK_OPTIONS: Final = (
    "kafka.bootstrap.servers",
    "topic",
    "includeHeaders",
    "includeTimestamp",
    "mode",
    "transactionalIdPrefix",
    "ledgerTopic",
    "encode",
    "schema",
    "subjectStrategy",
    *REGISTRY_OPTIONS,
)
# Options that Spark itself adds to a query.
_SPARK_OPTIONS: Final = ("path", "checkpointLocation", "queryName", "outputMode", "trigger", "backend")
_ENDING: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
# The connector sets these itself. A user who sets one expects a behaviour that the connector does not have.
_FORBIDDEN: Final = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.key.deserializer": "keys are read as bytes: cast or decode them in the query",
    "kafka.value.deserializer": "values are read as bytes: cast or decode them in the query",
    "kafka.key.serializer": "keys are written as strings or bytes: encode them in the query",
    "kafka.value.serializer": "values are written as strings or bytes: encode them in the query",
    "kafka.enable.auto.commit": "the checkpoint keeps the position, not the broker",
    "kafka.interceptor.classes": "Java classes cannot be loaded here",
}
# Data in the processor's caches is decoded faster: 2 to 4 MB took a fifth less CPU per row than 8 MB.
_FETCH_BYTES: Final = 4 << 20
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?\Z")
_UNIT_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Options(dict[str, str]):
    """Spark's options under their documented spelling, accepted in any case."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str]) -> None:
        known = [*known, *_SPARK_OPTIONS]
        spelling = {name.lower(): name for name in known}
        super().__init__()
        for name, value in given.items():
            lower = name.lower()
            if lower in _FORBIDDEN:
                raise OptionError(f'option "{name}" is not supported: {_FORBIDDEN[lower]}')
            if lower in spelling:
                self[spelling[lower]] = value
            elif lower.startswith("kafka."):
                self[lower] = value
            else:
                raise OptionError(f'option "{name}" is unknown{nearest(name, known)}')

    def kafka(self) -> dict[str, str]:
        """The `kafka.*` options under Kafka's names."""
        return {name[len("kafka.") :]: value for name, value in self.items() if name.startswith("kafka.")}

    def boolean(self, name: str, default: bool) -> bool:
        text = self.get(name, str(default)).strip().lower()
        if text not in ("true", "false"):
            raise OptionError(f'{name}={self[name]!r}: must be "true" or "false"')
        return text == "true"

    def positive(self, name: str) -> int | None:
        if name not in self:
            return None
        text = self[name].strip()
        if not text.isdigit() or int(text) == 0:
            raise OptionError(f"{name}={self[name]!r}: must be a whole number above 0")
        return int(text)

    def seconds(self, name: str, default: str) -> float:
        text = self.get(name, default).strip().lower()
        match = _DURATION.match(text)
        if not match:
            raise OptionError(f"{name}={self[name]!r}: must be a duration such as 500ms, 10s, 15m or 1h")
        return int(match[1]) * _UNIT_SECONDS[match[2] or "ms"]

    def milliseconds(self, name: str, default: int) -> float:
        text = self.get(name, str(default)).strip()
        if not text.isdigit():
            raise OptionError(f"{name}={self[name]!r}: must be a whole number of milliseconds")
        return int(text) / 1000


@dataclass(frozen=True)
class Cluster:
    """Brokers, and credentials for them. Hashable, because workers keep one client per cluster."""

    bootstrap: str
    security: ClientSecurity
    client_id: str

    @classmethod
    def from_options(cls, options: Options) -> Cluster:
        bootstrap = options.get("kafka.bootstrap.servers", "")
        if not bootstrap:
            close = next((name for name in options if name.startswith("kafka.boot")), None)
            hint = f' ("{close}" is not it)' if close else ""
            raise OptionError(f'option "kafka.bootstrap.servers" is missing{hint}: give host:port[,host:port]')
        try:
            parse_addresses(bootstrap)
            security = ClientSecurity.from_settings(options.kafka())
        except Fault as fault:
            raise OptionError(fault.message) from fault
        return cls(bootstrap, security, options.get("kafka.client.id", "headrace-spark"))


@dataclass(frozen=True)
class Subscription:
    """Partitions to read: topics, a pattern of topic names, or partition numbers. Exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartitionPair, ...] = ()

    @classmethod
    def from_options(cls, options: Options) -> Subscription:
        given = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
        if len(given) != 1:
            found = " and ".join(f'"{name}"' for name in given) if given else "none"
            raise OptionError(
                f'exactly one of "subscribe", "subscribePattern" and "assign" must be given, found {found}'
            )
        text = options[given[0]]
        match given[0]:
            case "subscribe":
                topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
                if not topics:
                    raise OptionError(f"subscribe={text!r}: name at least one topic")
                return cls(topics=topics)
            case "subscribePattern":
                try:
                    re.compile(text)
                except re.error as error:
                    raise OptionError(
                        f"subscribePattern={text!r}: not a pattern at position {error.pos}: {error.msg}"
                    ) from error
                if not text.strip():
                    raise OptionError("subscribePattern is empty: give a regular expression over topic names")
                return cls(pattern=text)
        partitions = tuple(parse_assign(text))
        if not partitions:
            raise OptionError(f"assign={text!r}: name at least one partition")
        return cls(partitions=partitions)


def _check_backend(wish: str) -> None:
    if wish == "jvm":
        raise OptionError(
            'backend=jvm is Spark\'s own connector: use format("kafka") in a session made with its jars '
            "(spark_session(backend=\"jvm\"), or 'headrace pipeline run --backend jvm')"
        )
    if wish not in ("auto", "python"):
        raise OptionError(f'backend={wish!r}: must be "auto", "python" or "jvm"')


@dataclass(frozen=True)
class SourceOptions:
    cluster: Cluster
    subscription: Subscription
    starting: OffsetSpec
    ending: OffsetSpec
    fail_on_data_loss: bool
    include_headers: bool
    isolation: int
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_s: float
    min_partitions: int | None
    max_records_per_partition: int | None
    poll_timeout_s: float
    fetch_bytes: int
    # The pipeline directory of the tables, if the query also reads the table of its topic.
    history: str | None = None
    # Typed columns instead of bytes: the reader's schema.
    decoding: Decoding | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        options = Options(given, _SOURCE_OPTIONS)
        _check_backend(options.get("backend", "auto"))
        if streaming and (wrong := next((name for name in _ENDING if name in options), None)):
            raise OptionError(
                f'option "{wrong}" is for batch queries: a stream ends when it is stopped (or availableNow)'
            )
        starting = parse_spec(options, "starting", Latest() if streaming else Earliest())
        ending = parse_spec(options, "ending", Latest())
        if not streaming:
            check_batch_specs(starting, ending)
        # Kafka's own default shows rows of aborted transactions, and the sink writes in transactions.
        isolation = options.get("kafka.isolation.level", "read_committed").lower()
        if isolation not in ("read_uncommitted", "read_committed"):
            raise OptionError(f"kafka.isolation.level={isolation!r}: must be read_committed or read_uncommitted")
        most, least = options.positive("maxOffsetsPerTrigger"), options.positive("minOffsetsPerTrigger")
        if most and least and least > most:
            raise OptionError(f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
        return cls(
            cluster=Cluster.from_options(options),
            subscription=Subscription.from_options(options),
            starting=starting,
            ending=ending,
            fail_on_data_loss=options.boolean("failOnDataLoss", True),
            include_headers=options.boolean("includeHeaders", False),
            isolation=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
            max_offsets=most,
            min_offsets=least,
            max_trigger_delay_s=options.seconds("maxTriggerDelay", "15m"),
            min_partitions=options.positive("minPartitions"),
            max_records_per_partition=options.positive("maxRecordsPerPartition"),
            poll_timeout_s=options.milliseconds("kafkaConsumer.pollTimeoutMs", 120_000),
            fetch_bytes=options.positive("kafka.max.partition.fetch.bytes") or _FETCH_BYTES,
            decoding=decoding_of(given),
            history=_history(options),
        )

    def checked(self, schema: StructType) -> SourceOptions:
        """Spark asks for the columns first and for a reader later. In between the subject may have got a version."""
        if self.decoding is not None and self.decoding.spark_schema() != schema:
            raise PipelineError(
                f"decode=registry: subject {self.decoding.reader.subject!r} got a new version while the query was "
                "planned: load the frame again, or choose a version with schemaVersion"
            )
        return self


def decoding_of(given: Mapping[str, str]) -> Decoding | None:
    """How values become columns; None without the option `decode`. Asks the registry."""
    options = Options(given, _SOURCE_OPTIONS)
    if "decode" not in options:
        if name := next((name for name in REGISTRY_OPTIONS if name in options), None):
            raise OptionError(f'option "{name}" needs option "decode" with the value "registry"')
        return None
    if options["decode"].lower() != "registry":
        raise OptionError(f'decode={options["decode"]!r}: must be "registry"')
    from headrace.pipelines.schemas.decoding import Decoding

    found = Subscription.from_options(options)
    topics = {*found.topics, *(topic for topic, _ in found.partitions)}
    return Decoding.from_options(options, topics, include_headers=options.boolean("includeHeaders", False))


def _history(options: Options) -> str | None:
    """The pipeline directory of the tables, for `history=table`."""
    if "history" not in options:
        return None
    if options["history"] != "table":
        raise OptionError(f'history={options["history"]!r}: must be "table"')
    if given := next((name for name in options if name.startswith(("starting", "ending", "decode"))), None):
        raise OptionError(f'option "{given}" does not go with "history", which reads the table and all that follows')
    return options.get("historyDirectory", "tables")


@dataclass(frozen=True)
class SinkOptions:
    cluster: Cluster
    topic: str | None
    exactly_once: bool
    transactional_id_prefix: str | None
    ledger_topic: str | None
    codec: Codec
    batch_bytes: int
    transaction_timeout_ms: int
    acks: int
    keep_timestamps: bool
    encoding: Encoding | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        options = Options(given, _SINK_OPTIONS)
        mode = options.get("mode", "exactly-once").lower()
        if mode not in ("exactly-once", "at-least-once"):
            raise OptionError(f'mode={mode!r}: must be "exactly-once" or "at-least-once"')
        codec = options.get("kafka.compression.type", "none").lower()
        if codec not in ("none", "gzip", "snappy", "lz4", "zstd"):
            raise OptionError(f"kafka.compression.type={codec!r}: must be none, gzip, snappy, lz4 or zstd")
        acks = {"all": -1, "-1": -1, "1": 1, "0": 0}.get(options.get("kafka.acks", "all").lower())
        if acks is None or (mode == "exactly-once" and acks != -1):
            raise OptionError(f'kafka.acks={options["kafka.acks"]!r}: must be all, 1 or 0, and "all" for exactly-once')
        return cls(
            cluster=Cluster.from_options(options),
            topic=options.get("topic"),
            exactly_once=mode == "exactly-once",
            transactional_id_prefix=options.get("transactionalIdPrefix"),
            ledger_topic=options.get("ledgerTopic"),
            codec=Codec.from_name(codec),
            batch_bytes=options.positive("kafka.max.request.size") or 1_000_000,
            transaction_timeout_ms=options.positive("kafka.transaction.timeout.ms") or 60_000,
            acks=acks,
            keep_timestamps=options.boolean("includeTimestamp", False),
            encoding=_encoding_of(options),
        )


def _encoding_of(options: Options) -> Encoding | None:
    if "encode" not in options:
        if name := next((name for name in ("schema", "subjectStrategy", *REGISTRY_OPTIONS) if name in options), None):
            raise OptionError(f'option "{name}" needs option "encode" with the value avro, json or protobuf')
        return None
    from headrace.pipelines.schemas.encoding import Encoding

    return Encoding.from_options(options)

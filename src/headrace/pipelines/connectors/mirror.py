"""Copies topics from one cluster to another. Keeps keys, values, headers, timestamps and partitions; copies a record
once.

    name: east
    source: {bootstrap: "east:9092"}
    target: {bootstrap: "aggregate:9092"}
    topics: "orders|clicks.*"               # a pattern over topic names
    rename: "east.{topic}"                  # optional; without it topics keep their names
    failOnDataLoss: false                   # optional; goes on when a topic is deleted or retention is faster

Every copied record gets the header `headrace.mirror` = `<source cluster id>:<partition>:<offset>:<topic>:<topic of the
copy>`. It serves two purposes. The mirror does not copy a record back to its source cluster, so two clusters may mirror
each other. `mirror offsets` translates an offset of the source to the target, where the same record has another offset.

An application may copy the headers of a record that it read into the record that it writes. Such a record is new and no
copy: its topic is not the one that the header names. Headers of 0.1.0 name no topics, so they count as those of a copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import functions as f

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient, TopicPartitionPair
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.kernel.plurals import counted
from headrace.pipelines.brokers import as_options, in_configuration, security_of
from headrace.pipelines.errors import OptionError, PipelineError, nearest
from headrace.pipelines.flows.graph import BatchSink, PipelineGraph
from headrace.pipelines.flows.spec import BOOTSTRAP, PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.pipelines.flows.runner import PipelineRun

HEADER: Final = "headrace.mirror"
# Which records a topic takes, and how long it keeps them. Copies have the times of their records, so with a shorter
# retention the target would delete them at once. The rest is for the target's brokers to decide.
_KEPT_CONFIGS: Final = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
)
_FIELDS: Final = ("name", "source", "target", "topics", "rename", "storage", "trigger", "failOnDataLoss")
# Python takes flags only at the start of a pattern.
_FLAGS: Final = re.compile(r"\(\?[aiLmsux]+\)")


@dataclass(frozen=True)
class MirrorSpec:
    file: Path
    name: str
    source: dict[str, str]
    target: dict[str, str]
    topics: str
    rename: str
    storage: str
    trigger: str | None
    fails_on_data_loss: bool = True

    def renamed(self, topic: str) -> str:
        return self.rename.replace("{topic}", topic)

    @property
    def source_bootstrap(self) -> str:
        return self.source["bootstrap"]

    @property
    def target_bootstrap(self) -> str:
        return self.target["bootstrap"]

    def pipeline(self) -> PipelineSpec:
        # Progress and offsets go to the source cluster, where the lag is measured.
        configuration = {BOOTSTRAP: self.source_bootstrap, **in_configuration(_settings(self.source))}
        if self.trigger:
            configuration["headrace.trigger.interval"] = self.trigger
        return PipelineSpec(self.file.parent.resolve(), self.name, self.storage, None, configuration, ())


def load_mirror(file: Path) -> MirrorSpec:
    try:
        data = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, OSError) as error:
        raise OptionError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise OptionError(f"{file}: must be a mapping with source, target and topics")
    if unknown := next((key for key in data if key not in _FIELDS), None):
        raise OptionError(f"{file}: field {unknown!r} is unknown{nearest(str(unknown), _FIELDS)}")
    for side in ("source", "target"):
        if not isinstance(data.get(side), dict) or "bootstrap" not in data[side]:
            raise OptionError(
                f'{file}: "{side}" needs a bootstrap, for example {side}: {{bootstrap: "localhost:9092"}}'
            )
    try:
        re.compile(str(data.get("topics") or ""))
    except re.error as error:
        raise OptionError(
            f"{file}: topics {data['topics']!r}: not a pattern at position {error.pos}: {error.msg}"
        ) from error
    if not data.get("topics"):
        raise OptionError(f'{file}: "topics" is missing: a pattern over topic names')
    rename = str(data.get("rename") or "{topic}")
    if "{topic}" not in rename:
        raise OptionError(f"{file}: rename {rename!r} must contain {{topic}}: otherwise all topics would become one")
    fails = data.get("failOnDataLoss", True)
    if not isinstance(fails, bool):
        raise OptionError(f"{file}: failOnDataLoss {fails!r} must be true or false")
    name = str(data.get("name") or file.stem)
    return MirrorSpec(
        file=file,
        name=name,
        source={str(key): str(value) for key, value in data["source"].items()},
        target={str(key): str(value) for key, value in data["target"].items()},
        topics=str(data["topics"]),
        rename=rename,
        storage=str(data.get("storage") or f"storage/{name}"),
        trigger=data.get("trigger"),
        fails_on_data_loss=fails,
    )


def _settings(side: dict[str, str]) -> dict[str, str]:
    """Settings of a Kafka client, mostly TLS and SASL."""
    return {name: os.path.expandvars(value) for name, value in side.items() if name != "bootstrap"}


def _client(side: dict[str, str]) -> BlockingClient:
    return BlockingClient(side["bootstrap"], security=security_of(_settings(side)), client_id="headrace-mirror")


def _options(side: dict[str, str]) -> dict[str, str]:
    return as_options(side["bootstrap"], _settings(side))


def mirrored_topics(spec: MirrorSpec, client: BlockingClient) -> dict[str, int]:
    """Source topics to copy, with their partition counts. Internal topics are never copied."""
    whole = re.compile(spec.topics)
    return {
        name: len(topic.partitions)
        for name, topic in client.topics(None).items()
        if whole.fullmatch(name) and not topic.is_internal and not name.startswith("__")
    }


def make_topics(spec: MirrorSpec, source: BlockingClient, target: BlockingClient) -> None:
    """Creates missing topics in the target with the source's partition counts and retention."""
    wanted = {spec.renamed(name): (name, count) for name, count in mirrored_topics(spec, source).items()}
    there = target.topics(wanted)
    for name, (origin, count) in wanted.items():
        if name not in there:
            set_there = source.topic_configs(origin)
            target.create_topic(name, count, configs={key: set_there[key] for key in _KEPT_CONFIGS if key in set_there})
        elif len(there[name].partitions) < count:
            fewer = counted(len(there[name].partitions), "partition")
            raise PipelineError(
                f"topic {name!r} has {fewer} in the target and {count} in the source: "
                "partitions are kept, so add partitions in the target"
            )


def mirror_run(spec: MirrorSpec, spark: SparkSession, *, once: bool, report: Callable[[str], None]) -> PipelineRun:
    from headrace.pipelines.flows.runner import PipelineRun

    with _client(spec.source) as source, _client(spec.target) as target:
        source_id, target_id = source.cluster_id(), target.cluster_id()
        if source_id == target_id and spec.rename == "{topic}":
            raise PipelineError(
                "source and target are the same cluster and no topic is renamed: records would go in circles"
            )
        make_topics(spec, source, target)

    def rows() -> DataFrame:
        stream = spark.readStream.format("headrace").options(**source_options(spec))
        return mark(stream.load(), spec, source_id, target_id)

    def write(frame: DataFrame, _batch: int) -> None:
        # The source may have new topics since the last batch.
        with _client(spec.source) as source, _client(spec.target) as target:
            make_topics(spec, source, target)
        given = {"transactionalIdPrefix": f"mirror-{spec.name}", "includeTimestamp": "true"}
        frame.write.format("headrace").options(**_options(spec.target), **given).mode("append").save()

    at = SourceCodeLocation(filename=spec.file.name, line_number=None)
    graph = PipelineGraph(spark)
    graph.register_output(BatchSink("target", None, at, write))
    graph.register_flow(Flow(name="mirror", target="target", spark_conf={}, source_code_location=at, func=rows))
    return PipelineRun(spec.pipeline(), spark, report, once=once, graph=graph)


def source_options(spec: MirrorSpec) -> dict[str, str]:
    """How the mirror reads: the topics of `mirrored_topics`, those that a program keeps for itself (`__…`) left out."""
    flags = _FLAGS.match(spec.topics)
    begin = "" if flags is None else flags[0]
    return {
        **_options(spec.source),
        "subscribePattern": f"{begin}(?!__)(?:{spec.topics.removeprefix(begin)})",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(spec.fails_on_data_loss).lower(),
    }


def mark(frame: DataFrame, spec: MirrorSpec, source_id: str, target_id: str) -> DataFrame:
    """Removes records that came from the target cluster, and adds the header with the origin of each record."""
    before, after = spec.rename.split("{topic}", 1)
    name = f.concat(f.lit(before), f.col("topic"), f.lit(after.replace("{topic}", "")))
    place = (f.lit(source_id), f.col("partition"), f.col("offset"), f.col("topic"), name)
    origin = f.concat_ws(":", *place).cast("binary")
    ours = f.array(f.struct(f.lit(HEADER).alias("key"), origin.alias("value")))
    came_from_target = f.coalesce(is_return(f.col("headers"), f.col("topic"), target_id), f.lit(False))
    return frame.where(~came_from_target).select(
        "key",
        "value",
        name.alias("topic"),
        "partition",
        "timestamp",
        f.concat(f.coalesce(f.col("headers"), f.array().cast("array<struct<key:string,value:binary>>")), ours).alias(
            "headers"
        ),
    )


def is_return(headers: Column, topic: Column, target_id: str) -> Column:
    """Whether the record is a copy of a record in the target cluster, also by way of other clusters.

    Goes from the newest header back, as long as each one names the topic in which the copy was found.
    """
    marks = f.filter(headers, lambda header: (header["key"] == HEADER) & header["value"].isNotNull())
    hops = f.transform(f.reverse(marks), lambda header: f.split(header["value"].cast("string"), ":"))

    def back(state: Column, hop: Column) -> Column:
        cluster, origin, copy = (f.try_element_at(hop, f.lit(at)) for at in (1, 4, 5))
        # A header of 0.1.0 has no topics: each comparison with it is null, and counts as equal.
        is_copy = state["is_copy"] & f.coalesce(copy == state["topic"], f.lit(True))
        is_return = state["is_return"] | (is_copy & f.coalesce(cluster == target_id, f.lit(False)))
        return f.struct(origin.alias("topic"), is_copy.alias("is_copy"), is_return.alias("is_return"))

    begin = f.struct(topic.cast("string").alias("topic"), f.lit(True).alias("is_copy"), f.lit(False).alias("is_return"))
    return f.aggregate(hops, begin, back, lambda state: state["is_return"])


def translate_group(spec: MirrorSpec, group: str) -> dict[TopicPartitionPair, tuple[int, int]]:
    """Commits the group's offsets in the target. Returns (source offset, target offset) for each partition."""
    moved: dict[TopicPartitionPair, tuple[int, int]] = {}
    with _client(spec.source) as source, _client(spec.target) as target:
        source_id = source.cluster_id()
        copied = mirrored_topics(spec, source)
        for (topic, partition), (offset, _) in source.committed_offsets(group).items():
            if topic in copied:
                pair = (spec.renamed(topic), partition)
                moved[pair] = offset, target_offset(target, pair, source_id, partition, offset)
        if not moved:
            raise PipelineError(f"group {group!r} has no committed offsets in the topics that are mirrored")
        target.commit_offsets(group, {pair: (there, "") for pair, (_, there) in moved.items()})
    return moved


def target_offset(client: BlockingClient, pair: TopicPartitionPair, source_id: str, partition: int, wanted: int) -> int:
    """The target offset of the first record whose source offset is `wanted` or later.

    Copies keep their order, so source offsets grow with target offsets: a binary search over the target partition.
    """
    low = client.list_offsets({pair: EARLIEST})[pair]
    answer = high = end = client.list_offsets({pair: LATEST}, isolation=READ_COMMITTED)[pair]
    prefix = f"{source_id}:{partition}:".encode()
    while low < high:
        middle = (low + high) // 2
        found = _first_copy(client, pair, middle, end, prefix)
        if found is None:
            high = middle
        elif found[1] >= wanted:
            # Between `middle` and the copy are only markers and records from other sources.
            answer, high = found[0], middle
        else:
            low = found[0] + 1
    return answer


def _first_copy(
    client: BlockingClient, pair: TopicPartitionPair, start: int, end: int, prefix: bytes
) -> tuple[int, int] | None:
    """(offset, origin) of the first record from `start` on that was copied from this source partition."""
    settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=10, max_bytes=64 << 10)
    for record in fetched_records(client, pair, start, end, settings):
        for key, value in record.headers:
            if key == HEADER and value is not None and value.startswith(prefix):
                offset, *topics = value[len(prefix) :].split(b":")
                # The header of a derived record names the topic of the record that it was made from.
                if not topics or topics[-1] == pair[0].encode():
                    return record.offset, int(offset)
    return None

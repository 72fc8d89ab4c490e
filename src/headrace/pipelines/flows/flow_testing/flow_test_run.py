"""Runs one test of a pipeline: writes the input to a broker, runs the flows until they have read it, reads the output.

The broker belongs to the test and starts empty. Checkpoints and tables go to a temporary directory. A flow whose target
is not a topic of this broker or a table of the pipeline is refused, because a test must not write elsewhere.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.pipelines.output import Sink, Table, TemporaryView

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import write_records
from headrace.pipelines.connectors.connector import pipeline_run
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.flow_testing.flow_tests import FlowTest, Outcome, differences
from headrace.pipelines.flows.spec import BOOTSTRAP, PipelineSpec
from headrace.records.builder import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.flows.runner import PipelineRun

_SERVERS: Final = "kafka.bootstrap.servers"


def run_test(
    path: Path, spec: PipelineSpec, spark: SparkSession, test: FlowTest, bootstrap: str, storage: Path
) -> Outcome:
    begun = time.monotonic()
    with BlockingClient(bootstrap) as client:
        for topic in test.input:
            client.create_topic(topic, test.partitions(topic), configs={"retention.ms": "-1"})
            for partition, record in test.records(topic):
                write_records(client, (topic, partition), [record])
        mine = spec.with_settings({BOOTSTRAP: bootstrap}, storage=str(storage))
        run = pipeline_run(path, mine, spark, once=True, report=_silent)
        try:
            _refuse_other_targets(run, bootstrap)
            run.start()
            run.supervise()
            found = {name: _found(client, spark, run, name) for name in test.output}
        finally:
            _drop_tables(run, spark)
    compared = {name: differences(test.output[name], records) for name, records in found.items()}
    return Outcome(test, {name: lines for name, lines in compared.items() if lines}, time.monotonic() - begun)


def _silent(_text: str) -> None:
    """A test reports its outcome only."""


def _refuse_other_targets(run: PipelineRun, bootstrap: str) -> None:
    for item in run.resolve():
        target = item.target
        if isinstance(target, (Table, TemporaryView)):
            continue
        is_topic = isinstance(target, Sink) and target.format in ("headrace", "kafka")
        if not is_topic or target.options.get(_SERVERS) != bootstrap:
            raise PipelineError(
                f"flow {item.flow.name!r} writes to {target.name!r}, which is not a topic of the test's broker or a "
                "table of the pipeline: a test must not write elsewhere. Take the brokers from broker_options(spark)"
            )


def _found(client: BlockingClient, spark: SparkSession, run: PipelineRun, name: str) -> list[Record]:
    if name in _tables(run):
        rows = spark.read.parquet(run.spec.storage_uri("tables", name)).toJSON().collect()
        return [Record(None, json.dumps(json.loads(row)).encode(), timestamp_ms=0) for row in rows]
    topics = client.topics([name])
    if name not in topics:
        return []
    pairs = [(name, index) for index in topics[name].partitions]
    starts = client.list_offsets(dict.fromkeys(pairs, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
    settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=20)
    return [one for pair in pairs for one in fetched_records(client, pair, starts[pair], ends[pair], settings)]


def _tables(run: PipelineRun) -> set[str]:
    every = (*run.views, *(flow.resolved for flow in run.flows))
    return {str(item.target.name) for item in every if isinstance(item.target, Table)}


def _drop_tables(run: PipelineRun, spark: SparkSession) -> None:
    """The session forgets the tables of this test, so that the next one creates its own."""
    for name in _tables(run):
        spark.sql(f"DROP TABLE IF EXISTS `{name}`")

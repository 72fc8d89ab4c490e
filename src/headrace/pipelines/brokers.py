"""The brokers of a pipeline and the credentials for them, set once in its configuration:

    headrace.bootstrap.servers: "kafka:9093"
    headrace.kafka.security.protocol: "SASL_SSL"
    headrace.kafka.sasl.mechanism: "SCRAM-SHA-512"
    headrace.kafka.sasl.username: "orders"
    headrace.kafka.sasl.password: "$ORDERS_PASSWORD"        # from the environment

The name after `headrace.kafka.` is Kafka's name of a client setting. The runner uses these settings to publish
progress, commit offsets and reset flows. Definition files get them from `broker_options` as options of the source and
the sink.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.client.blocking.client import READ_COMMITTED, READ_UNCOMMITTED, BlockingClient
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import Fault
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.spec import BOOTSTRAP, PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA: Final = "headrace.kafka."
_DEFAULT: Final = "localhost:9092"


def kafka_settings(configuration: Mapping[str, str]) -> dict[str, str]:
    """The settings below `headrace.kafka.`, under Kafka's names."""
    return {
        name.removeprefix(KAFKA): os.path.expandvars(value)
        for name, value in configuration.items()
        if name.startswith(KAFKA)
    }


def in_configuration(settings: Mapping[str, str]) -> dict[str, str]:
    """The inverse of `kafka_settings`: Kafka's names with the prefix `headrace.kafka.`."""
    return {f"{KAFKA}{name}": value for name, value in settings.items()}


def as_options(bootstrap: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Options for `format("headrace")` and `format("kafka")`."""
    return {"kafka.bootstrap.servers": bootstrap, **{f"kafka.{name}": value for name, value in settings.items()}}


def broker_options(spark: SparkSession) -> dict[str, str]:
    """Options for definition files: `spark.readStream.format("headrace").options(**broker_options(spark))`."""
    configuration = spark.conf.getAll
    return as_options(configuration.get(BOOTSTRAP, _DEFAULT), kafka_settings(configuration))


def security_of(settings: Mapping[str, str]) -> ClientSecurity:
    try:
        return ClientSecurity.from_settings(settings)
    except Fault as fault:
        raise OptionError(fault.message) from fault


def isolation_of(spec: PipelineSpec) -> int:
    """The isolation level at which the flows of a pipeline read: read_committed, unless the pipeline's configuration
    says otherwise. A flow that chooses read_uncommitted in its own options is not known here. The ends of its
    partitions are then lower than what it may read, which is safe: a higher offset would count as a lost record."""
    level = kafka_settings(spec.configuration).get("isolation.level", "read_committed")
    return READ_UNCOMMITTED if level.strip().lower() == "read_uncommitted" else READ_COMMITTED


def client_of(spec: PipelineSpec, bootstrap: str | None = None) -> BlockingClient:
    """A client of the pipeline's cluster."""
    address = bootstrap or spec.bootstrap
    if address is None:
        raise PipelineError(
            "say which cluster: --bootstrap, or headrace.bootstrap.servers in the pipeline's configuration"
        )
    return BlockingClient(address, security=security_of(kafka_settings(spec.configuration)))

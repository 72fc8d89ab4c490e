"""FileStreamSource and FileStreamSink of Apache Kafka."""

from __future__ import annotations

from headrace.pipelines.connect.common_settings import take_common, take_plain_converters, take_transforms
from headrace.pipelines.connect.connect_config import ConnectConfig


def file_source(config: ConnectConfig, _schema: str | None) -> dict[str, dict[str, object]]:
    take_common(config)
    take_plain_converters(config)
    take_transforms(config)
    config.ignore("batch.size")
    path, topic = config.need("file"), config.need("topic")
    return {config.name: {"from": {"lines": {"path": path}}, "to": {"topic": {"name": topic}}}}


def file_sink(config: ConnectConfig, _schema: str | None) -> dict[str, dict[str, object]]:
    take_common(config)
    take_plain_converters(config)
    take_transforms(config)
    path, topics = config.need("file"), config.names("topics")
    if config.take("topics.regex"):
        config.missing.append("topics.regex: name the topics")
    if not topics:
        config.missing.append("topics is missing")
    return {
        config.name: {
            "from": {"topic": {"name": ",".join(topics)}},
            "select": "SELECT value FROM source",
            "to": {"lines": {"path": path}},
        }
    }

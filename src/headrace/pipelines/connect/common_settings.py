"""Settings that every connector of Kafka Connect has: converters, transforms, error handling, clients.

A topic source gets its decoding from the converter of values, a topic target its encoding.
"""

from __future__ import annotations

from typing import Final

from headrace.pipelines.connect.connect_config import ConnectConfig

_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_REGISTRY: Final = {
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.json.JsonSchemaConverter": "json",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
}
_UNWRAP: Final = "io.debezium.transforms.ExtractNewRecordState"


def take_common(config: ConnectConfig) -> None:
    """Takes the settings that change nothing here, and refuses the others."""
    config.ignore("connector.class", "tasks.max", "header.converter", "config.action.reload", "errors.log.enable")
    config.ignore("errors.log.include.messages", "errors.retry.timeout", "errors.retry.delay.max.ms")
    config.ignore("errors.deadletterqueue.context.headers.enable", "errors.deadletterqueue.topic.replication.factor")
    config.ignore_prefix("topic.creation.", "offset.flush.")
    tasks = config.take("tasks.max", "1") or "1"
    if not tasks.isdecimal() or int(tasks) < 1:
        config.missing.append(f"tasks.max={tasks}: must be a whole number of at least 1")
    elif tasks != "1":
        config.notes.append("tasks.max is not needed: Spark divides the work")
    if (tolerance := config.take("errors.tolerance", "none")) == "none" and "topics" in config.values:
        config.notes.append("a record that cannot be decoded becomes a dead letter and does not stop the connector")
    elif tolerance not in ("none", "all"):
        config.missing.append(f"errors.tolerance={tolerance} is unknown")
    topics = config.values.get("topics", "")
    letters = config.take("errors.deadletterqueue.topic.name")
    if letters is not None and letters != f"{topics}.dlq":
        config.notes.append(f"dead letters go to {topics}.dlq, not to {letters}")
    for prefix in ("producer.override.", "consumer.override.", "admin.override."):
        for key in [key for key in config.values if key.startswith(prefix)]:
            config.missing.append(f"{key}: put client settings under kafka: in the connector file")
            config.ignore(key)


def take_transforms(config: ConnectConfig) -> bool:
    """Whether Debezium's unwrap transform is there. Other transforms are missing: SELECT does their work."""
    unwraps = False
    for alias in config.names("transforms"):
        kind = config.take(f"transforms.{alias}.type", "")
        config.ignore_prefix(f"transforms.{alias}.")
        if kind == _UNWRAP:
            unwraps = True
        else:
            config.missing.append(f"the transform {kind or alias!r} is not supported: write it as select in the file")
    if config.take("predicates"):
        config.missing.append("predicates are not supported: write a WHERE in select")
        config.ignore_prefix("predicates.")
    return unwraps


def decoding(config: ConnectConfig, schema: str | None) -> dict[str, object]:
    """Settings of a topic source whose values become columns."""
    _take_key_converter(config)
    converter = config.take("value.converter", _JSON)
    if converter in _REGISTRY:
        return {"decode": "registry", **_registry(config)}
    if converter == _JSON:
        if config.is_on("value.converter.schemas.enable", default=True):
            config.missing.append("value.converter.schemas.enable=true (schema and payload in every value)")
        if schema is None:
            config.missing.append(
                "the columns of JSON values are not in the configuration: give them with --schema 'id int, name string'"
            )
        return {"schema": schema or ""}
    config.missing.append(f"value.converter={converter} gives no columns: use JSON or a schema registry")
    return {}


def encoding(config: ConnectConfig) -> dict[str, object]:
    """Settings of a topic target."""
    _take_key_converter(config)
    converter = config.take("value.converter", _JSON)
    if converter in _REGISTRY:
        return {"encode": _REGISTRY[converter], **_registry(config)}
    if converter == _JSON:
        if config.is_on("value.converter.schemas.enable", default=True):
            config.missing.append(
                "value.converter.schemas.enable=true (schema and payload in every value): set it to false, or use a "
                "schema registry"
            )
    elif converter not in (_STRING, _BYTES):
        config.missing.append(f"value.converter={converter} is not supported")
    return {}


def take_plain_converters(config: ConnectConfig) -> None:
    """For lines of text: both converters must leave them as they are."""
    for part in ("key", "value"):
        converter = config.take(f"{part}.converter", _STRING)
        config.ignore(f"{part}.converter.schemas.enable")
        if converter not in (_STRING, _BYTES):
            config.missing.append(f"{part}.converter={converter}: lines are written as they are (StringConverter)")


def _take_key_converter(config: ConnectConfig) -> None:
    converter = config.take("key.converter", _STRING)
    config.ignore_prefix("key.converter.")
    if converter not in (_STRING, _BYTES, _JSON):
        config.missing.append(f"key.converter={converter}: keys are texts (StringConverter)")


def _registry(config: ConnectConfig) -> dict[str, object]:
    url = config.take("value.converter.schema.registry.url")
    if url is None:
        config.missing.append("value.converter.schema.registry.url is missing")
    return {"registry": url or ""}

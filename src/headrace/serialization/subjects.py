"""The subject under which a topic's schema is registered: the three strategies of Confluent's clients."""

from __future__ import annotations

from enum import StrEnum

from headrace.serialization.errors import SerializationError


class SubjectStrategy(StrEnum):
    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"

    @classmethod
    def parse(cls, text: str) -> SubjectStrategy:
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(cls)
            raise SerializationError(f"subject strategy {text!r}: must be one of {known}") from None


def subject_of(
    topic: str, strategy: SubjectStrategy = SubjectStrategy.TOPIC, record: str | None = None, *, is_key: bool = False
) -> str:
    """`record`: full name of the Avro record or Protobuf message, or the title of the JSON Schema."""
    if strategy is SubjectStrategy.TOPIC:
        return f"{topic}-{'key' if is_key else 'value'}"
    if not record:
        raise SerializationError(
            f"subject strategy {strategy}: the schema has no record name. Name the record, or use the strategy topic"
        )
    return record if strategy is SubjectStrategy.RECORD else f"{topic}-{record}"

"""Encodes keys and values of records, and registers their schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.kernel.dataclass import dataclass
from headrace.serialization.codecs import Codec, codec_of
from headrace.serialization.errors import SerializationError
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.rules import Conditions, RuleMode
from headrace.serialization.schema import AVRO, PROTOBUF, RegisteredSchema, SchemaReference
from headrace.serialization.subjects import SubjectStrategy, subject_of
from headrace.serialization.wire_format import guid_header, header_name, prefixed


@dataclass(frozen=True, slots=True)
class Encoded:
    """`header` is None in the prefix form."""

    data: bytes
    header: tuple[str, bytes] | None
    schema: RegisteredSchema


class RecordEncoder:
    """Writes with `schema`, which is registered when a subject is first written, or with the latest version of the
    subject if `schema` is None. The version that is used stays the same for the life of the encoder.

    `register` False looks the schema up and fails if the subject does not have it. `message` names the Protobuf message
    to write; the first of the file without it. `subject` replaces the strategy. `any_pattern`: see `codec_of`. None is
    not a value here: a caller writes a tombstone as null.
    """

    def __init__(
        self,
        client: RegistryClient,
        kind: str = AVRO,
        strategy: SubjectStrategy | str = SubjectStrategy.TOPIC,
        *,
        schema: str | None = None,
        references: Sequence[SchemaReference] = (),
        message: str | None = None,
        subject: str | None = None,
        register: bool = True,
        normalize: bool = False,
        any_pattern: bool = False,
    ) -> None:
        self._client = client
        self._kind = kind.upper()
        self._strategy = SubjectStrategy.parse(str(strategy))
        self._text = schema
        self._references = tuple(references)
        self._message = message
        self._subject = subject
        self._register = register
        self._normalize = normalize
        self._any_pattern = any_pattern
        self._known: dict[tuple[str, bool], tuple[RegisteredSchema, Codec, Conditions | None]] = {}

    def encode(self, topic: str, value: Any, *, is_key: bool = False) -> bytes:
        """The id, and the value. Raises SerializationError if the value does not fit or breaks a condition of the data
        contract, RegistryError if the registry refuses the schema."""
        schema, codec, conditions = self._codec(topic, is_key=is_key)
        return prefixed(schema.id, codec.indexes() + checked_payload(codec, conditions, value))

    def encode_with_header(self, topic: str, value: Any, *, is_key: bool = False) -> Encoded:
        """The form of Confluent's 8.0: the GUID of the schema is in a header, the data has no prefix."""
        schema, codec, conditions = self._codec(topic, is_key=is_key)
        if schema.guid is None:
            raise SerializationError(f"schema id {schema.id} has no GUID: the registry is too old for the header form")
        header = guid_header(schema.guid, codec.indexes())
        return Encoded(checked_payload(codec, conditions, value), (header_name(is_key=is_key), header), schema)

    def schema_for(self, topic: str, *, is_key: bool = False) -> RegisteredSchema:
        """The schema that records of this topic are written with. Registers it."""
        return self._codec(topic, is_key=is_key)[0]

    def _codec(self, topic: str, *, is_key: bool) -> tuple[RegisteredSchema, Codec, Conditions | None]:
        known = self._known.get((topic, is_key))
        if known is None:
            schema = self._schema(topic, is_key=is_key)
            if schema.kind != self._kind:
                raise SerializationError(
                    f"subject {schema.subject} holds {schema.kind} schemas: encode with kind {schema.kind}, "
                    f"not {self._kind}"
                )
            codec = codec_of(schema, self._client, message=self._message, any_pattern=self._any_pattern)
            known = (schema, codec, Conditions.of(schema, RuleMode.WRITE))
            self._known[topic, is_key] = known
        return known

    def _schema(self, topic: str, *, is_key: bool) -> RegisteredSchema:
        subject = self._subject or subject_of(topic, self._strategy, self._record_name(), is_key=is_key)
        if self._text is None:
            return self._client.latest(subject)
        ask = self._client.register if self._register else self._client.lookup
        return ask(subject, self._text, kind=self._kind, references=self._references, normalize=self._normalize)

    def _record_name(self) -> str | None:
        if self._strategy is SubjectStrategy.TOPIC:
            return None
        if self._message is not None or self._text is None:
            return self._message
        if self._kind == PROTOBUF:
            raise SerializationError(f"subject strategy {self._strategy}: name the Protobuf message to write")
        unregistered = RegisteredSchema(0, None, None, None, self._kind, self._text, self._references)
        return codec_of(unregistered, self._client).record_name


def checked_payload(codec: Codec, conditions: Conditions | None, value: Any) -> bytes:
    """The payload. Conditions see the record as a reader gets it: complete, with defaults and Python's types."""
    data = codec.encode(value)
    if conditions is not None:
        conditions.check(codec.decode(codec.indexes() + data))
    return data

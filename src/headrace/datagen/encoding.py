"""Values of topics with a registered schema: Avro, or JSON with a schema id."""

from __future__ import annotations

from headrace.client.security import ClientSecurity
from headrace.datagen.errors import BadPlan
from headrace.datagen.fields import Row
from headrace.datagen.generator import Encoder
from headrace.datagen.plan import REGISTERED, Plan, Subjects


def registry_subjects(registry: str | None, security: ClientSecurity | None = None) -> Subjects | None:
    """Reads subjects of a registry, as the user of the brokers. None without a registry."""
    if registry is None:
        return None
    from headrace.serialization.registry_login import registry_client

    client = registry_client(registry, security)

    def latest(subject: str) -> tuple[str, str]:
        found = client.latest(subject)
        return found.kind, found.text

    return latest


def registry_encoder(plan: Plan, registry: str | None, security: ClientSecurity | None = None) -> Encoder | None:
    """Registers the schemas of a plan, as the user of the brokers. None if no topic needs a registry. Raises BadPlan,
    RegistryError."""
    topics = [each for each in plan.topics if each.form in REGISTERED]
    if not topics:
        return None
    if registry is None:
        names = ", ".join(f"topics.{each.name}" for each in topics)
        raise BadPlan(names, f"format {topics[0].form} needs a schema registry: --registry URL")
    from headrace.serialization.record_encoder import RecordEncoder
    from headrace.serialization.registry_login import registry_client

    client = registry_client(registry, security)
    encoders = {
        each.name: RecordEncoder(client, REGISTERED[each.form], schema=each.schema, any_pattern=True) for each in topics
    }
    for topic, encoder in encoders.items():
        encoder.schema_for(topic)

    def encode(topic: str, rows: list[Row]) -> list[bytes]:
        encoder = encoders[topic]
        return [encoder.encode(topic, row) for row in rows]

    return encode

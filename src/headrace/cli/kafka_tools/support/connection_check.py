"""Checks before a tool starts librdkafka: a broker answers, and the topic exists.

librdkafka retries forever without a message: a wrong port or topic name looks like an idle cluster. These checks fail
within seconds with a message that names the server, the topic and the remedy.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.cli.kafka_tools.support.librdkafka import explain
from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import parse_bootstrap
from headrace.client.server_kind import require_broker

if TYPE_CHECKING:
    from headrace.cli.support.kafka_client import Client, TopicMetadata

CONTACT_SECONDS: Final = 10.0
# A broker with automatic topic creation creates a topic within a second.
_CREATION_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.1


@contextmanager
def sentences() -> Iterator[None]:
    """Raises librdkafka's own errors as ToolFailed."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise ToolFailed(explain(error.args[0])) from error


def require_cluster(chosen: Mapping[str, object], timeout_s: float = CONTACT_SECONDS) -> None:
    """Fails if no Kafka broker answers at the bootstrap addresses. `chosen`: librdkafka's settings."""
    encrypted = str(chosen.get("security.protocol", "")).upper().endswith("SSL")
    require_broker(parse_bootstrap(str(chosen["bootstrap.servers"])), timeout_s=timeout_s, encrypted=encrypted)


def existing_topics(client: Client, timeout_s: float = CONTACT_SECONDS) -> Mapping[str, TopicMetadata]:
    """Metadata of all topics by name. (A request with a topic name may create the topic.)"""
    with sentences():
        return client.list_topics(timeout=timeout_s).topics


def missing_topic(topic: str, known: Mapping[str, object]) -> str:
    return f"topic {topic!r} does not exist.{nearest(topic, known)}"


def require_topic(client: Client, topic: str) -> None:
    """Fails if a consumer's topic does not exist."""
    from confluent_kafka import KafkaError

    known = existing_topics(client)
    if topic in known:
        return
    with sentences():
        found = client.list_topics(topic, timeout=CONTACT_SECONDS).topics[topic]
    if found.error is not None and found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise ToolFailed(f"topic {topic!r}: {explain(found.error)}")
    raise ToolFailed(missing_topic(topic, known))


def require_writable_topic(producer: Client, topic: str, timeout_s: float = _CREATION_SECONDS) -> None:
    """Fails if a producer's topic does not exist and the broker does not create it automatically."""
    from confluent_kafka import KafkaError

    being_created = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
    known = existing_topics(producer)
    if topic in known:
        return
    deadline = time.monotonic() + timeout_s
    while True:
        with sentences():
            found = producer.list_topics(topic, timeout=CONTACT_SECONDS).topics[topic]
        if found.error is None and found.partitions:
            print(f"{missing_topic(topic, known)} The broker created it now.", file=sys.stderr)
            return
        if found.error is not None and found.error.code() not in being_created:
            raise ToolFailed(f"topic {topic!r}: {explain(found.error)}")
        if time.monotonic() > deadline:
            raise ToolFailed(
                f"{missing_topic(topic, known)} The broker does not create topics on request "
                f"(auto.create.topics.enable): create it with kafka-topics --create --topic {topic}"
            )
        time.sleep(_PAUSE_SECONDS)

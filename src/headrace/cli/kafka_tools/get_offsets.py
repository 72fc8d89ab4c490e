"""kafka-get-offsets: prints the earliest or latest offset of partitions, or the offset at a time."""

from __future__ import annotations

import re
import sys

from headrace.cli.kafka_tools.support.options import Arguments, Option
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.client.offsets import SPECIAL_TIMES, list_offsets
from headrace.kernel.ids import INTERNAL_TOPICS, OTHER_SPELLINGS, TopicPartition

OPTIONS = (
    *CONNECTION,
    Option("topic", "A regular expression of topics; all when missing.", "topic"),
    Option("topic-partitions", "topic:0,topic:2-5,:3 … instead of --topic.", "list"),
    Option("partitions", "Partition numbers, with --topic.", "0,1,…"),
    Option("time", "earliest, latest, max-timestamp, or milliseconds since 1970.", "time", default="latest"),
    Option("exclude-internal-topics", "Leave out internal topics."),
)


def check(arguments: Arguments) -> None:
    if arguments.given("topic-partitions") and (arguments.given("topic") or arguments.given("partitions")):
        raise ToolFailed("--topic-partitions cannot be used with --topic or --partitions")
    for rule in str(arguments["topic-partitions"] or "").split(","):
        try:
            partition_range(rule.partition(":")[2])
        except ValueError as error:
            raise ToolFailed(f"Invalid rule specification: {rule}") from error
    numbers = arguments["partitions"]
    if numbers and not all(part.strip().isdecimal() for part in numbers.split(",")):
        raise ToolFailed(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {numbers}"
        )


def wanted_time(text: str) -> int:
    if text in SPECIAL_TIMES:
        return SPECIAL_TIMES[text]
    try:
        return int(text)
    except ValueError as error:
        known = " / ".join(f"{number} or {name}" for name, number in SPECIAL_TIMES.items())
        raise ToolFailed(
            f"Malformed time argument {text}. Please use {known}, or a specified long format timestamp"
        ) from error


def partition_range(text: str) -> range:
    """`3`, `2-5` (the end not included), `2-` or `-5`."""
    if not text:
        return range(1 << 31)
    if "-" not in text:
        return range(int(text), int(text) + 1)
    low, _, high = text.partition("-")
    return range(int(low or 0), int(high) if high else 1 << 31)


def matches(arguments: Arguments, partition: TopicPartition) -> bool:
    if arguments["exclude-internal-topics"] and partition.topic in INTERNAL_TOPICS:
        return False
    if arguments.given("topic-partitions"):
        for rule in arguments["topic-partitions"].split(","):
            topic, _, numbers = rule.partition(":")
            if (not topic or re.fullmatch(topic, partition.topic)) and partition.partition in partition_range(numbers):
                return True
        return False
    if arguments.given("topic"):
        asked = OTHER_SPELLINGS.get(arguments["topic"], arguments["topic"])
        if not re.fullmatch(asked, partition.topic):
            return False
    return not arguments.given("partitions") or any(
        partition.partition in partition_range(part) for part in arguments["partitions"].split(",")
    )


async def run(arguments: Arguments, client: ClusterClient) -> None:
    time = wanted_time(arguments["time"])
    await client.refresh(None)
    leaders = {
        TopicPartition(name, int(p.partition_index)): int(p.leader_id)
        for name, topic in client.metadata.topics.items()
        for p in topic.partitions
    }
    # Kafka's tool sorts partitions as text: 0, 1, 10, 11, 2.
    chosen = sorted((p for p in leaders if matches(arguments, p)), key=lambda p: (p.topic, str(p.partition)))
    if not chosen:
        raise ToolFailed("Could not match any topic-partitions with the specified filters")
    found = await list_offsets(client, dict.fromkeys(chosen, time), leaders)
    for partition in chosen:
        answer = found[partition]
        if isinstance(answer, Exception):
            why = f"due to: {answer_error(answer) if hasattr(answer, 'error_code') else answer}"
            print(f"Skip getting offsets for topic-partition {partition} {why}", file=sys.stderr)
        else:
            # No record at or after that time: Kafka's tool skips the partition.
            if answer.offset >= 0:
                print(f"{partition.topic}:{partition.partition}:{answer.offset}")


TOOL = Tool("Show offsets of partitions.", OPTIONS, run, failure_prefix="Error occurred: ", check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())

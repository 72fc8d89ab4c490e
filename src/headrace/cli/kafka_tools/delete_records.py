"""kafka-delete-records: deletes records below given offsets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.cli.facts.topic_facts import leaders_of
from headrace.cli.kafka_tools.support import json_files
from headrace.cli.kafka_tools.support.options import Arguments, Option
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, code_text
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.ids import TopicPartition
from headrace.kernel.internal_topics import refusal
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.delete_records import DeleteRecordsResponse

OPTIONS = (
    *CONNECTION,
    Option(
        "offset-json-file",
        'A file like {"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}.',
        "file",
        required=True,
    ),
    Option("delete-internal", "Delete records of internal topics too; without it they are refused."),
)


async def run(arguments: Arguments, client: ClusterClient) -> int:
    wanted: dict[TopicPartition, int] = {}
    path = arguments["offset-json-file"]
    for entry in json_files.partitions(path, "topic", "partition", "offset"):
        partition = json_files.topic_partition(path, entry)
        if partition in wanted:
            raise ToolFailed(f"Offset json file contains duplicate topic partitions: {partition}")
        wanted[partition] = json_files.whole_number(path, "offset", entry["offset"])
    names = sorted({partition.topic for partition in wanted})
    why_not = None if arguments["delete-internal"] else refusal(names, "--delete-internal", only_records=True)
    if why_not is not None:
        raise ToolFailed(why_not)
    known = (await client.refresh(names)).topics
    leaders = leaders_of([topic for topic in known.values() if not topic.error_code])
    print("Executing records delete operation")
    by_leader: dict[int, dict[str, list[dict[str, int]]]] = {}
    for partition, offset in wanted.items():
        topics = by_leader.setdefault(leaders.get(partition, -1), {})
        topics.setdefault(partition.topic, []).append({"partition_index": partition.partition, "offset": offset})
    print("Records delete operation completed:", flush=True)
    failures = 0
    for leader, topics in by_leader.items():
        if leader < 0:
            for topic, parts in topics.items():
                for part in parts:
                    failures += 1
                    _tell_failure(f"{topic}-{part['partition_index']}", "the partition does not exist")
            continue
        body = {"topics": [{"name": name, "partitions": parts} for name, parts in topics.items()], "timeout": 30_000}
        failures += _show(await client.request(ApiKey.DELETE_RECORDS, body, node=leader))
    return 1 if failures else 0


def _show(answer: DeleteRecordsResponse) -> int:
    """Prints the results. Returns the number of failed partitions."""
    failures = 0
    for topic in answer.topics:
        for part in topic.partitions:
            name = f"{topic.name}-{part.partition_index}"
            if part.error_code:
                failures += 1
                _tell_failure(name, code_text(part.error_code))
            else:
                print(f"partition: {name}\tlow_watermark: {part.low_watermark}")
    return failures


def _tell_failure(name: str, why: str) -> None:
    print(f"partition: {name}\terror: {why}", file=sys.stderr)


TOOL = Tool("Delete the records of partitions below an offset.", OPTIONS, run, failure_prefix="")

if __name__ == "__main__":
    sys.exit(TOOL.main())

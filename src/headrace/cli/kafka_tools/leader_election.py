"""kafka-leader-election: elects preferred leaders, or a leader by unclean election."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support import json_files
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import Tool, ToolFailed, answer_error, connection_with
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey

TYPES = {"preferred": 0, "unclean": 1}
OPTIONS = (
    *connection_with("admin.config"),
    Option("election-type", "preferred or unclean.", "type", str.lower, required=True),
    Option("topic", "The topic, with --partition.", "topic"),
    Option("partition", "The partition, with --topic.", "number", int),
    Option("all-topic-partitions", "Every partition."),
    Option("path-to-json-file", 'A file like {"partitions":[{"topic":"t","partition":0}]}.', "file"),
)


def check(arguments: Arguments) -> None:
    if arguments["election-type"] not in TYPES:
        wrong = f"Cannot parse argument '{arguments['election-type']}' of option election-type"
        raise UsageError(f"{wrong}: must be preferred or unclean")
    ways = ("topic", "all-topic-partitions", "path-to-json-file")
    if sum(arguments.given(way) for way in ways) != 1:
        raise UsageError(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if arguments.given("topic") and not arguments.given("partition"):
        raise UsageError("Missing required option(s): partition")
    if arguments.given("partition") and not arguments.given("topic"):
        raise UsageError("--partition needs --topic")


def chosen(arguments: Arguments) -> list[TopicPartition] | None:
    if arguments["all-topic-partitions"]:
        return None
    if arguments.given("topic"):
        return [TopicPartition(arguments["topic"], arguments["partition"])]
    path = arguments["path-to-json-file"]
    found = [json_files.topic_partition(path, entry) for entry in json_files.partitions(path, "topic", "partition")]
    if len(set(found)) != len(found):
        raise ToolFailed("Replica election data contains duplicate partitions")
    return found


async def run(arguments: Arguments, client: ClusterClient) -> int:
    partitions = chosen(arguments)
    topics = None
    if partitions is not None:
        grouped: dict[str, list[int]] = {}
        for partition in partitions:
            grouped.setdefault(partition.topic, []).append(partition.partition)
        topics = [{"topic": name, "partitions": numbers} for name, numbers in grouped.items()]
    body = {"election_type": TYPES[arguments["election-type"]], "topic_partitions": topics, "timeout": 60_000}
    answer = await client.to_controller(ApiKey.ELECT_LEADERS, body)
    if getattr(answer, "error_code", 0):
        raise ToolFailed(answer_error(answer))
    done, already, failed = [], [], []
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            name = f"{topic.topic}-{result.partition_id}"
            code = ErrorCode(result.error_code)
            if code is ErrorCode.none:
                done.append(name)
            elif code is ErrorCode.election_not_needed:
                already.append(name)
            else:
                failed.append((name, answer_error(result)))
    kind = arguments["election-type"].upper()
    if done:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(sorted(done))}")
    if already:
        print(f"Valid replica already elected for partitions {', '.join(sorted(already))}")
    for name, why in failed:
        print(f"Error completing leader election ({kind}) for partition: {name}: {why}", file=sys.stderr)
    if failed:
        raise ToolFailed(f"{len(failed)} replica(s) could not be elected")
    return 0


TOOL = Tool("Elect leaders of partitions.", OPTIONS, run, failure_prefix="", check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())

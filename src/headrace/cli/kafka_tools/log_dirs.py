"""kafka-log-dirs: lists the replicas in the log directories of brokers."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from headrace.cli.kafka_tools.support.json_files import compact
from headrace.cli.kafka_tools.support.options import Arguments, Option
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed
from headrace.client.cluster_client import ClusterClient
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_log_dirs import DescribeLogDirsResult

OPTIONS = (
    *CONNECTION,
    Option("describe", "Show the directories."),
    Option("broker-list", "Brokers to ask; all when missing.", "1,2,…"),
    Option("topic-list", "Topics to show; all when missing.", "a,b,…"),
)
# `--broker-list` takes broker ids here, not addresses as in the old console tools.
OPTIONS = (Option(OPTIONS[0].name, OPTIONS[0].help, OPTIONS[0].value), *OPTIONS[1:])


def check(arguments: Arguments) -> None:
    arguments.require("describe")


async def run(arguments: Arguments, client: ClusterClient) -> None:
    known = sorted(client.metadata.nodes)
    asked = known
    if arguments.given("broker-list"):
        try:
            asked = [int(part) for part in str(arguments["broker-list"]).split(",") if part]
        except ValueError as error:
            raise ToolFailed(f"--broker-list {arguments['broker-list']!r}: must be broker ids as 0,1,2") from error
        if unknown := [node for node in asked if node not in known]:
            listed = ",".join(map(str, known))
            raise ToolFailed(
                f"The given brokers do not exist from --broker-list: {','.join(map(str, unknown))}. "
                f"Current existent brokers: {listed}"
            )
    topics = [t for t in (arguments["topic-list"] or "").split(",") if t]
    print("Querying brokers for log directories information")
    answers = await asyncio.gather(
        *(client.request(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node=node) for node in asked)
    )
    print(f"Received log directory information from brokers {','.join(map(str, asked))}")
    brokers = [
        {"broker": node, "logDirs": [_directory(d, topics) for d in a.results]}
        for node, a in zip(asked, answers, strict=True)
    ]
    print(compact({"brokers": brokers, "version": 1}), flush=True)
    if missing := [topic for topic in topics if topic not in (await client.refresh(None)).topics]:
        raise ToolFailed(f"topic {missing[0]!r} does not exist")


def _directory(found: DescribeLogDirsResult, topics: list[str]) -> dict[str, object]:
    partitions = [
        {
            "partition": f"{topic.name}-{part.partition_index}",
            "size": int(part.partition_size),
            "offsetLag": int(part.offset_lag),
            "isFuture": bool(part.is_future_key),
        }
        for topic in found.topics
        if not topics or str(topic.name) in topics
        for part in topic.partitions
    ]
    error = None if not found.error_code else ErrorCode(found.error_code).name
    return {"partitions": partitions, "error": error, "logDir": str(found.log_dir)}


TOOL = Tool("Show what the log directories of brokers hold.", OPTIONS, run, failure_prefix="ERROR: ", check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())

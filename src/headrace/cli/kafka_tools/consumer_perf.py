"""kafka-consumer-perf-test: measures the throughput of a consumer."""

from __future__ import annotations

import random
import sys
import time
from datetime import datetime

from headrace.cli.kafka_tools.support.connection_check import require_cluster, require_topic, sentences
from headrace.cli.kafka_tools.support.librdkafka import explain, quiet_log, settings
from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError, properties
from headrace.cli.kafka_tools.support.tool import CONNECTION, ToolFailed, bootstrap_address, command_properties, guarded

OPTIONS = (
    *CONNECTION,
    Option("topic", "The topic to read.", "topic"),
    Option("include", "A regular expression of topics.", "regex"),
    Option("num-records", "How many records.", "number", int, also=("messages",)),
    Option("group", "The consumer group.", "group"),
    Option("fetch-size", "Bytes asked for at once.", "bytes", int, default=1048576),
    Option("from-latest", "Begin at the end when the group has no position yet."),
    Option("socket-buffer-size", "Socket buffer.", "bytes", int, default=2097152),
    Option("timeout", "Give up when nothing comes for this long.", "ms", int, default=10000),
    Option("hide-header", "Leave out the heading."),
    Option("show-detailed-stats", "A line per interval."),
    Option("reporting-interval", "The interval.", "ms", int, default=5000),
    Option("date-format", "Accepted; times are printed as yyyy-MM-dd HH:mm:ss:SSS.", "format"),
    Option("print-metrics", "Accepted; librdkafka keeps its own statistics."),
    Option("command-property", "A client setting.", "name=value", repeated=True),
)
HEADING = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def check(arguments: Arguments) -> None:
    if sum(arguments.given(name) for name in ("topic", "include")) != 1:
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if not arguments.given("num-records"):
        raise UsageError('Missing required argument "[num-records]"')


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M:%S:") + f"{int(moment * 1000) % 1000:03d}"


def consumer_settings(arguments: Arguments) -> dict[str, object]:
    java = command_properties(arguments) | properties(arguments["command-property"], "command-property")
    java["group.id"] = arguments["group"] or f"perf-consumer-{random.randrange(100_000)}"
    java["auto.offset.reset"] = "latest" if arguments["from-latest"] else "earliest"
    java["max.partition.fetch.bytes"] = str(arguments["fetch-size"])
    java["receive.buffer.bytes"] = str(arguments["socket-buffer-size"])
    return {**settings(java, producer=False), "bootstrap.servers": bootstrap_address(arguments), **quiet_log()}


@sentences()
def run(arguments: Arguments) -> int:
    from confluent_kafka import Consumer

    chosen = consumer_settings(arguments)
    require_cluster(chosen)
    consumer = Consumer(chosen)
    if arguments.given("topic"):
        require_topic(consumer, arguments["topic"])
    assigned_at: list[float] = []
    began = time.time()
    topics = [f"^({arguments['include']})$"] if arguments.given("include") else [arguments["topic"]]
    consumer.subscribe(topics, on_assign=lambda *_: assigned_at.append(time.time()))
    messages = size = 0
    wanted, quiet_since = arguments["num-records"], time.time()
    if not arguments["hide-header"] and not arguments["show-detailed-stats"]:
        print(HEADING)
    elif not arguments["hide-header"]:
        print("time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec")
    interval_began, interval_messages, interval_bytes = began, 0, 0
    try:
        while messages < wanted:
            batch = consumer.consume(min(10_000, wanted - messages), timeout=0.1)
            now = time.time()
            for message in batch:
                if message.error():
                    raise ToolFailed(explain(message.error()))
                size += len(message.value() or b"") + len(message.key() or b"")
            messages += len(batch)
            if batch:
                quiet_since = now
            elif (now - quiet_since) * 1000 > arguments["timeout"]:
                limit = f"timeout ({arguments['timeout']} ms) exceeded"
                print(f"WARNING: Exiting before consuming the expected number of records: {limit}.")
                break
            elapsed = now - interval_began
            if arguments["show-detailed-stats"] and elapsed * 1000 >= arguments["reporting-interval"]:
                rate, records = (size - interval_bytes) / 2**20 / elapsed, (messages - interval_messages) / elapsed
                print(f"{_stamp(now)}, 0, {size / 2**20:.4f}, {rate:.4f}, {messages}, {records:.4f}")
                interval_began, interval_messages, interval_bytes = now, messages, size
        ended = time.time()
    finally:
        consumer.close()
    if not arguments["show-detailed-stats"]:
        _summary(began, ended, assigned_at[0] if assigned_at else ended, size, messages)
    return 0


def _summary(began: float, ended: float, assigned: float, size: int, messages: int) -> None:
    elapsed = max(ended - began, 1e-3)
    rebalance = assigned - began
    fetching = max(elapsed - rebalance, 1e-3)
    megabytes = size / 2**20
    whole = f"{megabytes:.4f}, {megabytes / elapsed:.4f}, {messages}, {messages / elapsed:.4f}"
    fetch = f"{fetching * 1000:.0f}, {megabytes / fetching:.4f}, {messages / fetching:.4f}"
    print(f"{_stamp(began)}, {_stamp(ended)}, {whole}, {rebalance * 1000:.0f}, {fetch}")


def main(argv: list[str] | None = None) -> int:
    return guarded("Measure how fast records can be read.", OPTIONS, run, argv, check=check)


if __name__ == "__main__":
    sys.exit(main())

"""kafka-run-class: runs one of Kafka's tools by the name of its Java class, as older documentation does.

    kafka-run-class.sh kafka.tools.GetOffsetShell --bootstrap-server localhost:9092 --topic orders

The names of Kafka 4 and those of earlier releases are accepted. A class that is not a tool of Kafka needs Java.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from typing import Final

from headrace.cli.support.spelling import nearest

_USAGE: Final = "USAGE: kafka-run-class.sh [-daemon] [-name servicename] [-loggc] classname [opts]"
_PACKAGE: Final = "org.apache.kafka.tools."
# Name of the class in Kafka 4 without its package → module.
_TOOLS: Final = {
    "AclCommand": "acls",
    "BrokerApiVersionsCommand": "broker_api_versions",
    "ClientMetricsCommand": "client_metrics",
    "ClusterTool": "cluster",
    "ConsoleProducer": "console_producer",
    "ConsumerPerformance": "consumer_perf",
    "DelegationTokenCommand": "delegation_tokens",
    "DeleteRecordsCommand": "delete_records",
    "DumpLogSegments": "dump_log",
    "EndToEndLatency": "e2e_latency",
    "FeatureCommand": "features",
    "GetOffsetShell": "get_offsets",
    "GroupsCommand": "groups",
    "LeaderElectionCommand": "leader_election",
    "LogDirsCommand": "log_dirs",
    "ProducerPerformance": "producer_perf",
    "ReplicaVerificationTool": "replica_verification",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "VerifiableConsumer": "verifiable_consumer",
    "VerifiableProducer": "verifiable_producer",
    "consumer.ConsoleConsumer": "console_consumer",
    "consumer.ConsoleShareConsumer": "console_share_consumer",
    "consumer.group.ConsumerGroupCommand": "consumer_groups",
    "consumer.group.ShareGroupCommand": "share_groups",
    "reassign.ReassignPartitionsCommand": "reassign_partitions",
    "streams.StreamsGroupCommand": "streams_groups",
}
CLASSES: Final = {
    **{f"{_PACKAGE}{name}": module for name, module in _TOOLS.items()},
    "kafka.Kafka": "server_start",
    "kafka.admin.ConfigCommand": "configs",
    "kafka.tools.StorageTool": "storage",
    # Kafka 2 and 3
    "kafka.admin.AclCommand": "acls",
    "kafka.admin.BrokerApiVersionsCommand": "broker_api_versions",
    "kafka.admin.ConsumerGroupCommand": "consumer_groups",
    "kafka.admin.DelegationTokenCommand": "delegation_tokens",
    "kafka.admin.DeleteRecordsCommand": "delete_records",
    "kafka.admin.FeatureCommand": "features",
    "kafka.admin.LeaderElectionCommand": "leader_election",
    "kafka.admin.LogDirsCommand": "log_dirs",
    "kafka.admin.ReassignPartitionsCommand": "reassign_partitions",
    "kafka.admin.TopicCommand": "topics",
    "kafka.tools.ClusterTool": "cluster",
    "kafka.tools.ConsoleConsumer": "console_consumer",
    "kafka.tools.ConsoleProducer": "console_producer",
    "kafka.tools.ConsumerPerformance": "consumer_perf",
    "kafka.tools.DumpLogSegments": "dump_log",
    "kafka.tools.EndToEndLatency": "e2e_latency",
    "kafka.tools.GetOffsetShell": "get_offsets",
    "kafka.tools.ReplicaVerificationTool": "replica_verification",
    "org.apache.zookeeper.ZooKeeperMain": "zookeeper_shell",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain": "zookeeper_start",
}


def class_and_arguments(words: Sequence[str]) -> tuple[str, list[str]]:
    """Without the options of the script itself, which concern the JVM. Raises LookupError without a class; `-daemon` is
    an option of the tools that have it."""
    left = list(words)
    passed: list[str] = []
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option == "-name":
            left = left[1:]
        elif option == "-daemon":
            passed = [option]
        elif option != "-loggc":
            break
    if not left:
        raise LookupError
    return left[0], [*passed, *left[1:]]


def main(words: Sequence[str]) -> int:
    try:
        name, arguments = class_and_arguments(words)
    except LookupError:
        print(_USAGE, file=sys.stderr)
        return 1
    if name not in CLASSES:
        print(
            f"Error: Could not find or load main class {name}: Headrace has only Kafka's own tools."
            f"{nearest(name, CLASSES)}",
            file=sys.stderr,
        )
        return 1
    sys.argv[1:] = arguments
    runpy.run_module(f"headrace.cli.kafka_tools.{CLASSES[name]}", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

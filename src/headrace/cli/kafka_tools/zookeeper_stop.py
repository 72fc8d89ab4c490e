"""zookeeper-server-stop: sends SIGTERM to the ZooKeeper servers of this user on this host."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.support import processes


def is_zookeeper(words: list[str]) -> bool:
    return "org.apache.zookeeper.server.quorum.QuorumPeerMain" in words


if __name__ == "__main__":
    sys.exit(processes.stop("zookeeper server", is_zookeeper))

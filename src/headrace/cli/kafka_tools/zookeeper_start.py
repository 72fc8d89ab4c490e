"""zookeeper-server-start: runs a ZooKeeper server from the jars in PySpark, or from $ZOOKEEPER_HOME."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.cli.kafka_tools.support import processes
from headrace.coordination import zookeeper_server

USAGE = "USAGE: zookeeper-server-start.sh [-daemon] zookeeper.properties"


def main(argv: list[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    daemon = processes.take_daemon_flag(words)
    if len(words) != 1:
        print(USAGE, file=sys.stderr)
        return 1
    file = Path(words[0])
    if not file.is_file():
        print(f"there is no file {file}", file=sys.stderr)
        return 1
    try:
        command = zookeeper_server.command(file)
        lock = zookeeper_server.hold_data(file)
    except zookeeper_server.CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    return processes.run(command, background_log="zookeeper.out" if daemon else None, handed_on=(lock,))


if __name__ == "__main__":
    sys.exit(main())

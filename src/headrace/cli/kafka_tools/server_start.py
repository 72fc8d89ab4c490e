"""kafka-server-start: `kafka-server-start.sh [-daemon] FILE [--override key=value]…` runs one broker."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.cli.kafka_tools.support import processes

USAGE = "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*"


def main(argv: list[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    daemon = processes.take_daemon_flag(words)
    if not words or words[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 1
    file, *rest = words
    options: list[str] = []
    while rest:
        if rest[0] != "--override" or len(rest) < 2:
            print(f"{rest[0]!r} is not understood. {USAGE}", file=sys.stderr)
            return 1
        options += ["--set", rest[1]]
        rest = rest[2:]
    command = [str(Path(sys.executable).with_name("headrace")), "start", file, *options]
    return processes.run(command, background_log="kafkaServer.out" if daemon else None)


if __name__ == "__main__":
    sys.exit(main())

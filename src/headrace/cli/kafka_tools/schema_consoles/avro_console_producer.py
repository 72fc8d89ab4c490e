"""kafka-avro-console-producer: writes JSON lines from standard input to a topic, encoded by schemas of a registry."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.schema_consoles.console import produce


def main() -> int:
    return produce("AVRO")


if __name__ == "__main__":
    sys.exit(main())

"""kafka-protobuf-console-consumer: prints records of topics as JSON, decoded by schemas of a registry."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.schema_consoles.console import consume


def main() -> int:
    return consume("PROTOBUF")


if __name__ == "__main__":
    sys.exit(main())

"""kafka-json-schema-console-producer: encodes JSON lines by a schema and writes them to a topic."""

from __future__ import annotations

import sys

from headrace.cli.kafka_tools.schema_consoles.console import produce


def main() -> int:
    return produce("JSON")


if __name__ == "__main__":
    sys.exit(main())

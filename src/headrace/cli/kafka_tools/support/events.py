"""Output of the verifiable tools: one JSON object with a timestamp per line."""

from __future__ import annotations

import time

from headrace.cli.kafka_tools.support.json_files import compact


def emit(name: str, **fields: object) -> None:
    print(compact({"timestamp": int(time.time() * 1000), "name": name, **fields}), flush=True)

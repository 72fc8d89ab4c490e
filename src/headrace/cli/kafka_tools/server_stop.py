"""kafka-server-stop: sends SIGTERM to the brokers of this user on this host."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.cli.kafka_tools.support import processes


def is_broker(words: list[str]) -> bool:
    names = [Path(word).name for word in words]
    return "headrace" in names and names[names.index("headrace") + 1 : names.index("headrace") + 2] == ["start"]


if __name__ == "__main__":
    sys.exit(processes.stop("kafka server", is_broker))

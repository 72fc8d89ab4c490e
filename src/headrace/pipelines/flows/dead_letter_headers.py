"""The headers of a dead letter."""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".dlq"
ERROR_HEADER: Final = "headrace.error"
TOPIC_HEADER: Final = "headrace.topic"
PARTITION_HEADER: Final = "headrace.partition"
OFFSET_HEADER: Final = "headrace.offset"
RETRIES_HEADER: Final = "headrace.retries"

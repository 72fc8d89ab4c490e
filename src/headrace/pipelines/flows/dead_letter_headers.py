"""The headers of a dead letter. They hold what a retry needs to write the original record again."""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".dlq"
ERROR_HEADER: Final = "headrace.error"
TOPIC_HEADER: Final = "headrace.topic"
PARTITION_HEADER: Final = "headrace.partition"
OFFSET_HEADER: Final = "headrace.offset"
RETRIES_HEADER: Final = "headrace.retries"
TIMESTAMP_HEADER: Final = "headrace.timestamp"
# Prefix of the headers of this module. The other headers of a dead letter are those of the original record.
PREFIX: Final = "headrace."
# Mark in the metadata of a column of dead letters.
DEAD_LETTERS: Final = "headrace.dead_letters"

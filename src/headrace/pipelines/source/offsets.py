"""Parses the starting and ending offset options of Spark's Kafka connector, and splits offset ranges.

    startingOffsets             "earliest" | "latest" | {"topic": {"0": 23, "1": -2}}     (-2 earliest, -1 latest)
    startingOffsetsByTimestamp  {"topic": {"0": 1700000000000}}
    startingTimestamp           "1700000000000"
and the same three for `ending…`. If several are given, the timestamp takes precedence, then the timestamps by
partition, then the offsets, as in Spark. Pure: this module does not talk to brokers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from headrace.pipelines.errors import OptionError

TopicPartitionPair = tuple[str, int]
# The format of checkpoints: {"topic": {"0": 12}}.
JsonOffsets = dict[str, dict[str, int]]
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


@dataclass(frozen=True)
class Earliest:
    pass


@dataclass(frozen=True)
class Latest:
    pass


@dataclass(frozen=True)
class Specific:
    """Offsets by partition. -1 is the latest offset, -2 the earliest."""

    offsets: Mapping[TopicPartitionPair, int]
    option: str


@dataclass(frozen=True)
class AtTimestamp:
    """The first record at or after a timestamp: one for all partitions, or one per partition."""

    everywhere_ms: int | None
    by_partition_ms: Mapping[TopicPartitionPair, int]
    or_latest: bool
    option: str


OffsetSpec = Earliest | Latest | Specific | AtTimestamp


def parse_partition_numbers(
    text: str, option: str, example: str = '{"topic":{"0":23,"1":-2}}'
) -> dict[TopicPartitionPair, int]:
    """`{"topic": {"0": 23}}` as pairs. Raises OptionError with the position of the error."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else f"position {error.pos}"
        raise OptionError(f"{option}={text!r}: not JSON at {place} ({error.msg}): write it like {example}") from error
    numbers: dict[TopicPartitionPair, int] = {}
    if not isinstance(parsed, dict):
        raise OptionError(f"{option}={text!r}: must be an object of topics: write it like {example}")
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise OptionError(f"{option}: topic {topic!r} must hold an object of partitions: write it like {example}")
        for partition, number in partitions.items():
            if not partition.isdigit() or isinstance(number, bool) or not isinstance(number, int):
                raise OptionError(f"{option}: {topic!r} holds {partition!r}: {number!r}: write it like {example}")
            numbers[(topic, int(partition))] = number
    return numbers


def parse_assign(text: str) -> list[TopicPartitionPair]:
    """`{"topicA": [0, 1]}` as pairs."""
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(
            f"assign={text!r}: not JSON at position {error.pos} ({error.msg}): write it like {example}"
        ) from error
    if not isinstance(parsed, dict) or not all(
        isinstance(parts, list) and all(isinstance(p, int) and not isinstance(p, bool) and p >= 0 for p in parts)
        for parts in parsed.values()
    ):
        raise OptionError(f"assign={text!r}: must list partitions by topic: write it like {example}")
    return sorted((topic, part) for topic, parts in parsed.items() for part in parts)


def offsets_to_json(offsets: Mapping[TopicPartitionPair, int]) -> JsonOffsets:
    out: JsonOffsets = {}
    for topic, partition in sorted(offsets):
        out.setdefault(topic, {})[str(partition)] = offsets[(topic, partition)]
    return out


def offsets_from_json(given: object) -> dict[TopicPartitionPair, int]:
    """The offsets in a checkpoint or a progress event. Skips entries that start with #, which checkpoints of earlier
    versions have and which are no valid topic names. Raises ValueError or TypeError for offsets of other sources: a
    number, a list, null."""
    if not isinstance(given, Mapping):
        raise TypeError(f"offsets must map topics to partitions, not {given!r}")
    return {
        (topic, int(index)): int(offset)
        for topic, parts in given.items()
        if not topic.startswith("#")
        for index, offset in _partitions_of(topic, parts)
    }


def _partitions_of(topic: str, parts: object) -> Iterable[tuple[str, int]]:
    if not isinstance(parts, dict):
        raise TypeError(f"{topic} must map partitions to offsets, not {parts!r}")
    return parts.items()


def parse_spec(options: Mapping[str, str], side: str, default: OffsetSpec) -> OffsetSpec:
    """The spec of one side ("starting" or "ending") from its three options."""
    or_latest = _strategy(options) == "latest"
    whole = options.get(f"{side}Timestamp")
    if whole is not None:
        return AtTimestamp(_timestamp(f"{side}Timestamp", whole), {}, or_latest, f"{side}Timestamp")
    by_partition = options.get(f"{side}OffsetsByTimestamp")
    if by_partition is not None:
        name = f"{side}OffsetsByTimestamp"
        times = parse_partition_numbers(by_partition, name, '{"topic":{"0":1700000000000}}')
        return AtTimestamp(None, times, or_latest, name)
    text = options.get(f"{side}Offsets")
    if text is None:
        return default
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    if not text.strip().startswith("{"):
        raise OptionError(
            f'{side}Offsets={text!r}: must be "earliest", "latest" or JSON like {{"topic":{{"0":23,"1":-2}}}}'
        )
    return Specific(parse_partition_numbers(text, f"{side}Offsets"), f"{side}Offsets")


def _strategy(options: Mapping[str, str]) -> str:
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f'startingOffsetsByTimestampStrategy={strategy!r}: must be "error" or "latest"')
    return strategy


def _timestamp(option: str, text: str) -> int:
    if not text.strip().isdigit():
        raise OptionError(f"{option}={text!r}: must be milliseconds since 1970, for example 1700000000000")
    return int(text)


def moves_with_retention(spec: OffsetSpec, pair: TopicPartitionPair) -> bool:
    """Whether a later call may resolve the spec to a higher offset because records were deleted."""
    match spec:
        case Earliest() | AtTimestamp():
            return True
        case Specific(given):
            return given.get(pair) == EARLIEST_OFFSET
        case Latest():
            return False


def check_batch_specs(starting: OffsetSpec, ending: OffsetSpec) -> None:
    """Checks the specs of a batch query: it may not start at the latest offset or end at the earliest."""
    if isinstance(starting, Latest):
        raise OptionError(
            'startingOffsets="latest": a batch query would read nothing: use "earliest", JSON or a timestamp'
        )
    if isinstance(ending, Earliest):
        raise OptionError(
            'endingOffsets="earliest": a batch query would read nothing: use "latest", JSON or a timestamp'
        )
    if isinstance(starting, Specific) and LATEST_OFFSET in starting.offsets.values():
        raise OptionError("startingOffsets: -1 (latest) is not allowed in a batch query")
    if isinstance(ending, Specific) and EARLIEST_OFFSET in ending.offsets.values():
        raise OptionError("endingOffsets: -2 (earliest) is not allowed in a batch query")


def check_covers(option: str, given: Iterable[TopicPartitionPair], existing: Iterable[TopicPartitionPair]) -> None:
    """Offsets by partition must name every partition, as in Spark's connector: a missing one is probably a mistake."""
    given, existing = set(given), set(existing)
    if missing := sorted(existing - given):
        raise OptionError(
            f"{option}: say where to stand in every partition; missing: {_list(missing)} (-1 latest, -2 earliest)"
        )
    if surplus := sorted(given - existing):
        raise OptionError(f"{option}: {_list(surplus)} is not among the partitions that are read")


def _list(pairs: list[TopicPartitionPair]) -> str:
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in pairs[:5])
    return shown + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")


@dataclass(frozen=True)
class OffsetRange:
    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)


def split_ranges(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    kept: Collection[TopicPartitionPair] = (),
) -> list[OffsetRange]:
    """Splits large ranges into at least `min_partitions` pieces of at most `max_records` records. An empty range is a
    piece only if its partition is in `kept`.

    The same ranges and options always give the same pieces. The exactly-once sink relies on it when a batch repeats.
    """
    ordered = sorted(ranges, key=lambda r: (r.topic, r.partition))
    pieces = [r for r in ordered if r.size > 0 or (r.topic, r.partition) in kept]
    if max_records:
        pieces = [cut for r in pieces for cut in _cut(r, -(-r.size // max_records))]
    if min_partitions and len(pieces) < min_partitions:
        parts = [1] * len(pieces)
        # Add one cut at a time, always to the range with the longest pieces.
        for _ in range(min_partitions - len(pieces)):
            longest = max(range(len(pieces)), key=lambda i: pieces[i].size / parts[i], default=None)
            if longest is None or pieces[longest].size <= parts[longest]:
                break
            parts[longest] += 1
        pieces = [cut for r, count in zip(pieces, parts, strict=True) for cut in _cut(r, count)]
    return pieces


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    if whole.size == 0:
        return [whole]
    edges = [whole.start + whole.size * i // count for i in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, a, b) for a, b in pairwise(edges) if b > a]


def limit_offsets(
    start: Mapping[TopicPartitionPair, int], latest: Mapping[TopicPartitionPair, int], most: int
) -> dict[TopicPartitionPair, int]:
    """End offsets for at most `most` records in total, shared in proportion to the records of each partition."""
    sizes = {tp: max(end - start.get(tp, end), 0) for tp, end in latest.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(latest)
    ends: dict[TopicPartitionPair, int] = {}
    left = most
    for tp, end in latest.items():
        share = most * sizes[tp] // total
        ends[tp] = min(start.get(tp, end) + share, end)
        left -= min(share, sizes[tp])
    # The rest from rounding goes, one record each, to partitions that have more, so that none starves.
    for tp, end in latest.items():
        if left <= 0:
            break
        if ends[tp] < end:
            ends[tp] += 1
            left -= 1
    return ends

"""Visible batches for every short history of two producers, from every batch on, compacted or not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from headrace.kernel.errors import CorruptBatch
from headrace.records import raw
from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.control import build_end_txn_marker
from headrace.records.visible import AbortedTransactions, visible_batches

# Actions of a producer: a transactional batch with one record, a commit marker, an abort marker.
WRITES, COMMITS, ABORTS = "writes", "commits", "aborts"
PLAIN = (-1, WRITES)
STEPS = [PLAIN, *itertools.product((7, 8), (WRITES, COMMITS, ABORTS))]


def _built(step: tuple[int, str]) -> bytes:
    producer, action = step
    if action is not WRITES:
        # In transactions of version 2 the marker has a higher epoch than the records.
        return build_end_txn_marker(action is COMMITS, 0, producer, 1, 1)
    record = Record(None, b"v", timestamp_ms=1)
    if producer < 0:
        return build_batch([record])
    return build_batch([record], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


BATCHES = {step: _built(step) for step in STEPS}


def placed(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


@dataclass
class History:
    """One batch per offset, and the end of each transaction: (producer, first offset, marker's offset, committed)."""

    batches: list[bytes]
    ended: list[tuple[int, int, int, bool]]
    stable: int
    visible: set[int]


def history(steps: Sequence[tuple[int, str]]) -> History:
    open_: dict[int, list[int]] = {}
    ended, visible = [], set()
    for offset, (producer, action) in enumerate(steps):
        if producer < 0:
            visible.add(offset)
        elif action is WRITES:
            open_.setdefault(producer, []).append(offset)
        elif producer in open_:  # otherwise the marker's transaction wrote nothing here and is on no list
            written = open_.pop(producer)
            ended.append((producer, written[0], offset, action is COMMITS))
            visible |= set(written) if action is COMMITS else set()
    stable = min((written[0] for written in open_.values()), default=len(steps))
    return History([placed(BATCHES[step], at) for at, step in enumerate(steps)], ended, stable, visible)


def listed(found: History, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """The aborted transactions that a broker returns for a fetch from `start`, in the order of the markers."""
    return tuple(
        (producer, first)
        for producer, first, marker, committed in found.ended
        if not committed and marker >= start and first < end
    )


def seen(batches: Sequence[bytes], aborted: Sequence[tuple[int, int]]) -> list[int]:
    return [batch.base_offset for batch in visible_batches(memoryview(b"".join(batches)), aborted)]


def test_every_short_history_from_every_batch_on() -> None:
    for steps in itertools.product(STEPS, repeat=5):
        found = history(steps)
        for start in range(found.stable):
            chunk = found.batches[start : found.stable]
            expected = [offset for offset in range(start, found.stable) if offset in found.visible]
            assert seen(chunk, listed(found, start, found.stable)) == expected, (steps, start)


def test_every_short_history_after_compaction_of_aborted_records() -> None:
    """Compaction may remove any records of aborted transactions; the markers remain."""
    for steps in itertools.product(STEPS, repeat=4):
        found = history(steps)
        hidden = [at for at in range(found.stable) if steps[at][1] is WRITES and at not in found.visible]
        for gone in itertools.chain.from_iterable(itertools.combinations(hidden, n) for n in range(1, len(hidden) + 1)):
            for start in range(found.stable):
                chunk = [found.batches[at] for at in range(start, found.stable) if at not in gone]
                expected = [offset for offset in range(start, found.stable) if offset in found.visible]
                assert seen(chunk, listed(found, start, found.stable)) == expected, (steps, gone, start)


def test_every_split_of_a_history_into_chunks() -> None:
    """A chunk ends anywhere. The next one has its own list, which may repeat transactions of the previous list."""
    steps = [
        (7, WRITES), (8, WRITES), (7, ABORTS), (7, WRITES), (-1, WRITES), (8, WRITES), (7, COMMITS), (8, ABORTS),
        (8, ABORTS), (8, WRITES), (7, WRITES), (7, ABORTS), (8, COMMITS), (7, WRITES), (7, COMMITS),
    ]  # fmt: skip
    found = history(steps)
    for cuts in itertools.combinations(range(1, len(steps)), 3):
        edges = [0, *cuts, len(steps)]
        read: list[int] = []
        for start, end in itertools.pairwise(edges):
            chunk = found.batches[start:end]
            part = seen(chunk, listed(found, start, end))
            # Some brokers list all transactions that begin below the last stable offset.
            assert seen(chunk, listed(found, start, found.stable)) == part, cuts
            read += part
        assert read == sorted(found.visible), cuts


def test_the_order_of_the_list_does_not_matter() -> None:
    steps = [(7, WRITES), (7, ABORTS), (8, WRITES), (7, WRITES), (8, ABORTS), (7, ABORTS), (8, WRITES), (8, COMMITS)]
    found = history(steps)
    for aborted in itertools.permutations(listed(found, 0, len(steps))):
        assert seen(found.batches, aborted) == [6]


def test_without_a_list_all_data_batches_are_visible() -> None:
    found = history([(7, WRITES), (7, ABORTS), (-1, WRITES), (8, WRITES)])
    assert seen(found.batches, ()) == [0, 2, 3]


def test_range_includes_every_batch_that_overlaps_it() -> None:
    records = [Record(None, b"v", timestamp_ms=1)] * 3
    chunk = memoryview(b"".join(build_batch(records, base_offset=at) for at in (0, 3, 6)))

    def begins(start: int, end: int) -> list[int]:
        return [batch.base_offset for batch in visible_batches(chunk, (), start, end)]

    assert begins(0, 9) == [0, 3, 6]
    assert begins(2, 4) == [0, 3]
    assert begins(3, 3) == []
    assert begins(5, 7) == [3, 6]


def test_marker_emptied_by_compaction_ends_no_transaction() -> None:
    marker = BatchView(memoryview(BATCHES[(7, ABORTS)]))
    empty = raw.rebuilt(marker, None, (), None)
    aborted = AbortedTransactions([(7, 0)])
    assert aborted.hides(BatchView(memoryview(BATCHES[(7, WRITES)])))
    assert not aborted.hides(BatchView(memoryview(placed(bytes(empty), 1))))
    assert aborted.hides(BatchView(memoryview(placed(BATCHES[(7, WRITES)], 2))))


def test_damaged_batch_raises_an_error() -> None:
    damaged = bytearray(BATCHES[PLAIN])
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match="batch at offset 0: checksum"):
        seen([bytes(damaged)], ())
    with pytest.raises(CorruptBatch, match="reaches past"):
        seen([BATCHES[PLAIN][:-1]], ())

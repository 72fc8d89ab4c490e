"""Which batches a consumer sees: every short history of two producers, from every batch on, compacted or not."""

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

# What a producer does: a batch of one record in its transaction, its commit marker, its abort marker.
WRITES, COMMITS, ABORTS = "writes", "commits", "aborts"
PLAIN = (-1, WRITES)
STEPS = [PLAIN, *itertools.product((7, 8), (WRITES, COMMITS, ABORTS))]


def _built(step: tuple[int, str]) -> bytes:
    producer, action = step
    if action is not WRITES:
        # Version 2 of transactions gives the marker a higher epoch than the records.
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
    """One batch an offset, and how each transaction ended: (producer, first offset, marker's offset, committed)."""

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
        elif producer in open_:  # otherwise a marker of a transaction that wrote nothing here: it is on no list
            written = open_.pop(producer)
            ended.append((producer, written[0], offset, action is COMMITS))
            visible |= set(written) if action is COMMITS else set()
    stable = min((written[0] for written in open_.values()), default=len(steps))
    return History([placed(BATCHES[step], at) for at, step in enumerate(steps)], ended, stable, visible)


def listed(found: History, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """What a broker lists for a fetch from `start`: in the order of the markers."""
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


def test_every_short_history_whose_aborted_records_were_compacted_away() -> None:
    """Any of the records of aborted transactions may be gone; the markers are still there."""
    for steps in itertools.product(STEPS, repeat=4):
        found = history(steps)
        hidden = [at for at in range(found.stable) if steps[at][1] is WRITES and at not in found.visible]
        for gone in itertools.chain.from_iterable(itertools.combinations(hidden, n) for n in range(1, len(hidden) + 1)):
            for start in range(found.stable):
                chunk = [found.batches[at] for at in range(start, found.stable) if at not in gone]
                expected = [offset for offset in range(start, found.stable) if offset in found.visible]
                assert seen(chunk, listed(found, start, found.stable)) == expected, (steps, gone, start)


def test_every_cut_of_a_history_into_chunks() -> None:
    """A chunk ends anywhere, and the next has a list of its own, with transactions that were on the last one again."""
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
            # Some brokers list what begins up to the last stable offset.
            assert seen(chunk, listed(found, start, found.stable)) == part, cuts
            read += part
        assert read == sorted(found.visible), cuts


def test_the_order_of_the_list_does_not_matter() -> None:
    steps = [(7, WRITES), (7, ABORTS), (8, WRITES), (7, WRITES), (8, ABORTS), (7, ABORTS), (8, WRITES), (8, COMMITS)]
    found = history(steps)
    for aborted in itertools.permutations(listed(found, 0, len(steps))):
        assert seen(found.batches, aborted) == [6]


def test_without_a_list_everything_but_control_batches_is_shown() -> None:
    found = history([(7, WRITES), (7, ABORTS), (-1, WRITES), (8, WRITES)])
    assert seen(found.batches, ()) == [0, 2, 3]


def test_a_range_takes_the_batches_that_reach_into_it() -> None:
    records = [Record(None, b"v", timestamp_ms=1)] * 3
    chunk = memoryview(b"".join(build_batch(records, base_offset=at) for at in (0, 3, 6)))

    def begins(start: int, end: int) -> list[int]:
        return [batch.base_offset for batch in visible_batches(chunk, (), start, end)]

    assert begins(0, 9) == [0, 3, 6]
    assert begins(2, 4) == [0, 3]
    assert begins(3, 3) == []
    assert begins(5, 7) == [3, 6]


def test_a_marker_emptied_by_compaction_ends_nothing() -> None:
    marker = BatchView(memoryview(BATCHES[(7, ABORTS)]))
    empty = raw.rebuilt(marker, None, (), None)
    aborted = AbortedTransactions([(7, 0)])
    assert aborted.hides(BatchView(memoryview(BATCHES[(7, WRITES)])))
    assert not aborted.hides(BatchView(memoryview(placed(bytes(empty), 1))))
    assert aborted.hides(BatchView(memoryview(placed(BATCHES[(7, WRITES)], 2))))


def test_a_damaged_batch_is_not_passed_over() -> None:
    damaged = bytearray(BATCHES[PLAIN])
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match="batch at offset 0: checksum"):
        seen([bytes(damaged)], ())
    with pytest.raises(CorruptBatch, match="reaches past"):
        seen([BATCHES[PLAIN][:-1]], ())

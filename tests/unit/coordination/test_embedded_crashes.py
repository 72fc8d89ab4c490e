"""The embedded store after crashes: every acknowledged write is there, every torn write is not."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import Create, NodeExists, Set, StoreFailed


def filled(directory: Path, *, writes: int = 20, snapshot_after_bytes: int = 1 << 20, killed: bool = False) -> None:
    """`killed`: the files as a killed process leaves them, without the mark of a clean close."""

    async def fill() -> None:
        store = EmbeddedStore(directory, snapshot_after_bytes=snapshot_after_bytes)
        await store.create("/n", b"0")
        for number in range(1, writes + 1):
            await store.multi([Set("/n", str(number).encode()), Create(f"/n/{number}", b"x" * number)])
        await store.close()

    asyncio.run(fill())
    if killed:
        (directory / "closed").unlink()


def last_number(directory: Path) -> int:
    """Opens the store, checks that it is some prefix of the writes, and says which."""

    async def look() -> int:
        store = EmbeddedStore(directory)
        try:
            node = await store.exists("/n")
            if node is None:
                return -1
            number = int(node.data)
            assert sorted(map(int, await store.children("/n"))) == list(range(1, number + 1))
            assert node.version == number
            await store.create("/new", b"")  # it can go on from here
            return number
        finally:
            await store.close()

    return asyncio.run(look())


def with_journal(whole: Path, data: bytes) -> Path:
    """A copy of the store with another journal."""
    copy = whole.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    (copy / "journal").write_bytes(data)
    return copy


def test_after_a_kill_a_journal_cut_at_any_byte_gives_the_writes_before_the_cut(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    filled(whole, killed=True)
    data = (whole / "journal").read_bytes()
    seen = [last_number(with_journal(whole, data[:length])) for length in range(8, len(data) + 1, 7)]
    assert seen == sorted(seen)
    assert set(seen) >= set(range(20))


@pytest.mark.parametrize(
    "tail", [bytes(7), bytes(8), bytes(4096), b"\xff" * 100, os.urandom(3000)], ids=lambda tail: f"{len(tail)} bytes"
)
def test_after_a_kill_a_tail_of_zeros_or_garbage_is_truncated(tmp_path: Path, tail: bytes) -> None:
    whole = tmp_path / "whole"
    filled(whole, killed=True)
    data = (whole / "journal").read_bytes()
    assert last_number(with_journal(whole, data + tail)) == 20


def test_after_a_clean_close_a_journal_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    filled(whole)
    data = (whole / "journal").read_bytes()
    for length in range(0, len(data), 7):
        with pytest.raises(StoreFailed, match=r"journal is (damaged at byte|not a journal)"):
            EmbeddedStore(with_journal(whole, data[:length]))
    assert last_number(with_journal(whole, data)) == 20


def test_a_flipped_byte_is_refused_and_the_file_left_as_it_is(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    filled(whole)
    data = (whole / "journal").read_bytes()
    for position in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        bad = with_journal(whole, bytes(damaged))
        with pytest.raises(StoreFailed, match=r"journal is (damaged at byte|not a journal)"):
            EmbeddedStore(bad)
        assert (bad / "journal").read_bytes() == damaged


def test_after_a_kill_a_flipped_byte_before_the_last_entry_is_refused(tmp_path: Path) -> None:
    """In the last entry it looks like the torn write of a crash, which was never acknowledged."""
    whole, shorter = tmp_path / "whole", tmp_path / "shorter"
    filled(whole, killed=True)
    filled(shorter, writes=19, killed=True)
    data = (whole / "journal").read_bytes()
    last_entry_at = (shorter / "journal").stat().st_size
    assert data[:last_entry_at] == (shorter / "journal").read_bytes()
    for position in range(8, len(data), 5):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        bad = with_journal(whole, bytes(damaged))
        if position >= last_entry_at:
            assert last_number(bad) == 19
            continue
        with pytest.raises(StoreFailed, match="journal is damaged at byte"):
            EmbeddedStore(bad)


@pytest.mark.parametrize("killed", [False, True])
def test_a_missing_journal_is_refused(tmp_path: Path, killed: bool) -> None:
    filled(tmp_path / "s", snapshot_after_bytes=1, killed=killed)
    (tmp_path / "s" / "journal").unlink()
    with pytest.raises(StoreFailed, match="journal is missing"):
        EmbeddedStore(tmp_path / "s")


def test_writes_of_one_fsync_are_torn_together(tmp_path: Path) -> None:
    """A disk may write the later pages of a round before the earlier ones: then none of the round has happened."""

    async def use() -> None:
        store = EmbeddedStore(tmp_path / "s")
        for number in range(8):
            await store.create(f"/{number}", b"")
        before = (tmp_path / "s" / "journal").stat().st_size
        await asyncio.gather(*(store.create(f"/{i}/child", bytes(3000)) for i in range(8)))
        # Not closed: this is what a power cut leaves.
        data = bytearray((tmp_path / "s" / "journal").read_bytes())
        data[before : before + 4096] = bytes(4096)
        torn = with_journal(tmp_path / "s", bytes(data))
        await store.close()
        found = EmbeddedStore(torn)
        assert [await found.children(f"/{number}") for number in range(8)] == [[]] * 8
        await found.close()

    asyncio.run(use())


def test_a_crash_between_snapshot_and_emptying_the_journal_changes_nothing(tmp_path: Path) -> None:
    early = tmp_path / "early"
    filled(early, writes=10)
    old_journal = (early / "journal").read_bytes()
    folded = tmp_path / "folded"
    filled(folded, writes=10, snapshot_after_bytes=1)
    assert (folded / "snapshot").exists()
    (folded / "journal").write_bytes(old_journal)
    assert last_number(folded) == 10


def test_a_folded_journal_is_small_and_complete(tmp_path: Path) -> None:
    filled(tmp_path / "s", writes=200, snapshot_after_bytes=2000)
    assert (tmp_path / "s" / "journal").stat().st_size < 20_000
    assert last_number(tmp_path / "s") == 200


def test_a_damaged_snapshot_is_refused_by_name(tmp_path: Path) -> None:
    filled(tmp_path / "s", snapshot_after_bytes=1)
    data = bytearray((tmp_path / "s" / "snapshot").read_bytes())
    data[40] ^= 1
    (tmp_path / "s" / "snapshot").write_bytes(data)
    with pytest.raises(StoreFailed, match="snapshot is damaged"):
        EmbeddedStore(tmp_path / "s")


def test_a_second_opening_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    async def use() -> None:
        store = EmbeddedStore(tmp_path / "s")
        with pytest.raises(StoreFailed, match=f"in use by process {os.getpid()}"):
            EmbeddedStore(tmp_path / "s")
        await store.close()

    asyncio.run(use())


def test_writes_that_race_for_one_name_have_one_winner(tmp_path: Path) -> None:
    async def use() -> None:
        store = EmbeddedStore(tmp_path / "s")
        results = await asyncio.gather(
            *(store.create("/controller", str(i).encode()) for i in range(10)), return_exceptions=True
        )
        assert [type(result) for result in results].count(NodeExists) == 9
        await asyncio.gather(*(store.create(f"/many{i}", b"") for i in range(50)))
        assert len(await store.children("/")) == 51
        await store.close()
        with pytest.raises(StoreFailed, match="closed"):
            await store.create("/late", b"")

    asyncio.run(use())

"""The embedded store through crashes: whatever was answered is there, whatever was torn is not."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.store import Create, NodeExists, Set, StoreFailed


def filled(directory: Path, *, writes: int = 20, snapshot_after_bytes: int = 1 << 20) -> None:
    async def fill() -> None:
        store = EmbeddedStore(directory, snapshot_after_bytes=snapshot_after_bytes)
        await store.create("/n", b"0")
        for number in range(1, writes + 1):
            await store.multi([Set("/n", str(number).encode()), Create(f"/n/{number}", b"x" * number)])
        await store.close()

    asyncio.run(fill())


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


def test_a_journal_cut_at_any_byte_gives_the_writes_before_the_cut(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    filled(whole)
    size = (whole / "journal").stat().st_size
    seen = []
    for length in range(0, size + 1, 7):
        cut = tmp_path / "cut"
        shutil.copytree(whole, cut)
        os.truncate(cut / "journal", length)
        seen.append(last_number(cut))
        shutil.rmtree(cut)
    assert seen == sorted(seen)
    assert set(seen) >= set(range(20))


def test_a_flipped_byte_ends_the_journal_there(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    filled(whole)
    data = (whole / "journal").read_bytes()
    for position in range(8, len(data), 13):
        bad = tmp_path / "bad"
        shutil.copytree(whole, bad)
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        (bad / "journal").write_bytes(damaged)
        assert last_number(bad) < 20
        shutil.rmtree(bad)


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

"""A checkpoint after a query that ended at its start."""

from __future__ import annotations

from pathlib import Path

from headrace.pipelines.flows.checkpoint import Checkpoint


def test_temporary_files_of_the_first_batch_are_removed_and_no_others(tmp_path: Path) -> None:
    checkpoint, offsets = Checkpoint(tmp_path), tmp_path / "offsets"
    checkpoint.remove_unfinished_start()
    offsets.mkdir()
    for name in (".0.4cd7ea92.tmp", "..0.4cd7ea92.tmp.crc"):
        (offsets / name).write_text("v1")
    checkpoint.remove_unfinished_start()
    assert list(offsets.iterdir()) == []
    for name in ("0", ".0.crc", ".1.4cd7ea92.tmp"):
        (offsets / name).write_text("v1")
    checkpoint.remove_unfinished_start()
    assert sorted(file.name for file in offsets.iterdir()) == [".0.crc", ".1.4cd7ea92.tmp", "0"]

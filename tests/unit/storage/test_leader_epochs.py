"""End offsets of leader epochs, with which followers find where to truncate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.storage.dirs.checkpoints import read_epochs
from headrace.storage.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs(tmp_path / "leader-epoch-checkpoint")
    for epoch, start in ((2, 5), (4, 20), (7, 60)):
        epochs.assign(epoch, start)
    epochs.save_if_changed()
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, 100)),
        (5, (4, 60)),
        (4, (4, 60)),
        (3, (2, 20)),
        (2, (2, 20)),
        (1, (1, 5)),
        (0, (0, 5)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(asked, 100) == answer


def test_log_without_epochs_returns_an_undefined_end_offset(tmp_path: Path) -> None:
    assert LeaderEpochs(tmp_path / "none").end_offset_for(0, 9) == (-1, -1)


def test_assigned_epochs_survive_a_restart(epochs: LeaderEpochs) -> None:
    again = LeaderEpochs(epochs.path)
    assert again.load() and again.entries == [(2, 5), (4, 20), (7, 60)]
    assert epochs.path.read_text() == "0\n3\n2 5\n4 20\n7 60\n"


def test_later_epoch_at_an_earlier_offset_replaces_contradicting_entries(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 20)
    assert epochs.entries == [(2, 5), (9, 20)]
    epochs.assign(8, 90)
    assert epochs.entries == [(2, 5), (9, 20)], "an older epoch does not come back"


def test_truncation_removes_epochs(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(60)
    assert (epochs.entries, epochs.latest) == ([(2, 5), (4, 20)], 4)
    epochs.truncate_from_start(30)
    assert epochs.entries == [(4, 30)]
    assert epochs.epoch_of(30) == 4 and epochs.epoch_of(29) == -1


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"0\n2\n1 5\n", b"1\n0\n", b"0\n1\nx y\n", b"0\n2\n3 5\n2 9\n", b"\xff\xfe"]
)
def test_damaged_epoch_file_is_detected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(content)
    assert LeaderEpochs(path).load() is False


def test_only_truncation_at_the_end_syncs_the_epoch_file(epochs: LeaderEpochs, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a broker fails, hundreds of partitions begin an epoch at once on the event loop of each other broker; topics
    that were created together lose their oldest segments together."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    before = epochs.path.read_text()
    epochs.assign(9, 80)
    epochs.assign(11, 90)
    assert epochs.path.read_text() == before and epochs.is_due(100)
    epochs.save_if_changed()
    epochs.truncate_from_start(70)
    assert not synced and epochs.path.read_text() == "0\n3\n7 70\n9 80\n11 90\n"
    epochs.truncate_from_end(90)
    assert len(synced) == 2, "the file and its directory"


def test_epoch_without_records_is_not_due(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 100)
    assert epochs.unsaved and not epochs.is_due(100)
    epochs.truncate_from_end(100)
    epochs.assign(10, 80)
    epochs.assign(11, 100)
    assert epochs.is_due(100), "the tenth has records"


def test_recovery_that_finds_the_same_epochs_writes_no_file(
    epochs: LeaderEpochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash every log is checked. Hundreds of unchanged files must not be written again."""
    again = LeaderEpochs(epochs.path)
    assert again.load()
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("a file was opened"))
    again.forget_from(20)
    for epoch, start in ((4, 20), (7, 60)):
        again.note(epoch, start)
    again.save_if_changed()
    assert not again.unsaved and again.entries == epochs.entries
    monkeypatch.undo()
    again.forget_from(60)
    again.save_if_changed()
    assert epochs.path.read_text() == "0\n2\n2 5\n4 20\n"


def test_an_epoch_is_written_when_it_has_records_and_not_before(tmp_path: Path) -> None:
    """The next start would remove an epoch without records from the file, and sync the file of each partition."""
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = LeaderEpochs(path)
    epochs.assign(0, 0)
    assert not epochs.is_due(0)
    assert epochs.is_due(4)
    epochs.assign(1, 4)
    epochs.save_with_records(4)
    assert read_epochs(path) == [(0, 0)]
    assert not epochs.is_due(4)
    assert not epochs.is_due(4)
    assert epochs.is_due(5)
    epochs.save_with_records(5)
    assert read_epochs(path) == [(0, 0), (1, 4)]
    assert not epochs.is_due(6)
    assert epochs.entries == [(0, 0), (1, 4)]


def test_a_change_at_the_same_log_end_is_due(tmp_path: Path) -> None:
    epochs = LeaderEpochs(tmp_path / "leader-epoch-checkpoint")
    epochs.assign(0, 0)
    epochs.save_with_records(9)
    epochs.assign(1, 9)
    assert not epochs.is_due(9)
    epochs.truncate_from_end(5)
    epochs.assign(2, 5)
    assert epochs.is_due(9)

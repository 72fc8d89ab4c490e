"""Where epochs ended: the answers by which followers find what to cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


def test_a_log_without_epochs_can_tell_nothing(tmp_path: Path) -> None:
    assert LeaderEpochs(tmp_path / "none").end_offset_for(0, 9) == (-1, -1)


def test_what_is_assigned_survives_a_restart(epochs: LeaderEpochs) -> None:
    again = LeaderEpochs(epochs.path)
    assert again.load() and again.entries == [(2, 5), (4, 20), (7, 60)]
    assert epochs.path.read_text() == "0\n3\n2 5\n4 20\n7 60\n"


def test_a_later_epoch_at_an_earlier_offset_replaces_what_contradicts_it(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 20)
    assert epochs.entries == [(2, 5), (9, 20)]
    epochs.assign(8, 90)
    assert epochs.entries == [(2, 5), (9, 20)], "an older epoch does not come back"


def test_cuts_follow_the_log(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(60)
    assert (epochs.entries, epochs.latest) == ([(2, 5), (4, 20)], 4)
    epochs.truncate_from_start(30)
    assert epochs.entries == [(4, 30)]
    assert epochs.epoch_of(30) == 4 and epochs.epoch_of(29) == -1


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"0\n2\n1 5\n", b"1\n0\n", b"0\n1\nx y\n", b"0\n2\n3 5\n2 9\n", b"\xff\xfe"]
)
def test_a_damaged_file_is_noticed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(content)
    assert LeaderEpochs(path).load() is False


def test_only_what_was_cut_at_the_end_waits_for_the_disk(epochs: LeaderEpochs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that dies begins an epoch in hundreds of partitions at once, on the event loop of each survivor; topics
    that were made together lose their oldest segments together."""
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


def test_an_epoch_without_a_record_can_wait(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 100)
    assert epochs.unsaved and not epochs.is_due(100)
    epochs.truncate_from_end(100)
    epochs.assign(10, 80)
    epochs.assign(11, 100)
    assert epochs.is_due(100), "the tenth has records"


def test_a_check_that_finds_every_epoch_again_writes_nothing(
    epochs: LeaderEpochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash every log is checked; hundreds of files that say the same would be written again."""
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

"""A start compares its logs with its assigned partitions, checkpoints and last registration."""

from __future__ import annotations

import errno
import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import uuid_to_text
from headrace.replication.losses_at_start import LossesAtStart, losses_at_start
from headrace.storage.dirs import incomplete_logs
from headrace.storage.dirs.identity import read_identity, write_identity
from headrace.storage.dirs.lazy_logs import LazyLogs
from headrace.storage.dirs.log_dir import CLEAN_SHUTDOWN_FILE, LogDir
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log
from headrace.testing import full_disk
from tests.support.killed_creations import killed_at
from tests.support.logs import a_batch, append, open_dirs, read_all

OWN, OTHER = 0, 1
EPOCH = 5
GONE = ("AAAAAAAAAAAAAAAAAAAAAQ", "/gone")
Open = Callable[..., LogDirs]


def topic_id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def lost(*missing: str, incomplete: tuple[str, ...] = (), is_offline: bool = False) -> ReplicaLosses:
    """By topics, all with one partition."""
    return ReplicaLosses(
        frozenset((topic_id(name), 0) for name in missing),
        frozenset((topic_id(name), 0) for name in incomplete),
        is_offline,
    )


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    kept: list[LogDirs] = []

    def open_named(*names: str) -> LogDirs:
        kept.append(open_dirs(*(tmp_path / name for name in names)))
        return kept[-1]

    yield open_named
    for dirs in kept:
        dirs.close()


def image(**replicas: tuple[int, ...]) -> ClusterImage:
    """One partition per topic. All its replicas are in sync."""
    return image_of(**{name: PartitionInfo(held[0], 0, 0, held, held) for name, held in replicas.items()})


def image_of(**partitions: PartitionInfo) -> ClusterImage:
    topics = {name: TopicInfo(name, topic_id(name), (info,)) for name, info in partitions.items()}
    return ClusterImage(version=1, topics=topics)


def registered(
    *directories: tuple[str, str], losses: ReplicaLosses = NO_LOSSES, missing_since: tuple[tuple[str, int], ...] = ()
) -> BrokerInfo:
    return BrokerInfo(OWN, EPOCH, (), directories=directories, losses=losses, missing_since=missing_since)


def create(dirs: LogDirs, *names: str) -> None:
    for name in names:
        log = dirs.create(name, 0, topic_id(name))
        append(log, a_batch(3))
        log.advance_high_watermark(log.log_end_offset)


def names_of(dirs: LogDirs) -> tuple[tuple[str, str], ...]:
    found = []
    for one in dirs.directories:
        assert one.identity is not None and one.identity.directory_id is not None
        found.append((uuid_to_text(one.identity.directory_id), str(one.path)))
    return tuple(found)


def stopped(tmp_path: Path, *names: str, epoch: int = EPOCH, clean: bool = True) -> None:
    """A directory `a` with a log of three records for each name, after a stop."""
    dirs = open_dirs(tmp_path / "a")
    create(dirs, *names)
    dirs.checkpoint()
    dirs.close(broker_epoch=epoch, clean=clean)


def compare(dirs: LogDirs, now: ClusterImage, before: BrokerInfo | None = None) -> LossesAtStart:
    return losses_at_start(dirs, now, OWN, before)


# Directories


def test_all_directories_are_there(opened: Open) -> None:
    dirs = opened("a", "b")
    for before in (None, registered(), registered(names_of(dirs)[1]), registered(*names_of(dirs))):
        compared = compare(dirs, image(new=(OWN,)), before)
        assert compared == LossesAtStart(names_of(dirs), (), compared.lost, ()) and not compared.lost.losses()


def test_partitions_without_a_log_are_lost_with_their_directory(opened: Open) -> None:
    dirs = opened("a")
    create(dirs, "here")
    now = image(here=(OWN,), alone=(OWN,), shared=(OWN, OTHER), elsewhere=(1, 2))
    compared = compare(dirs, now, registered(*names_of(dirs), GONE))
    assert compared.lost.losses() == lost("alone", "shared")
    assert compared.directories == (*names_of(dirs), GONE), "the next start must miss it, too"
    (problem,) = compared.problems
    assert problem.startswith(
        "the logs of 2 partitions (alone-0, shared-0) are missing: their log directory /gone is missing: mount its "
        "disk, or name it in log.dirs, and start again"
    )


def test_the_other_directories_name_a_missing_one(opened: Open, tmp_path: Path) -> None:
    """Also if the last registration does not: a controller of an earlier release forgot it."""
    both = open_dirs(tmp_path / "a", tmp_path / "b")
    names = names_of(both)
    both.finish_start(names)
    both.close()
    dirs = opened("a")
    assert compare(dirs, image(alone=(OWN,)), registered()).lost.losses() == lost("alone")
    dirs.finish_start(names[:1])
    assert not compare(dirs, image(alone=(OWN,)), registered()).lost.losses()


def test_a_first_start_on_full_disks_keeps_serving(opened: Open, tmp_path: Path) -> None:
    """The release before wrote no names. Now there is no room for them."""
    stopped(tmp_path, "here")
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    full_disk.fill(tmp_path)
    try:
        dirs.finish_start(names_of(dirs))
    finally:
        full_disk.make_room(tmp_path)
    assert dirs.offline == [] and len(read_all(dirs.create("here", 0))) == 3
    dirs.close()
    again = opened("a", "b")
    again.finish_start(names_of(again))
    identity = read_identity(tmp_path / "a")
    assert identity is not None and identity.directories == names_of(again)


def test_a_disk_that_fails_while_it_gets_the_names_is_no_old_copy_later(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker registers with the directory, because it was there when the start compared the logs."""
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(LogDir, "name_directories", fails)
        names = names_of(dirs)
        dirs.finish_start(names)
    assert len(dirs.offline) == 2
    dirs.close(clean=False)
    since = BrokerInfo(OWN, EPOCH, (), directories=names)
    assert not compare(opened("a", "b"), image(shared=(OWN, OTHER)), since).lost.losses()


def test_a_full_disk_that_names_a_directory_which_was_given_up(opened: Open, tmp_path: Path) -> None:
    """Otherwise a new topic of this start would be missed with it after a crash."""
    both = open_dirs(tmp_path / "a", tmp_path / "b")
    both.finish_start(names_of(both))
    both.close()
    dirs = open_dirs(tmp_path / "a", lazy_logs=LazyLogs())
    full_disk.fill(tmp_path)
    try:
        dirs.finish_start(names_of(dirs))
    finally:
        full_disk.make_room(tmp_path)
    dirs.create("new", 0, topic_id("new"))
    dirs.close(clean=False)
    assert not compare(opened("a"), image(new=(OWN,)), registered()).lost.losses()


def test_directory_without_a_needed_log_is_forgotten(opened: Open) -> None:
    dirs = opened("a")
    create(dirs, "here")
    compared = compare(dirs, image(here=(OWN,)), registered(*names_of(dirs), GONE))
    assert compared.directories == names_of(dirs) and not compared.lost.losses()


def test_on_a_new_machine_all_partitions_are_lost(opened: Open) -> None:
    """Its disk may only not be mounted. A partition without another replica begins empty when a person asks for it."""
    compared = compare(opened("a"), image(alone=(OWN,), shared=(OWN, OTHER)), registered(GONE))
    assert compared.lost.losses() == lost("alone", "shared")


def test_another_directory_at_the_same_place(opened: Open, tmp_path: Path) -> None:
    dirs = opened("a")
    under = (GONE[0], str(tmp_path / "a"))
    (problem,) = compare(dirs, image(alone=(OWN,)), registered(*names_of(dirs), under)).problems
    assert f"their log directory {tmp_path / 'a'} had the id {GONE[0]}, and the one there now is another" in problem


def test_offline_directory_counts_without_a_registration(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("no directory")
    compared = compare(opened("a", "b"), image(alone=(OWN,)), None)
    assert compared.lost.losses() == lost("alone", is_offline=True)
    assert "b is offline: " in compared.problems[0] and "remove it from log.dirs" in compared.problems[0]


def test_directory_without_an_id_gets_one_for_good(opened: Open, tmp_path: Path) -> None:
    """Old releases of Kafka, and people, write meta.properties without one."""
    open_dirs(tmp_path / "a").close()
    identity = read_identity(tmp_path / "a")
    assert identity is not None
    write_identity(tmp_path / "a", replace(identity, directory_id=None))
    first = open_dirs(tmp_path / "a")
    names = names_of(first)
    first.close()
    assert names_of(opened("a")) == names


# Single logs


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("replicas", [(OWN,), (OWN, OTHER)])
def test_log_that_a_checkpoint_names_is_missing(
    opened: Open, tmp_path: Path, replicas: tuple[int, ...], clean: bool
) -> None:
    stopped(tmp_path, "here", "removed", clean=clean)
    (tmp_path / "a" / "removed-0").rename(tmp_path / "elsewhere")
    compared = compare(opened("a"), image(here=replicas, removed=replicas, new=replicas), registered())
    assert compared.lost.losses() == lost("removed")
    assert f"{tmp_path / 'a' / 'removed-0'} is gone. Put it back and start again" in compared.problems[0]


def test_log_that_is_still_missing_at_the_next_start(opened: Open) -> None:
    dirs, now = opened("a"), image(removed=(OWN,), new=(OWN,))
    assert compare(dirs, now, registered(losses=lost("removed"))).lost.losses() == lost("removed")
    create(dirs, "removed")
    assert not compare(dirs, now, registered(losses=lost("removed"))).lost.losses()


def test_a_kill_while_a_missing_log_is_replaced_never_leaves_a_complete_one(tmp_path: Path) -> None:
    now, before = image(orders=(OWN, OTHER)), registered(losses=lost("orders"))
    missing, incomplete = lost("orders"), lost(incomplete=("orders",))
    found = []
    for step in range(100):
        directory = tmp_path / str(step)
        was_killed = killed_at(directory, topic_id("orders"), step, why_incomplete="it was missing")
        dirs = open_dirs(directory)
        found.append(compare(dirs, now, before).lost.losses())
        dirs.create("orders", 0, topic_id("orders"), why_incomplete="it was missing")
        assert compare(dirs, now, before).lost.losses() == incomplete, f"created again after step {step}"
        dirs.close()
        if not was_killed:
            break
    else:
        raise AssertionError("the creation has more steps than expected")
    first = found.index(incomplete)
    assert 0 < first < len(found) - 1
    assert found == [missing] * first + [incomplete] * (len(found) - first)


@pytest.mark.parametrize("lazy_logs", [None, LazyLogs()])
def test_a_missing_log_is_not_replaced_without_its_mark(
    opened: Open, tmp_path: Path, lazy_logs: LazyLogs | None
) -> None:
    """The disk was full, and the broker was stopped."""
    now, before = image(gone=(OWN, OTHER)), registered(losses=lost("gone"))
    dirs = open_dirs(tmp_path / "a", lazy_logs=lazy_logs)
    full_disk.fill(tmp_path)
    try:
        with pytest.raises(StorageFault, match="No space"):
            dirs.create("gone", 0, topic_id("gone"), why_incomplete="it was missing")
    finally:
        full_disk.make_room(tmp_path)
    dirs.close()
    again = opened("a")
    assert compare(again, now, before).lost.losses() == lost("gone")
    log = again.create("gone", 0, topic_id("gone"), why_incomplete="it was missing")
    assert compare(again, now, before).lost.losses() == lost(incomplete=("gone",))
    again.has_all_records(log)
    assert not compare(again, now, before).lost.losses()


def test_a_deleted_log_takes_its_mark_along(opened: Open) -> None:
    dirs, now = opened("a"), image(gone=(OWN, OTHER))
    dirs.create("gone", 0, topic_id("gone"), why_incomplete="it was missing")
    assert compare(dirs, now).lost.losses()
    dirs.delete("gone", 0)
    dirs.create("gone", 0, topic_id("gone"))
    assert not compare(dirs, now).lost.losses()


def test_an_empty_log_that_returns_with_its_disk_is_complete(opened: Open, tmp_path: Path) -> None:
    """Nothing was written to it, or retention has deleted all of it."""
    dirs = open_dirs(tmp_path / "a")
    dirs.create("never", 0, topic_id("never")).make_files()
    expired = dirs.create("expired", 0, topic_id("expired"))
    append(expired, a_batch(3))
    expired.advance_high_watermark(3)
    expired.advance_log_start(3)
    dirs.close(broker_epoch=EPOCH)
    before = registered(losses=lost("never", "expired"))
    assert not compare(opened("a"), image(never=(OWN, OTHER), expired=(OWN, OTHER)), before).lost.losses()


def test_log_of_an_older_topic_is_no_log(opened: Open, tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path / "a")
    log = dirs.create("again", 0, uuid.uuid4())
    append(log, a_batch(3))
    log.flush()
    dirs.close()
    dirs = opened("a")
    assert compare(dirs, image(again=(OWN,)), registered(GONE)).lost.losses() == lost("again")
    assert not compare(dirs, image(again=(OWN,)), registered()).lost.losses(), "the checkpoint names the older topic"


def test_a_new_machine_with_the_id_of_an_unregistered_broker(opened: Open) -> None:
    """It would be elected as the last known leader, and the others would remove their records."""
    dirs, both = opened("a"), (OWN, OTHER)
    now = image_of(
        leader=PartitionInfo(-1, 3, 9, (), both, last_known_eligible=(OWN,)),
        eligible=PartitionInfo(-1, 3, 9, (), both, eligible=(OWN,)),
        behind=PartitionInfo(OTHER, 3, 9, (OTHER,), both),
        alone=PartitionInfo(-1, 3, 9, (), (OWN,), last_known_eligible=(OWN,)),
    )
    compared = compare(dirs, now)
    assert compared.lost.losses() == lost("leader", "eligible")
    assert "broker 0 held it and was unregistered. Start it with the disk of that time." in compared.problems[0]


def test_a_deletion_on_a_full_disk_leaves_no_missing_log(opened: Open, tmp_path: Path) -> None:
    """The checkpoints could not be written without the deleted log, and the new topic of its name has no file yet."""
    dirs = open_dirs(tmp_path / "a", lazy_logs=LazyLogs())
    old = dirs.create("again", 0, uuid.uuid4())
    append(old, a_batch(3))
    old.advance_high_watermark(3)
    dirs.checkpoint()
    full_disk.fill(tmp_path)
    try:
        dirs.delete("again", 0)
        dirs.create("again", 0, topic_id("again"))
        dirs.close(clean=False)
    finally:
        full_disk.make_room(tmp_path)
    dirs = opened("a")
    assert dirs.log("again", 0) is None
    assert not compare(dirs, image(again=(OWN,)), registered()).lost.losses()


def test_a_new_topic_in_another_directory_than_the_deleted_one(opened: Open, tmp_path: Path) -> None:
    dirs = open_dirs(tmp_path / "a", tmp_path / "b", lazy_logs=LazyLogs())
    old = dirs.create("again", 0, uuid.uuid4())
    append(old, a_batch(3))
    old.advance_high_watermark(3)
    dirs.create("other", 0, topic_id("other")).make_files()
    dirs.create("another", 0, topic_id("another")).make_files()
    dirs.checkpoint()
    dirs.delete("again", 0)
    dirs.create("third", 0, topic_id("third")).make_files()
    new = dirs.create("again", 0, topic_id("again"))
    assert new.directory.parent != old.directory.parent
    dirs.close(clean=False)
    for deleted in tmp_path.glob("*/*-delete"):
        shutil.rmtree(deleted)
    dirs = opened("a", "b")
    assert dirs.log("again", 0) is None, "its files were not created before the crash"
    assert not compare(dirs, image(again=(OWN,)), registered()).lost.losses()


def test_a_new_topic_while_a_directory_is_missing(opened: Open, tmp_path: Path) -> None:
    """The broker is killed just after the topic was created."""
    dirs = open_dirs(tmp_path / "a", lazy_logs=LazyLogs())
    known = image(alone=(OWN,))
    found = compare(dirs, known, registered(*names_of(dirs), GONE))
    dirs.finish_start(found.directories)
    dirs.create("new", 0, topic_id("new"))
    dirs.close(clean=False)
    after = compare(opened("a"), image(alone=(OWN,), new=(OWN,)), registered(*found.directories))
    assert after.lost.losses() == lost("alone")


def test_a_truncated_log_is_complete_after_a_crash(opened: Open, tmp_path: Path) -> None:
    """A follower removed what its leader does not have, and its broker was killed before the next checkpoint."""
    cuts: list[Callable[[Log], None]] = [
        lambda log: log.truncate_to(4),
        lambda log: log.truncate_fully_and_start_at(2),
    ]
    for cut in cuts:
        dirs = open_dirs(tmp_path / "a")
        log = dirs.create("cut", 0, topic_id("cut"))
        for _ in range(4):
            append(log, a_batch(3))
        dirs.close(broker_epoch=EPOCH)
        dirs = open_dirs(tmp_path / "a")
        log = dirs.create("cut", 0, topic_id("cut"))
        cut(log)
        end = log.log_end_offset
        dirs.close(clean=False)
        dirs = open_dirs(tmp_path / "a")
        assert dirs.create("cut", 0).log_end_offset == end
        assert not compare(dirs, image(cut=(OWN, OTHER)), registered()).lost.losses()
        dirs.delete("cut", 0)
        dirs.close()


def test_log_that_ends_before_its_recovery_point_is_incomplete(opened: Open, tmp_path: Path) -> None:
    stopped(tmp_path, "cut", "whole")
    segment = tmp_path / "a" / "cut-0" / f"{0:020d}.log"
    segment.write_bytes(b"")
    compared = compare(opened("a"), image(cut=(OWN, OTHER), whole=(OWN, OTHER)), registered())
    assert compared.lost.losses() == lost(incomplete=("cut",))
    assert compared.problems[0].startswith(
        f"the logs of 1 partition (cut-0) are incomplete: the checkpoint of {tmp_path / 'a'} names later offsets, so "
        "files were removed, cut or replaced. Another replica must lead"
    )


def test_the_only_replica_serves_what_is_left(opened: Open, tmp_path: Path) -> None:
    stopped(tmp_path, "cut")
    (tmp_path / "a" / "cut-0" / f"{0:020d}.log").write_bytes(b"")
    compared = compare(opened("a"), image(cut=(OWN,)), registered())
    assert not compared.lost.losses()
    assert compared.problems[0].startswith("cut-0 lacks records: ")


# The epoch of the clean stop, and whether the logs count as complete. The broker has registered with EPOCH last.
@pytest.mark.parametrize(("epoch", "is_complete"), [(EPOCH - 1, False), (EPOCH, True), (EPOCH + 1, True), (-1, True)])
def test_directory_that_an_earlier_registration_closed_is_an_old_copy(
    opened: Open, tmp_path: Path, epoch: int, is_complete: bool
) -> None:
    stopped(tmp_path, "shared", "alone", epoch=epoch)
    compared = compare(opened("a"), image(shared=(OWN, OTHER), alone=(OWN,)), registered())
    assert compared.lost.losses() == (NO_LOSSES if is_complete else lost(incomplete=("shared",)))
    assert is_complete == (not compared.problems)


@pytest.mark.parametrize(("copied_at", "is_complete"), [(EPOCH - 3, True), (EPOCH - 4, False)])
def test_directory_that_was_missing_meanwhile(opened: Open, tmp_path: Path, copied_at: int, is_complete: bool) -> None:
    """It was there for the last time in the registration EPOCH - 3. An older one is a backup in its place."""
    stopped(tmp_path, "shared", "alone", epoch=copied_at)
    (tmp_path / "a").rename(tmp_path / "kept")
    shared_and_alone = image(shared=(OWN, OTHER), alone=(OWN,))
    kept = open_dirs(tmp_path / "kept")
    id_text = names_of(kept)[0][0]
    kept.close()
    before = BrokerInfo(OWN, EPOCH - 3, (), directories=((id_text, str(tmp_path / "a")),))
    for epoch in (EPOCH - 2, EPOCH - 1):  # two starts without it
        empty = open_dirs(tmp_path / "empty")
        found = compare(empty, shared_and_alone, before)
        empty.close()
        assert found.missing_since == ((id_text, EPOCH - 3),)
        before = BrokerInfo(
            OWN,
            epoch,
            (),
            None,
            directories=found.directories,
            losses=found.lost.losses(),
            missing_since=found.missing_since,
        )
    (tmp_path / "kept").rename(tmp_path / "a")
    compared = compare(opened("a"), shared_and_alone, before)
    assert compared.lost.losses() == (NO_LOSSES if is_complete else lost(incomplete=("shared",)))
    assert is_complete == (not compared.problems)


def test_a_backup_in_place_of_a_disk_that_failed_is_an_old_copy(opened: Open, tmp_path: Path) -> None:
    """The broker had reported its logs as missing when the disk failed."""
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    failed = registered(losses=lost("shared", is_offline=True))
    assert compare(opened("a"), image(shared=(OWN, OTHER)), failed).lost.losses() == lost(incomplete=("shared",))


def test_directory_that_was_offline_when_the_broker_registered_ids_for_the_first_time(
    opened: Open, tmp_path: Path
) -> None:
    """The release before registered none, so the id of the offline directory was not known."""
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    now = image(shared=(OWN, OTHER))
    (tmp_path / "a").rename(tmp_path / "kept")
    (tmp_path / "a").write_text("no directory")
    dirs = open_dirs(tmp_path / "a", tmp_path / "b")
    found = compare(dirs, now, replace(registered(), epoch=EPOCH - 1))
    assert found.lost.losses() == lost("shared", is_offline=True)
    dirs.finish_start(found.directories)
    dirs.close(broker_epoch=EPOCH)
    (tmp_path / "a").unlink()
    (tmp_path / "kept").rename(tmp_path / "a")
    dirs = opened("a", "b")
    before = registered(*found.directories, losses=found.lost.losses(), missing_since=found.missing_since)
    assert not compare(dirs, now, before).lost.losses(), "no later registration had it"
    another_is_gone = replace(before, directories=(*found.directories, GONE))
    assert compare(dirs, now, another_is_gone).lost.losses() == lost(incomplete=("shared",))


def test_directory_that_returns_after_its_logs_were_fetched_again_elsewhere(opened: Open, tmp_path: Path) -> None:
    """The directory with the newer log is missing now."""
    stopped(tmp_path, "fetched", "missing", epoch=EPOCH - 1)
    dirs = opened("a")
    before = registered(
        *names_of(dirs), GONE, losses=lost("missing"), missing_since=((names_of(dirs)[0][0], EPOCH - 1),)
    )
    now = image(fetched=(OWN, OTHER), missing=(OWN, OTHER))
    assert compare(dirs, now, before).lost.losses() == lost(incomplete=("fetched",))


@pytest.mark.parametrize("replicas", [(OWN,), (OWN, OTHER)])
def test_a_log_that_is_younger_than_an_old_copy_of_its_directory_is_missing(
    opened: Open, tmp_path: Path, replicas: tuple[int, ...]
) -> None:
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    now = image(shared=(OWN, OTHER), younger=replicas)
    for _ in range(2):  # the first one is killed before it has registered
        dirs = open_dirs(tmp_path / "a")
        before = registered(*names_of(dirs))
        found = compare(dirs, now, before)
        assert found.lost.losses() == lost("younger", incomplete=("shared",))
        dirs.finish_start(found.directories, found.old_copies)
        dirs.close(clean=False)
    assert f"{tmp_path / 'a'} is an old copy, and the newer one may have it. Put that one back" in found.problems[0]
    dirs = open_dirs(tmp_path / "a")
    dirs.registered(compare(dirs, now, before).old_copies)
    dirs.close(clean=False)
    after = replace(before, epoch=EPOCH + 1, losses=found.lost.losses())
    found = compare(opened("a"), now, after)
    assert found.lost.losses() == lost("younger", incomplete=("shared",)) and not found.old_copies


def test_a_directory_that_returns_does_not_make_new_partitions_missing(opened: Open, tmp_path: Path) -> None:
    """Its last stop is older than the last registration, which did not have it."""
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    dirs = opened("a", "b")
    a, b = names_of(dirs)
    now = image(shared=(OWN, OTHER), new=(OWN, OTHER))
    missed = registered(a, b, losses=lost("shared"), missing_since=((a[0], EPOCH - 1),))
    for before in (missed, registered(b, losses=lost("shared"))):
        assert not compare(dirs, now, before).lost.losses()


def test_directory_of_a_killed_broker_that_returns_instead_of_the_one_with_the_newer_log(
    opened: Open, tmp_path: Path
) -> None:
    """No mark tells when it was closed. The broker has run without it, and has fetched the log again in GONE."""
    stopped(tmp_path, "shared", clean=False)
    dirs, now = opened("a", "b"), image(shared=(OWN, OTHER))
    a, b = names_of(dirs)
    away, lost_again = ((a[0], EPOCH - 1),), lost("shared")
    for before in (
        registered(b),
        registered(b, losses=lost_again),
        registered(b, a, losses=lost_again, missing_since=away),
        registered(b, a, GONE, losses=lost_again, missing_since=(*away, (GONE[0], EPOCH - 1))),
    ):
        assert not compare(dirs, now, before).lost.losses(), "no newer one can be missing"
    for before in (
        registered(b, GONE),
        registered(b, GONE, losses=lost_again),
        registered(b, GONE, a, losses=lost("another"), missing_since=away),
    ):
        assert compare(dirs, now, before).lost.losses() == lost(incomplete=("shared",))
        incomplete_logs.remove_mark(tmp_path / "a" / "shared-0")
        assert not compare(dirs, now, replace(before, directories=(a, b, GONE), missing_since=())).lost.losses()


def test_logs_that_a_person_copied_into_a_new_directory_are_complete(opened: Open, tmp_path: Path) -> None:
    """In place of the directory GONE. Its checkpoints and its id were not copied."""
    stopped(tmp_path, "shared")
    (tmp_path / "new").mkdir()
    (tmp_path / "a" / "shared-0").rename(tmp_path / "new" / "shared-0")
    dirs = opened("new", "b")
    assert not compare(dirs, image(shared=(OWN, OTHER)), registered(names_of(dirs)[1], GONE)).lost.losses()


def test_an_old_copy_is_known_again_after_a_killed_start(opened: Open, tmp_path: Path) -> None:
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    open_dirs(tmp_path / "a").close(clean=False)
    dirs = open_dirs(tmp_path / "a")
    compared = compare(dirs, image(shared=(OWN, OTHER)), registered())
    assert not dirs.all_clean and compared.lost.losses() == lost(incomplete=("shared",))
    dirs.finish_start(compared.directories)
    dirs.has_all_records(dirs.create("shared", 0))
    dirs.close(clean=False)
    again = compare(opened("a"), image(shared=(OWN, OTHER)), registered())
    assert not again.lost.losses(), "the broker has registered with it since"


def test_a_start_that_does_not_register_does_not_make_an_old_copy_new(opened: Open, tmp_path: Path) -> None:
    stopped(tmp_path, "shared", epoch=EPOCH - 1)
    open_dirs(tmp_path / "a").close()
    assert json.loads((tmp_path / "a" / CLEAN_SHUTDOWN_FILE).read_bytes())["brokerEpoch"] == EPOCH - 1
    assert compare(opened("a"), image(shared=(OWN, OTHER)), registered()).lost.losses()


def test_a_loss_lasts_until_the_replica_was_in_sync(opened: Open, tmp_path: Path) -> None:
    """Whatever the controller has heard. The checkpoints name the present end meanwhile."""
    stopped(tmp_path, "cut")
    (tmp_path / "a" / "cut-0" / f"{0:020d}.log").write_bytes(b"")
    now = image(cut=(OWN, OTHER))
    for _ in range(2):
        dirs = open_dirs(tmp_path / "a")
        assert compare(dirs, now, registered()).lost.losses() == lost(incomplete=("cut",))
        dirs.checkpoint()
        dirs.close(broker_epoch=EPOCH)
    dirs = opened("a")
    log = dirs.log("cut", 0)
    assert log is not None
    dirs.has_all_records(log)
    assert not compare(dirs, now, registered()).lost.losses()
    before = registered(losses=lost(incomplete=("cut",)))
    assert not compare(dirs, now, before).lost.losses(), "it was in sync after that registration"
    behind = image_of(cut=PartitionInfo(OTHER, 3, 9, (OTHER,), (OWN, OTHER)))
    assert compare(dirs, behind, before).lost.losses() == lost(incomplete=("cut",)), "a full disk could take no mark"

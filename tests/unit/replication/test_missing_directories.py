"""A start compares its log directories with those of the last registration."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo, TopicInfo
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.replication.missing_directories import compare_directories
from headrace.storage.dirs.identity import read_identity, write_identity
from headrace.storage.dirs.log_dirs import LogDirs
from tests.support.logs import open_dirs

OWN = 0
GONE = ("AAAAAAAAAAAAAAAAAAAAAQ", "/gone")
Open = Callable[..., LogDirs]


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
    """One partition per topic."""
    topics = {
        name: TopicInfo(name, uuid.uuid4(), (PartitionInfo(held[0], 0, 0, held, held),))
        for name, held in replicas.items()
    }
    return ClusterImage(version=1, topics=topics)


def registered(*directories: tuple[str, str]) -> BrokerInfo:
    return BrokerInfo(OWN, 5, (), directories=directories)


def names_of(dirs: LogDirs) -> tuple[tuple[str, str], ...]:
    found = []
    for one in dirs.directories:
        assert one.identity is not None and one.identity.directory_id is not None
        found.append((uuid_to_text(one.identity.directory_id), str(one.path)))
    return tuple(found)


def test_all_directories_are_there(opened: Open) -> None:
    dirs = opened("a", "b")
    for before in (None, registered(), registered(names_of(dirs)[1]), registered(*names_of(dirs))):
        compared = compare_directories(dirs, image(new=(OWN,)), OWN, before)
        assert compared.to_register == names_of(dirs) and compared.lost.partitions() == []


def test_partitions_without_a_log_are_lost_with_their_directory(opened: Open) -> None:
    dirs = opened("a")
    dirs.create("here", 0)
    now = image(here=(OWN,), alone=(OWN,), shared=(OWN, 1), elsewhere=(1, 2))
    compared = compare_directories(dirs, now, OWN, registered(*names_of(dirs), GONE))
    assert compared.lost.partitions() == [TopicPartition("alone", 0), TopicPartition("shared", 0)]
    assert compared.to_register == (*names_of(dirs), GONE), "the next start must miss it, too"
    assert "logs of 2 partitions (alone-0, shared-0) are missing, and so is their log directory /gone" in (
        compared.lost.reason
    )


def test_directory_without_a_needed_log_is_forgotten(opened: Open) -> None:
    dirs = opened("a")
    dirs.create("here", 0)
    compared = compare_directories(dirs, image(here=(OWN,)), OWN, registered(*names_of(dirs), GONE))
    assert compared.to_register == names_of(dirs) and compared.lost.partitions() == []


def test_on_a_new_machine_only_partitions_with_other_replicas_are_lost(opened: Open) -> None:
    dirs = opened("a")
    compared = compare_directories(dirs, image(alone=(OWN,), shared=(OWN, 1)), OWN, registered(GONE))
    assert compared.lost.partitions() == [TopicPartition("shared", 0)]
    assert compare_directories(dirs, image(alone=(OWN,)), OWN, registered(GONE)).to_register == names_of(dirs)


def test_offline_directory_counts_without_a_registration(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("no directory")
    compared = compare_directories(opened("a", "b"), image(alone=(OWN,)), OWN, None)
    assert compared.lost.partitions() == [TopicPartition("alone", 0)]
    assert "b is offline: " in compared.lost.reason and "remove it from log.dirs" in compared.lost.reason


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

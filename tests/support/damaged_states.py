"""Broker directories and ZooKeeper nodes after mistakes and interruptions.

Each function brings a `Place` into its state. `place.repair` undoes the mistake, if a start needs that.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.coordination import paths
from tests.support.start_states import LONE_ID, TOPIC, Place

META: Final = "meta.properties"
STORE: Final = ".coordination"


def lone(place: Place) -> None:
    place.take("lone")


def member(place: Place) -> None:
    place.take("member")


def moved(place: Place) -> None:
    place.take("moved")


def moved_by_an_earlier_release(place: Place) -> None:
    moved(place)
    _without_home(place.data)


def lone_of_an_earlier_release(place: Place) -> None:
    lone(place)
    _without_home(place.data)
    (place.data / STORE / "closed").unlink()


def half_moved(place: Place) -> None:
    """The move to ZooKeeper was interrupted in the middle of the copy."""
    lone(place)
    _set_home(place, "moving")
    cluster_id = _properties(place.data)["cluster.id"]
    place.ensemble.client.create(
        place.chroot + paths.INCOMING, json.dumps({"id": cluster_id, "broker": LONE_ID}).encode(), makepath=True
    )
    place.ensemble.client.create(f"{place.chroot}{paths.TOPICS}/deleted-meanwhile", b"{}", makepath=True)


def moved_but_not_put_away(place: Place) -> None:
    """The move was interrupted after ZooKeeper had the complete copy."""
    moved(place)
    (place.data / f"{STORE}.moved-to-zookeeper").rename(place.data / STORE)
    _set_home(place, "moving")


def member_with_another_clusters_zookeeper(place: Place) -> None:
    member(place)
    place.copy_nodes("other")
    place.repair = lambda: place.copy_nodes("member")


def lone_with_another_clusters_zookeeper(place: Place) -> None:
    lone(place)
    place.copy_nodes("other")


def two_directories_of_one_broker(place: Place) -> None:
    """The store is in the second directory: an operator added a new disk before it."""
    lone(place)
    place.log_dirs = [place.directory / "new disk", place.data]


def directories_of_two_brokers(place: Place) -> None:
    second = place.directory / "second"
    member(place)
    place.copy_files("member", second)
    _write_properties(second, {**_properties(second), "node.id": "2"})
    _right_with_the_first_only(place, second)


def directories_of_two_clusters(place: Place) -> None:
    member(place)
    _right_with_the_first_only(place, place.copy_files("other", place.directory / "second"))


def directories_of_a_lone_broker_and_a_member(place: Place) -> None:
    """Both directories belong to a broker 0."""
    moved(place)
    second = place.copy_files("lone", place.directory / "second")
    _write_properties(second, {**_properties(second), "cluster.id": "another"})
    shutil.rmtree(second / STORE)
    _right_with_the_first_only(place, second)


def _right_with_the_first_only(place: Place, second: Path) -> None:
    place.log_dirs = [place.data, second]
    place.repair = lambda: place.log_dirs.remove(second)


def lone_without_its_first_directory(place: Place) -> None:
    """log.dirs names only the second of two directories, the one without the store."""
    first = place.copy_files("lone", place.directory / "first")
    place.data.mkdir()
    shutil.copy(first / META, place.data)
    (first / f"{TOPIC}-0").rename(place.data / f"{TOPIC}-0")
    place.repair = lambda: place.log_dirs.insert(0, first)


def lone_without_meta(place: Place) -> None:
    lone(place)
    (place.data / META).unlink()


def member_without_meta(place: Place) -> None:
    member(place)
    (place.data / META).unlink()
    place.repair = lambda: place.restore("member", META)


def moved_without_meta(place: Place) -> None:
    moved(place)
    (place.data / META).unlink()
    place.repair = lambda: place.restore("moved", META)


def damaged_meta(template: str, content: bytes) -> Callable[[Place], None]:
    def build(place: Place) -> None:
        place.take(template)
        (place.data / META).write_bytes(content)
        place.repair = lambda: place.restore(template, META)

    build.__name__ = f"damaged_meta_of_{template}_{len(content)}_bytes"
    return build


def lone_without_store(place: Place) -> None:
    lone(place)
    shutil.rmtree(place.data / STORE)
    place.repair = lambda: place.restore("lone", STORE)


def lone_of_an_earlier_release_without_store(place: Place) -> None:
    lone_without_store(place)
    _without_home(place.data)


def lone_without_meta_and_store(place: Place) -> None:
    lone_without_store(place)
    (place.data / META).unlink()
    place.repair = lambda: place.restore("lone", STORE, META)


def damaged_store(damage: Callable[[Path], object]) -> Callable[[Place], None]:
    def build(place: Place) -> None:
        lone(place)
        damage(place.data / STORE / "journal")
        place.repair = lambda: place.restore("lone", STORE)

    build.__name__ = f"lone_with_damaged_store_{damage.__name__}"
    return build


def flip_a_byte(journal: Path) -> None:
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)


def cut_in_half(journal: Path) -> None:
    os.truncate(journal, journal.stat().st_size // 2)


def emptied_zookeeper(place: Place) -> None:
    member(place)
    place.ensemble.remove(place.chroot)
    place.repair = lambda: place.copy_nodes("member")


def emptied_zookeeper_after_a_move(place: Place) -> None:
    moved(place)
    place.ensemble.remove(place.chroot)
    place.repair = lambda: place.copy_nodes("moved")


def zookeeper_without_cluster_id(place: Place) -> None:
    member(place)
    place.ensemble.remove(place.chroot + paths.CLUSTER_ID)
    place.repair = lambda: place.copy_nodes("member")


def another_chroot(place: Place) -> None:
    """The nodes have not moved, but zookeeper.connect names another chroot."""
    member(place)
    right = place.chroot
    place.chroot += "-mistyped"
    place.repair = lambda: setattr(place, "chroot", right)


def state_in_both_stores(place: Place) -> None:
    """An earlier release was stopped between the copy to ZooKeeper and the renaming of the store."""
    moved(place)
    (place.data / f"{STORE}.moved-to-zookeeper").rename(place.data / STORE)
    _without_home(place.data)


def apache_kafkas_directory(place: Place) -> None:
    lone(place)
    shutil.rmtree(place.data / STORE)
    (place.data / META).write_text("#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=0\n")
    place.repair = lambda: place.restore("lone", STORE, META)


def _properties(directory: Path) -> dict[str, str]:
    """Without the checksum: these states change the file as an operator does by hand."""
    lines = (directory / META).read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    properties.pop("headrace.checksum", None)
    return properties


def _write_properties(directory: Path, properties: dict[str, str]) -> None:
    (directory / META).write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _without_home(directory: Path) -> None:
    kept = {name: value for name, value in _properties(directory).items() if not name.startswith("headrace.")}
    _write_properties(directory, kept)


def _set_home(place: Place, kind: str) -> None:
    home = {"headrace.store": kind, "headrace.zookeeper.connect": place.connect}
    _write_properties(place.data, {**_properties(place.data), **home})

"""What every fault test ends with, and the damages done to files."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.history import check
from tests.cluster.load import Load
from tests.support.cluster import RunningCluster, wait_for

MIN_ACKED = 300


def conclude(cluster: RunningCluster, load: Load, topic: str) -> None:
    anomalies = check(load.finish())
    assert not anomalies, str(anomalies)
    assert not load.failed, load.failed[:5]
    assert load.acked >= MIN_ACKED, f"void: only {load.acked} records were acknowledged"
    same_bytes(cluster, topic)


def same_bytes(cluster: RunningCluster, topic: str) -> None:
    """All replicas hold the same segments, byte for byte."""

    def logs(partition: int) -> list[dict[str, bytes]]:
        found = []
        for broker in cluster.brokers.values():
            directory = broker.data_dir / f"{topic}-{partition}"
            found.append({path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))})
        return found

    for partition in cluster.metadata(topic):
        wait_for(
            lambda partition=partition: len({b"".join(one.values()) for one in logs(partition)}) == 1,
            15,
            f"the same bytes in all replicas of {topic}-{partition}",
        )


def controller_of(cluster: RunningCluster) -> int:
    def known() -> int | None:
        client = cluster.admin()
        found = client.list_topics(timeout=5).controller_id
        return found if found > 0 else None

    return int(wait_for(known, 30, "a controller"))


def cut_newest_segments(data_dir: Path, topic: str) -> None:
    """The last third of each partition's newest segment is gone, in the middle of a batch."""
    cut = 0
    for directory in data_dir.glob(f"{topic}-*"):
        newest = max(directory.glob("*.log"))
        size = newest.stat().st_size
        with newest.open("r+b") as file:
            file.truncate(size * 2 // 3)
        cut += size - newest.stat().st_size
    assert cut > 0, "there was nothing to cut"


def flip_newest_segments(data_dir: Path, topic: str) -> None:
    """One byte in the middle of each partition's newest segment is another one."""
    flipped = 0
    for directory in data_dir.glob(f"{topic}-*"):
        newest = max(directory.glob("*.log"))
        data = bytearray(newest.read_bytes())
        if data:
            data[len(data) // 2] ^= 0x40
            newest.write_bytes(data)
            flipped += 1
    assert flipped > 0, "there was nothing to flip"

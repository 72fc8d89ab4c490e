"""A cluster of 8 hosts with 32 broker processes each and 100,000 partitions, in one process: what each step costs.

    python -m benchmarks.large_cluster [--hosts 8] [--processes 32] [--topics 100] [--partitions 1000]

Times are CPU times. No broker runs. The code of placement, controller, image and store runs on a cluster of that size:
what one process has to hold, load, decide and send. docs/performance.md says which limit comes first.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.cluster import codecs
from headrace.cluster.core.changes import apply
from headrace.cluster.core.image import BrokerInfo, ClusterImage, Endpoint, PartitionInfo, TopicInfo
from headrace.cluster.core.placement import place
from headrace.cluster.loading import load_image
from headrace.config import BrokerConfig
from headrace.controller.core.elections import membership_changed
from headrace.controller.election_policy import ElectionPolicy
from headrace.controller.member import prepare_store
from headrace.coordination import paths
from headrace.coordination.core.tree import Tree
from headrace.coordination.embedded import EmbeddedStore
from headrace.coordination.embedded_files import encode_snapshot, write_store
from headrace.coordination.store import Node, Set
from headrace.coordination.unit.server import StoreServer
from headrace.coordination.unit.store import open_socket_store
from headrace.kernel.ids import new_topic_id

RF = 3
STORE_WRITES = 300


@contextmanager
def timed(what: str) -> Iterator[None]:
    """CPU time: the figures do not depend on what else the machine does."""
    began = time.process_time()
    yield
    print(f"{what}: {(time.process_time() - began) * 1000:,.0f} ms", flush=True)


def resident_megabytes() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def build(hosts: int, processes: int, topics: int, partitions: int) -> ClusterImage:
    ids = range(hosts * processes)
    racks = {broker: f"host-{broker // processes}" for broker in ids}
    brokers = {
        broker: BrokerInfo(
            broker, 100 + broker, (Endpoint("PLAINTEXT", racks[broker], 9092, "PLAINTEXT"),), racks[broker]
        )
        for broker in ids
    }
    with timed(f"placement of {topics} topics with {partitions} partitions on {len(ids)} brokers"):
        placed = [place(list(ids), partitions, RF, racks, start=at * 7, shift=at) for at in range(topics)]
    spread = min(len({racks[broker] for broker in replicas}) for one in placed for replicas in one)
    loads = [0] * len(ids)
    for one in placed:
        for replicas in one:
            loads[replicas[0]] += 1
    print(f"replicas of a partition are on at least {spread} hosts; a process leads {min(loads)} to {max(loads)}")
    before = resident_megabytes()
    found = {}
    for at, one in enumerate(placed):
        infos = tuple(PartitionInfo(replicas[0], 0, 0, replicas, replicas) for replicas in one)
        found[f"topic-{at}"] = TopicInfo(f"topic-{at}", new_topic_id(), infos)
    image = ClusterImage(version=1, brokers=brokers, topics=found)
    print(f"the image: {resident_megabytes() - before:,.0f} MB in each process (replica lists not counted)")
    return image


def tree_of(image: ClusterImage, prepared: Tree) -> Tree:
    number = 1000
    for topic in image.topics.values():
        number += 1
        prepared.add(paths.topic(topic.name), Node(codecs.encode_topic(topic), 0, number))
        prepared.add(paths.topic_partitions(topic.name), Node(b"", 0, number))
        for index, info in enumerate(topic.partitions):
            prepared.add(paths.partition(topic.name, index), Node(b"", 0, number))
            state = codecs.encode_partition_state(info, 1)
            prepared.add(paths.partition_state(topic.name, index), Node(state, 0, number))
    return prepared


async def store_figures(image: ClusterImage, directory: Path) -> None:
    fresh = EmbeddedStore(directory / "fresh")
    await prepare_store(fresh)
    prepared = fresh._tree
    await fresh.close()
    with timed("the nodes of the store, made"):
        tree = tree_of(image, prepared)
    with timed("a snapshot of the store, encoded"):
        snapshot = encode_snapshot(tree, 5000)
    print(f"the snapshot: {len(snapshot) / 1e6:,.1f} MB, {len(tree.nodes):,} nodes")
    write_store(directory / "store", tree, 5000)
    with timed("the store, opened"):
        store = EmbeddedStore(directory / "store")
    with timed("the image, loaded by the process that has the store"):
        await load_image(store)
    server = StoreServer(store)
    session = await open_socket_store(await server.connect(), 60)
    with timed("the image, loaded over a Unix socket (server in the same process)"):
        await load_image(session)
    path = paths.partition_state("topic-0", 0)
    began = time.perf_counter()
    for number in range(STORE_WRITES):
        await session.multi([Set(path, str(number).encode())])
    one_by_one = STORE_WRITES / (time.perf_counter() - began)
    began = time.perf_counter()
    await asyncio.gather(
        *(session.multi([Set(paths.partition_state("topic-1", at % 500), b"x")]) for at in range(STORE_WRITES * 10))
    )
    together = STORE_WRITES * 10 / (time.perf_counter() - began)
    print(f"writes of the store with fsync: {one_by_one:,.0f}/s one by one, {together:,.0f}/s together")
    await session.close()
    await server.close()
    await store.close()


def failover(image: ClusterImage, gone: int, what: str) -> None:
    policy = ElectionPolicy(lambda: BrokerConfig({"min.insync.replicas": "2"}))
    present = {broker: (info, True) for broker, info in image.brokers.items() if broker >= gone}
    began = time.process_time()
    decided = membership_changed(image, present, policy.of(image))
    seconds = time.process_time() - began
    encoded = codecs.encode_changes(decided.changes, 1)
    began_encoding = time.process_time()
    codecs.encode_changes(decided.changes, 1)
    encoding = time.process_time() - began_encoding
    began_applying = time.process_time()
    apply(image, codecs.decode_changes(encoded), image.version + 1)
    applying = time.process_time() - began_applying
    print(
        f"{what} dies: decided in {seconds * 1000:,.0f} ms, {len(decided.changes):,} changes, "
        f"{len(encoded) / 1e6:.2f} MB encoded in {encoding * 1000:,.0f} ms, "
        f"applied in {applying * 1000:,.0f} ms by each process"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.large_cluster", description=__doc__)
    for name, default in (("hosts", 8), ("processes", 32), ("topics", 100), ("partitions", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    image = build(given.hosts, given.processes, given.topics, given.partitions)
    failover(image, 1, "one process")
    failover(image, given.processes, "one host")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-large-") as directory:
        asyncio.run(store_figures(image, Path(directory)))


if __name__ == "__main__":
    main()

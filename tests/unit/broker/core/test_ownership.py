"""Whether a broker may serve directories: cases that no start on real files reaches easily. The rest is in
tests/cluster/test_starts.py."""

from __future__ import annotations

import itertools

import pytest

from headrace.broker.core.ownership import (
    DirectoryFacts,
    EnsembleFacts,
    Owner,
    Step,
    StoreFacts,
    agree,
    check_alone,
    check_ensemble,
)
from headrace.kernel.errors import StorageFault
from headrace.storage.dirs.identity import EMBEDDED, MOVING, ZOOKEEPER, StoreOwner

ZK = StoreOwner(ZOOKEEPER, "2026-01-01T00:00:00Z", "zk:2181/a")
ALONE = StoreOwner(EMBEDDED, "2026-01-01T00:00:00Z")
HALF = StoreOwner(MOVING, "2026-01-01T00:00:00Z", "zk:2181/a")


def refused(message: str, *directories: DirectoryFacts, broker_id: int | None = None) -> None:
    with pytest.raises(StorageFault, match=message):
        check_alone(agree(directories, broker_id))


def test_a_store_may_be_in_a_directory_that_cannot_be_read() -> None:
    offline = DirectoryFacts("/a", offline_reason="Input/output error on /a")
    refused(
        "in none of the log directories that can be read, and /a is offline: Input/output",
        offline,
        DirectoryFacts("/b"),
    )
    refused(r"no log directory can be used \(/a: Input/output error on /a\)", offline)
    store = StoreFacts("/b/.coordination", "C", (0,))
    check_alone(agree([offline, DirectoryFacts("/b", 0, "C", ALONE, logs=3, store=store)], 0))


def test_a_broker_has_one_store() -> None:
    one, other = (
        DirectoryFacts(path, 0, "C", ALONE, store=StoreFacts(f"{path}/s", "C", (0,))) for path in ("/a", "/b")
    )
    refused("/a/s and /b/s both hold a coordination store, and a broker has one", one, other)


@pytest.mark.parametrize(("cluster_id", "broker_ids"), [("D", (0,)), ("C", (1,))])
def test_a_store_that_was_put_into_another_brokers_directory_is_refused(
    cluster_id: str, broker_ids: tuple[int, ...]
) -> None:
    store = StoreFacts("/a/s", cluster_id, broker_ids)
    refused("restore the file or the directory that was replaced", DirectoryFacts("/a", 0, "C", ALONE, store=store))


def test_a_move_recorded_in_some_directories_is_incomplete() -> None:
    """The note is written to one directory after the other."""
    store = StoreFacts("/a/s", "C", (0,))
    for homes in itertools.product((ALONE, HALF, ZK), repeat=2):
        if HALF not in homes:
            continue
        first = DirectoryFacts("/a", 0, "C", homes[0], store=store)
        refused("/a is half moved", first, DirectoryFacts("/b", 0, "C", homes[1]))
        owner = agree([first, DirectoryFacts("/b", 0, "C", homes[1])], 0)
        assert check_ensemble(owner, EnsembleFacts("zk:2181/a")) is Step.MOVE
        assert check_ensemble(owner, EnsembleFacts("zk:2181/a", "C")) is Step.PUT_AWAY
        with pytest.raises(StorageFault, match="finish the move, not with zk:2181/b"):
            check_ensemble(owner, EnsembleFacts("zk:2181/b"))


def owner(home: StoreOwner | None, *, store: bool, logs: int = 3) -> Owner:
    facts = DirectoryFacts("/a", 0, "C", home, logs=logs, store=StoreFacts("/a/s", "C", (0,)) if store else None)
    return agree([facts], None)


def test_an_ensemble_that_another_broker_is_moving_to_is_refused() -> None:
    coming = EnsembleFacts("zk:2181/a", incoming="D", has_nodes=True, has_topics=True)
    for one in (owner(ALONE, store=True), agree([DirectoryFacts("/fresh")], 3)):
        with pytest.raises(StorageFault, match="the state of cluster D is being moved to ZooKeeper at zk:2181/a"):
            check_ensemble(one, coming)


def test_an_ensemble_with_nodes_of_another_program_is_not_empty() -> None:
    with pytest.raises(StorageFault, match=r"nodes of a cluster but no /cluster/id"):
        check_ensemble(owner(ALONE, store=True), EnsembleFacts("zk:2181", has_nodes=True))
    # A new cluster may begin where only empty nodes were left.
    assert check_ensemble(agree([DirectoryFacts("/fresh")], 3), EnsembleFacts("zk:2181", has_nodes=True)) is Step.SERVE


def test_a_directory_that_was_formatted_but_never_used_serves_anywhere() -> None:
    """meta.properties names a cluster, and no log is there."""
    formatted = owner(None, store=False, logs=0)
    check_alone(formatted)
    assert check_ensemble(formatted, EnsembleFacts("zk:2181/a")) is Step.SERVE
    assert check_ensemble(formatted, EnsembleFacts("zk:2181/a", "C")) is Step.SERVE
    with pytest.raises(StorageFault, match="belongs to cluster C, ZooKeeper at zk:2181/a to cluster D"):
        check_ensemble(formatted, EnsembleFacts("zk:2181/a", "D"))

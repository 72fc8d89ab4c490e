"""`topic.transaction`: what a body sent and the offsets that it finished become visible together, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace
from headrace.api import transaction as transaction_module
from headrace.api.cluster import Cluster
from headrace.api.errors import DeliveryFailed
from headrace.api.topic import Topic
from headrace.testing.in_process import RunningBroker, broker
from tests.support.names import unique


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker() as one:
        yield one


@pytest.fixture(scope="module")
def cluster(running: RunningBroker) -> Iterator[Cluster]:
    with headrace.connect(running.bootstrap, settings={"log_level": 0}) as one:
        yield one


@pytest.fixture
def orders(cluster: Cluster) -> Topic[str]:
    topic = cluster.topic(unique("orders"), str)
    topic.send_all(["tea", "coffee", "milk"])
    return topic


@pytest.fixture
def copies(cluster: Cluster) -> Topic[str]:
    name = unique("copies")
    cluster.topics.create(name)
    return cluster.topic(name, str)


def copied(copies: Topic[str]) -> list[str | None]:
    return [record.value for record in copies.records()]


def run(orders: Topic[str], copies: Topic[str], *, fail_at: str = "") -> None:
    with orders.transaction(f"copy-{orders.name}", group=orders.name, idle=0.3) as copying:
        for transaction in copying:
            for record in transaction:
                transaction.send(copies, record.value, key=record.key)
                if record.value == fail_at:
                    raise OSError(f"no {fail_at}")


def test_everything_is_copied_once(orders: Topic[str], copies: Topic[str]) -> None:
    run(orders, copies)
    run(orders, copies)
    assert copied(copies) == ["tea", "coffee", "milk"]


def test_nothing_of_a_body_that_raised_is_visible(orders: Topic[str], copies: Topic[str]) -> None:
    with pytest.raises(OSError, match="no coffee"):
        run(orders, copies, fail_at="coffee")
    assert copied(copies) == []
    run(orders, copies)
    assert copied(copies) == ["tea", "coffee", "milk"]


def test_nothing_of_a_loop_that_was_left_is_visible(orders: Topic[str], copies: Topic[str]) -> None:
    with orders.transaction("left", group=orders.name, idle=0.3) as copying:
        for transaction in copying:
            assert [record.value for record in transaction.records] == ["tea", "coffee", "milk"]
            transaction.send(copies, "half")
            break
    assert copied(copies) == []


def test_a_commit_without_an_answer_is_not_called_aborted(
    cluster: Cluster, copies: Topic[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka goes on with the commit, which may succeed."""
    with cluster.transactions(f"late-{copies.name}") as transactions:
        with pytest.raises(DeliveryFailed, match="may become visible or not"), transactions.begin() as transaction:
            transaction.send(copies, "late")
            monkeypatch.setattr(transaction_module, "_TIMEOUT_S", 0.0)
        monkeypatch.undo()
        with pytest.raises(DeliveryFailed, match="may become visible or not"), transactions.begin():
            pass
    with cluster.transactions(f"late-{copies.name}") as again, again.begin() as transaction:
        transaction.send(copies, "next")
    assert copied(copies) in (["late", "next"], ["next"])


def test_an_id_that_is_used_again_fences_the_first_program(orders: Topic[str], copies: Topic[str]) -> None:
    with (
        pytest.raises(DeliveryFailed, match="the transaction was aborted"),
        orders.transaction(f"copy-{orders.name}", group=orders.name, idle=0.3) as copying,
    ):
        for transaction in copying:
            transaction.send(copies, "from the first")
            with orders.transaction(f"copy-{orders.name}", group=f"{orders.name}-2", idle=0.3):
                pass
    assert copied(copies) == []

"""The shop when requests fail and time passes. Needs a broker in the test process."""

from __future__ import annotations

import pytest
from shop import orders
from shop.model import Order

from headrace.api.cluster import Cluster
from headrace.testing import RunningBroker, assert_records, eventually


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_order_survives_errors_that_pass(
    own_broker: RunningBroker, cluster: Cluster, error: str, times: int
) -> None:
    fault = own_broker.fail("Produce", error=error, times=times)
    orders.take(cluster, Order("1", "ann", 100))
    assert fault.hits == times
    assert_records(own_broker, "orders", [{"id": "1", "customer": "ann", "cents": 100}])


@pytest.mark.parametrize("times", [1, 2])
def test_an_order_is_not_doubled_when_its_answer_is_lost(
    own_broker: RunningBroker, cluster: Cluster, times: int
) -> None:
    own_broker.fail("Produce", drop_answer=True, times=times)
    orders.take(cluster, Order("1", "ann", 100), "exactly-once")
    assert_records(own_broker, "orders", [{"id": "1", "customer": "ann", "cents": 100}])


def test_old_orders_are_deleted(own_broker: RunningBroker, cluster: Cluster) -> None:
    orders.take(cluster, Order("1", "ann", 100))
    own_broker.clock.advance(days=8)
    eventually(lambda: not list(cluster.topic("orders", Order).records()), message="retention")

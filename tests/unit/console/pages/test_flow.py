"""Who writes a topic, as the picture of the flow shows it."""

from __future__ import annotations

from headrace.console.cluster.pipelines import Flow, Report
from headrace.console.cluster.producers import Producer
from headrace.console.core.lineage import Link
from headrace.console.pages.flow import UNKNOWN, links_of_producers, written_rate


def flow(*reports: dict[str, object]) -> Flow:
    return Flow("shop.totals", "shop", "totals", [Report.of(report) for report in reports])


def test_a_topic_that_only_producers_without_an_id_write_has_one_box_for_them() -> None:
    known = Producer("checkout-1", True, "orders", 4.0, 0)
    links = links_of_producers([known], {}, {"orders": 9.0, "clicks": 5.0, "idle": 0.0}, ["orders", "clicks", "idle"])
    assert links == [
        Link(("producer", "checkout-1"), ("topic", "orders"), 4.0),
        Link(("producer", UNKNOWN), ("topic", "clicks"), 5.0),
    ]


def test_the_transactions_of_a_flow_are_the_flow() -> None:
    writing = flow({"target": {"kind": "topic", "name": "totals"}})
    own = [Producer(name, True, "totals", 1.0, 0) for name in ("spark-3", "shop.totals-0", "other")]
    found = links_of_producers(own, {"shop.totals": writing}, {"totals": 30.0}, ["totals"])
    assert [link.source[1] for link in found] == ["other"]


def test_the_rate_of_a_flow_is_that_of_its_last_reports() -> None:
    assert written_rate(flow({"at_ms": 1000, "written_rows": 10}, {"at_ms": 3000, "written_rows": 50})) == 20.0
    assert written_rate(flow({"at_ms": 1000, "written_rows": 10})) is None
    # A new driver counts from zero.
    assert written_rate(flow({"at_ms": 1000, "written_rows": 90}, {"at_ms": 3000, "written_rows": 5})) is None

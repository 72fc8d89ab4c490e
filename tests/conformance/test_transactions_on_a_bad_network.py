"""Requests that arrive late or twice, and lost answers: transactions stay atomic, none is lost, no aborted record
is visible.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import broker
from tests.support.chaos_proxy import ChaosProxy, Fates
from tests.support.effort import rounds
from tests.support.transaction_load import TransactionLoad
from tests.support.transactions import read_all

PRODUCE, END_TXN = 0, 26
PARTITIONS = 2


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(60)


@pytest.mark.needs("kafka")
@pytest.mark.needs("javac")
def test_java_transactions_survive_late_duplicate_and_unanswered_requests() -> None:
    count = rounds(short=120, long=2_000)
    mishaps = {
        PRODUCE: Fates(late=0.05, twice=0.2, unanswered=0.02, longest=0.08),
        END_TXN: Fates(late=0.05, twice=0.4, unanswered=0.05, longest=0.08),
    }
    with (
        ChaosProxy(3, mishaps) as proxy,
        broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as running,
    ):
        proxy.broker_port = running.broker.listeners.bound[0].port
        create(proxy.address)
        load = TransactionLoad("java", proxy.address, "t", PARTITIONS, seed=5)
        load.run_java(lambda: len(load.outcomes) < count, ["retry.backoff.ms=10"])
        assert load.torn(read_all(proxy.address, "t")) == []
        assert proxy.copies and proxy.cut and proxy.late
        assert load.committed > count // 3


def test_classic_transactions_survive_late_and_unanswered_requests() -> None:
    """Without duplicates of EndTxn: that a late one can end the next transaction is the reason for version 2
    (KIP-890).
    """
    count = rounds(short=100, long=2_000)
    mishaps = {
        PRODUCE: Fates(late=0.1, unanswered=0.03, longest=0.05),
        END_TXN: Fates(late=0.1, unanswered=0.05, longest=0.05),
    }
    with (
        ChaosProxy(4, mishaps) as proxy,
        broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as running,
    ):
        proxy.broker_port = running.broker.listeners.bound[0].port
        create(proxy.address)
        load = TransactionLoad("classic", proxy.address, "t", PARTITIONS, seed=6)
        load.run_classic(lambda: len(load.outcomes) < count)
        assert load.torn(read_all(proxy.address, "t")) == []
        assert proxy.cut and proxy.late
        assert load.committed > count // 3

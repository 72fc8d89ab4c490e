"""Brokers for tests. pytest finds the fixtures of `plugin` by itself; docs/testing.md explains them.

    with broker() as running:                        # own thread and event loop, free port, own directory
        Producer({"bootstrap.servers": running.bootstrap})
        running.clock.advance(days=8)
        running.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    with cluster(brokers=3) as running:              # real replication in this process
        running.kill(2)
    with process_cluster(brokers=3) as running:      # three processes, no JVM; from headrace.testing.process_cluster
        running.kill(2)
    with broker_process(data_dir=directory) as running:
        running.kill()                               # SIGKILL: the directory looks as after a crash

In reading order:

`plugin`               the pytest fixtures
`in_process`           a broker in a thread of this process
`in_process_cluster`   several of them, with the coordination store in memory (`memory_store`)
`process`              a broker as a separate process
`process_cluster`      several of them; `cluster_settings` is what both kinds of clusters share
`fork_server`          starts their processes in milliseconds
`secured`, `registry`  a broker with TLS and logins; a schema registry
`clock`                time that a test can turn
`faults`               failing requests; `fault_answers`, `request_topics` and `request_log` serve it
`full_disk`            a disk without room
`emulation`            brokers as earlier releases of Kafka
`snapshots`            a data directory as one file; `snapshot_command` is `headrace snapshot`
`chaos`                an application under a fault plan, and what it lost, doubled, disordered or did not read
`assertions`           `assert_records`, `eventually`, a topic as text
`account`              what a broker saw, for the report of a failed test
`simulation`           a whole cluster on virtual time

The names below load when they are used: a project that has Headrace installed pays nothing for the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.assertions import assert_records, eventually, topic_text
    from headrace.testing.in_process import RunningBroker, broker
    from headrace.testing.in_process_cluster import InProcessCluster, cluster
    from headrace.testing.process import BrokerProcess, broker_process
    from headrace.testing.process_cluster import ProcessCluster
    from headrace.testing.snapshots import load_snapshot, save_snapshot

__all__ = [
    "BrokerProcess",
    "InProcessCluster",
    "ProcessCluster",
    "RunningBroker",
    "assert_records",
    "broker",
    "broker_process",
    "cluster",
    "eventually",
    "load_snapshot",
    "save_snapshot",
    "topic_text",
]

_HOMES = {
    "BrokerProcess": "process",
    "InProcessCluster": "in_process_cluster",
    "ProcessCluster": "process_cluster",
    "RunningBroker": "in_process",
    "assert_records": "assertions",
    "broker": "in_process",
    "broker_process": "process",
    "cluster": "in_process_cluster",
    "eventually": "assertions",
    "load_snapshot": "snapshots",
    "save_snapshot": "snapshots",
    "topic_text": "assertions",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)

"""The cluster of a run: brokers in this process, which the plan can kill and cut, or one that is already there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.chaos.plan import Plan, PlanError
from headrace.testing.in_process_cluster import InProcessCluster, cluster

_TIMEOUT_S: Final = 30.0


class Target:
    def __init__(self, bootstrap: str, brokers: InProcessCluster | None) -> None:
        self.bootstrap = bootstrap
        self._brokers = brokers

    @property
    def brokers(self) -> InProcessCluster:
        """The brokers of this process."""
        assert self._brokers is not None, "the plan was checked: this cluster is not ours"
        return self._brokers

    def create(self, topic: str, partitions: int) -> None:
        """Creates the topic if it is missing. Raises PlanError."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            if topic not in admin.list_topics(timeout=_TIMEOUT_S).topics:
                admin.create_topics([NewTopic(topic, partitions)])[topic].result(_TIMEOUT_S)
        except KafkaException as error:
            raise PlanError(f"topic {topic!r} cannot be created on {self.bootstrap}: {error.args[0].str()}") from None

    def heal(self) -> None:
        if self._brokers is not None:
            self._brokers.heal()


@contextmanager
def target_of(plan: Plan, settings: Mapping[str, str] | None = None) -> Iterator[Target]:
    if plan.bootstrap is not None:
        yield Target(plan.bootstrap, None)
        return
    with cluster(plan.brokers, settings) as running:
        yield Target(running.bootstrap, running)

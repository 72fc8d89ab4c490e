"""The controller's operations, on the broker that is the controller.

Every broker has a Controller object; it is active during the terms that this broker wins (`leadership`). While it is
inactive, every operation raises NOT_CONTROLLER, and `gateway` sends the request to the active controller. While it is
active, five tasks run: one follows the registrations of brokers, one looks for uneven leadership, one follows the nodes
of ACLs, one answers fallback requests, and the ledger writes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.core.losses import ReplicaLosses
from headrace.config import BrokerConfig
from headrace.controller import (
    acl_operations,
    broker_operations,
    config_operations,
    partition_operations,
    topic_operations,
)
from headrace.controller.acl_nodes import AclNodes
from headrace.controller.core import token_changes
from headrace.controller.core.config_changes import KeyChange
from headrace.controller.core.elections import rebalanced
from headrace.controller.core.isr_changes import IsrAnswer, IsrReport
from headrace.controller.core.partition_states import Election
from headrace.controller.core.scram_changes import ScramDeletion, ScramResult, ScramUpsertion
from headrace.controller.core.token_changes import NewToken, TokenRules
from headrace.controller.core.topics import NewTopic
from headrace.controller.election_policy import ElectionPolicy
from headrace.controller.leadership import differs, registered_brokers
from headrace.controller.ledger import Decision, Deposed, Ledger
from headrace.controller.results import AclResult, NamedResult, PartitionResult, ResourceResult, TopicResult
from headrace.controller.topic_operations import Growth
from headrace.coordination.fallback_reader import FallbackReader, Serve
from headrace.coordination.store import Store, StoreFault, log_level
from headrace.coordination.waiting import until
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted
from headrace.security.acl.filters import AclFilter
from headrace.security.acl.model import Acl
from headrace.security.sasl.tokens import DelegationToken

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

_PAUSE_AFTER_FAULT: Final = 0.2
_LONGEST_UNSEEN: Final = 2.0


class Controller:
    def __init__(
        self,
        store: Store,
        config: Callable[[], BrokerConfig],
        serve_fallback: Serve | None = None,
        acl_nodes: AclNodes | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`serve_fallback` answers the requests that brokers wrote to the store (ADR 11). `acl_nodes` follows the ACLs
        that other programs write to it.
        """
        self._store = store
        self._config = config
        self._clock = clock
        self._ledger: Ledger | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._brokers_hint = asyncio.Event()
        self._fallback = FallbackReader(store, serve_fallback, lambda: self.is_active) if serve_fallback else None
        self._acl_nodes = acl_nodes
        self.election_policy = ElectionPolicy(config)

    # The office

    @property
    def is_active(self) -> bool:
        return self._ledger is not None and not self._ledger.deposed.is_set()

    def activate(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tasks = [
            asyncio.create_task(self._follow_brokers(ledger), name="controller: brokers"),
            asyncio.create_task(self._keep_balance(ledger), name="controller: leader balance"),
        ]
        if self._acl_nodes is not None:
            self._tasks.append(asyncio.create_task(self._acl_nodes.run(ledger), name="controller: nodes of ACLs"))
        if self._fallback is not None:
            self._tasks.append(asyncio.create_task(self._fallback.run(), name="controller: fallback requests"))

        if self.token_rules.secret:
            self._tasks.append(asyncio.create_task(self._remove_expired_tokens(), name="controller: expired tokens"))

    def deactivate(self) -> None:
        self._ledger = None
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _run(self, operation: Callable[[ClusterImage], Decision[Reply]]) -> Reply:
        ledger = self._ledger
        if ledger is None:
            raise Deposed("this broker is not the controller")
        return await ledger.run(operation)

    async def _follow_brokers(self, ledger: Ledger) -> None:
        timeout = self._store.session_timeout
        pause = None if math.isinf(timeout) else min(_LONGEST_UNSEEN, timeout / 4)
        watching = is_known = False

        def hinted() -> None:
            nonlocal watching
            watching = False
            self._brokers_hint.set()

        while not ledger.deposed.is_set():
            self._brokers_hint.clear()
            try:
                asked, watching = watching, True
                present = await registered_brokers(self._store, watch=None if asked else hinted)
                if differs(ledger.image, broker_operations.fit_members(ledger.image, present)):
                    await ledger.run(broker_operations.membership(self.election_policy, present))
                if not is_known:
                    # This controller's settings may allow unclean elections that its predecessor's did not. First it
                    # needs the live brokers: an in-sync replica may just have returned.
                    await ledger.run(partition_operations.elect_where_allowed(self.election_policy))
                    is_known = True
            except Deposed:
                return
            except StoreFault as fault:
                watching = False
                why = fault.message or type(fault).__name__
                logger.log(log_level(fault, logging.INFO), "cannot read the registered brokers: %s", why)
                await asyncio.sleep(_PAUSE_AFTER_FAULT)
                continue
            except Exception:
                # Retry after any error: a cluster that does not detect dead brokers is worse.
                watching = False
                logger.exception("processing the registered brokers failed; retrying")
                await asyncio.sleep(1.0)
                continue
            await until(self._brokers_hint, pause)

    async def _keep_balance(self, ledger: Ledger) -> None:
        while not ledger.deposed.is_set():
            await asyncio.sleep(self._config().leader_imbalance_check_interval_seconds)
            config = self._config()
            if not config.auto_leader_rebalance_enable or len(ledger.image.brokers) < 2:
                continue
            percent = config.leader_imbalance_per_broker_percentage

            def decide(image: ClusterImage, percent: int = percent) -> Decision[int]:
                decided = rebalanced(image, percent, self.election_policy.of(image))
                return Decision(len(decided.changes), decided.changes)

            try:
                moved = await ledger.run(decide)
            except Deposed:
                return
            except Exception:  # boundary of a round: a bug in one must not end the balancing of leaders
                logger.exception("giving leadership back to the preferred replicas failed")
                continue
            if moved:
                logger.info("leadership of %s went back to the preferred replica", counted(moved, "partition"))

    # Topics

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        return await self._run(topic_operations.create_topics(topics, self._config(), validate_only=validate_only))

    async def delete_topics(self, topics: Sequence[tuple[str | None, UUID | None]]) -> list[TopicResult]:
        enabled = self._config().delete_topic_enable
        return await self._run(topic_operations.delete_topics(topics, enabled=enabled))

    async def create_partitions(self, growths: Sequence[Growth], *, validate_only: bool = False) -> list[TopicResult]:
        return await self._run(topic_operations.create_partitions(growths, validate_only=validate_only))

    # Partitions

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, reports: Sequence[IsrReport]
    ) -> list[IsrAnswer]:
        return await self._run(
            partition_operations.alter_partitions(self.election_policy, broker_id, broker_epoch, reports)
        )

    async def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition] | None
    ) -> list[PartitionResult]:
        """`None`: every partition that needs an election."""
        return await self._run(partition_operations.elect_leaders(self.election_policy, election, partitions))

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, allow_replication_factor_change: bool = True
    ) -> list[PartitionResult]:
        return await self._run(
            partition_operations.alter_reassignments(
                self.election_policy, targets, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    async def report_replicas(
        self,
        broker_id: int,
        broker_epoch: int,
        losses: ReplicaLosses | None,
        full: Sequence[TopicPartition] = (),
    ) -> None:
        """`losses`: everything that the broker lacks now, None if that is as before; `full`: replicas on a full
        disk."""
        await self._run(
            partition_operations.report_replicas(self.election_policy, broker_id, broker_epoch, losses, full)
        )

    # Brokers

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> bool:
        """Moves leadership off the broker. True when it may stop now."""
        return await self._run(broker_operations.controlled_shutdown(self.election_policy, broker_id, broker_epoch))

    async def unregister_broker(self, broker_id: int) -> None:
        await self._run(broker_operations.unregister(broker_id))

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> tuple[int, int]:
        """(first id, size) of a new block of producer ids."""
        return await self._run(broker_operations.allocate_producer_ids(broker_id, broker_epoch))

    # Configuration

    async def replace_configs(
        self, resources: Sequence[tuple[str, str, Mapping[str, str | None]]], *, validate_only: bool = False
    ) -> list[ResourceResult]:
        """AlterConfigs: each resource gets exactly these overrides."""
        return await self._run(
            config_operations.replace_configs(self.election_policy, resources, validate_only=validate_only)
        )

    async def change_configs(
        self, resources: Sequence[tuple[str, str, Sequence[KeyChange]]], *, validate_only: bool = False
    ) -> list[ResourceResult]:
        """IncrementalAlterConfigs."""
        return await self._run(
            config_operations.change_configs(self.election_policy, resources, validate_only=validate_only)
        )

    async def alter_quotas(
        self, entries: Sequence[config_operations.QuotaRequest], *, validate_only: bool = False
    ) -> list[tuple[ErrorCode, str | None]]:
        return await self._run(config_operations.alter_quotas(entries, validate_only=validate_only))

    async def alter_scram_credentials(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> list[ScramResult]:
        secret = secrets.token_urlsafe(32)
        return await self._run(config_operations.alter_scram_credentials(deletions, upsertions, secret))

    async def create_acls(self, acls: Sequence[Acl]) -> list[AclResult]:
        return await self._run(acl_operations.create_acls(acls))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclResult]:
        return await self._run(acl_operations.delete_acls(filters))

    @property
    def token_rules(self) -> TokenRules:
        config = self._config()
        secret = config.delegation_token_secret_key or config.delegation_token_master_key
        return TokenRules(secret, config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms)

    async def create_token(self, asked: NewToken, now_ms: int) -> tuple[DelegationToken, str]:
        """The token, and the secret of its HMAC."""
        rules = self.token_rules
        secret = token_changes.secret_of(rules)
        token = await self._run(lambda image: Decision(*token_changes.created(image, rules, asked, now_ms)))
        return token, secret

    async def renew_token(self, digest: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        rules = self.token_rules
        return await self._run(
            lambda image: Decision(*token_changes.renewed(image, rules, digest, principal, period_ms, now_ms))
        )

    async def expire_token(self, digest: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        rules = self.token_rules
        return await self._run(
            lambda image: Decision(*token_changes.expired(image, rules, digest, principal, period_ms, now_ms))
        )

    async def _remove_expired_tokens(self) -> None:
        while True:
            await asyncio.sleep(self._config().delegation_token_expiry_check_interval_ms / 1000)
            try:
                await self._run(partial(_without_expired_tokens, self._clock.wall_ms()))
            except Fault as fault:
                logger.info("expired delegation tokens stay for now: %s", fault.message)

    async def update_features(
        self, updates: Sequence[tuple[str, int, int]], *, validate_only: bool = False
    ) -> list[NamedResult]:
        return await self._run(config_operations.update_features(updates, validate_only=validate_only))


def _without_expired_tokens(now_ms: int, image: ClusterImage) -> Decision[None]:
    return Decision(None, token_changes.without_expired(image, now_ms))

"""Builds the coordinators of this broker: transactions, groups, and share groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headrace.broker.auto_creation import TopicCreation
from headrace.broker.wiring.context import CoordinatorContext
from headrace.broker.wiring.shares import Shares
from headrace.cluster.core.image import ClusterImage
from headrace.config import BrokerConfig
from headrace.controller.gateway import ControllerGateway
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.txn.coordinator import TransactionCoordinator
from headrace.coordinators.txn.core.shard import TransactionSettings
from headrace.coordinators.txn.marker_writer import MarkerWriter
from headrace.coordinators.txn.producer_ids import ProducerIdBlock, ProducerIds
from headrace.coordinators.txn.verification import TransactionVerification
from headrace.coordinators.txn.verification_guards import VerificationGuards
from headrace.kernel.ids import TRANSACTION_STATE_TOPIC


class Coordinators:
    def __init__(
        self,
        broker: CoordinatorContext,
        gateway: ControllerGateway,
        creation: TopicCreation,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        config, view, partitions = broker.config, broker.view, broker.partitions

        async def allocate() -> ProducerIdBlock:
            return ProducerIdBlock(*await gateway.allocate_producer_ids())

        self.groups = GroupCoordinator(
            partitions,
            view,
            broker.broker_id,
            GroupSettings.from_config(config),
            partition_count=config.offsets_topic_num_partitions,
            clock=broker.clock,
        )
        self.producer_ids = ProducerIds(allocate)
        guards = VerificationGuards()
        self.marker_writer = MarkerWriter(partitions, self.groups, guards, broker.clock.wall_ms)
        self.transactions = TransactionCoordinator(
            broker,
            self.producer_ids,
            self.marker_writer,
            broker.peers,
            TransactionSettings(
                max_timeout_ms=config.transaction_max_timeout_ms,
                id_expiration_ms=config.transactional_id_expiration_ms,
                abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                expire_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
            InternalTopic(
                TRANSACTION_STATE_TOPIC,
                config.transaction_state_log_num_partitions,
                load_bytes=config.transaction_state_log_load_buffer_size,
            ),
            clock=broker.clock,
        )
        self.verification = TransactionVerification(
            self.transactions,
            guards,
            partitions,
            view,
            broker.broker_id,
            broker.peers,
            verifies=config.transaction_partition_verification_enable,
        )

        self.shares = Shares(broker, self.groups, creation, catch_up)

    def settings_changed(self, config: BrokerConfig) -> None:
        self.groups.settings_changed(GroupSettings.from_config(config))
        self.verification.settings_changed(verifies=config.transaction_partition_verification_enable)

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        self.groups.follow(old, new)
        self.shares.states.follow(old, new)
        self.transactions.runtime.follow(new)

    async def close(self) -> None:
        self.transactions.close()
        self.shares.close()
        self.groups.close()
        await self.producer_ids.close()

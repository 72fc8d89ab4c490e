"""Builds the share groups of this broker: the share partitions it leads, their durable state, and their
administration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headrace.broker.auto_creation import TopicCreation
from headrace.broker.wiring.context import CoordinatorContext
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.share.administration import ShareAdministration
from headrace.coordinators.share.consumption import ShareConsumption
from headrace.coordinators.share.dead_letters import PERMISSION, DeadLetterRules, DeadLetters
from headrace.coordinators.share.initializer import ShareInitializer
from headrace.coordinators.share.led_share_partitions import LedSharePartitions
from headrace.coordinators.share.membership import ShareMembership
from headrace.coordinators.share.persister import Persister
from headrace.coordinators.share.settings import share_settings
from headrace.coordinators.share.state_coordinator import ShareStateCoordinator
from headrace.coordinators.topic_writer import TopicWriter
from headrace.kernel.ids import SHARE_GROUP_STATE_TOPIC
from headrace.records.compression import Codec


class Shares:
    def __init__(
        self,
        broker: CoordinatorContext,
        groups: GroupCoordinator,
        creation: TopicCreation,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        config, view, partitions = broker.config, broker.view, broker.partitions
        self.states = ShareStateCoordinator(
            partitions,
            broker.broker_id,
            InternalTopic(
                SHARE_GROUP_STATE_TOPIC,
                config.share_coordinator_state_topic_num_partitions,
                config.share_coordinator_write_timeout_ms,
                config.share_coordinator_load_buffer_size,
                Codec(config.share_coordinator_state_topic_compression_codec),
            ),
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
            clock=broker.clock,
        )
        persister = Persister(self.states, view, broker.broker_id, broker.peers, creation.ensure)
        self.share_partitions = LedSharePartitions(
            partitions,
            view,
            persister,
            lambda group: share_settings(config, view.current.config_of("group", group)),
            catch_up,
            DeadLetters(
                TopicWriter(broker.broker_id, view, partitions, broker.peers, broker.clock),
                view,
                DeadLetterRules(
                    config.errors_deadletterqueue_topic_name_prefix,
                    config.errors_deadletterqueue_auto_create_topics_enable,
                ),
                lambda name: creation.ensure(name, {PERMISSION: "true"}),
                broker.clock,
            ),
            clock=broker.clock,
        )
        self.consumption = ShareConsumption(
            self.share_partitions, config.group_share_max_share_sessions, config.fetch_max_bytes
        )
        self.initializer = ShareInitializer(groups, persister)
        self.membership = ShareMembership(groups, self.initializer)
        self.administration = ShareAdministration(groups, persister, view, partitions, broker.peers)

    def close(self) -> None:
        self.initializer.close()
        self.share_partitions.close()
        self.states.close()

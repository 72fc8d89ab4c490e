"""Every timer of a broker: what turns with its clock, the test that turns it, and the places in the source.

`test_every_timer.py` walks the source and the settings and compares. A new timer needs a row in `TIMERS` (or a reason
in `OTHERS`), its place in `PLACES`, and its settings in `SETTINGS`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Timer(NamedTuple):
    """`settings`: as in the table of docs/testing.md. `tests`: the tests that turn it."""

    settings: tuple[str, ...]
    tests: tuple[str, ...]


# Sessions and locks of a group have their values from a setting of the broker, or of the group.
TIMERS: Final = {
    "retention": Timer(("retention.ms", "log.retention.check.interval.ms"), ("test_retention_by_time",)),
    "roll of segments": Timer(("segment.ms",), ("test_compaction_waits_for_the_lag_and_for_the_roll_of_the_segment",)),
    "compaction": Timer(
        ("min.compaction.lag.ms", "max.compaction.lag.ms"),
        (
            "test_compaction_waits_for_the_lag_and_for_the_roll_of_the_segment",
            "test_the_longest_lag_of_compaction_rolls_the_segment",
        ),
    ),
    "tombstones": Timer(("delete.retention.ms",), ("test_a_tombstone_leaves_after_its_retention",)),
    "files of deleted topics": Timer(
        ("file.delete.delay.ms",), ("test_files_of_a_deleted_topic_leave_after_the_delay",)
    ),
    "timestamps of records": Timer(
        ("message.timestamp.type", "message.timestamp.after.max.ms"),
        ("test_append_time_is_the_turned_time", "test_a_record_of_the_future_is_refused_until_its_time"),
    ),
    "flush of logs": Timer(("flush.ms",), ("test_a_log_is_flushed_after_its_interval",)),
    "checkpoints": Timer(
        ("replica.high.watermark.checkpoint.interval.ms",), ("test_the_high_watermark_is_saved_after_its_interval",)
    ),
    "state of idle producers": Timer(("producer.id.expiration.ms",), ("test_the_state_of_an_idle_producer_expires",)),
    "sessions of members": Timer(
        (
            *("session.timeout.ms", "group.consumer.session.timeout.ms"),
            *("group.share.session.timeout.ms", "group.streams.session.timeout.ms"),
        ),
        (
            "test_the_session_of_a_classic_member_ends",
            "test_the_session_of_a_member_of_the_new_protocol_ends",
            "test_the_session_of_a_member_of_a_share_group_ends",
            "test_the_session_of_a_member_of_a_streams_group_ends",
        ),
    ),
    "rebalances": Timer(
        ("max.poll.interval.ms", "group.initial.rebalance.delay.ms", "group.streams.initial.rebalance.delay.ms"),
        (
            "test_a_member_that_does_not_rejoin_is_removed_after_the_rebalance_timeout",
            "test_a_leader_that_sends_no_assignment_is_removed",
            "test_a_classic_member_of_a_consumer_group_must_sync",
            "test_a_classic_member_of_a_consumer_group_must_rejoin",
            "test_a_member_of_the_new_protocol_that_keeps_its_partitions_is_removed",
            "test_a_member_of_a_streams_group_that_keeps_its_tasks_is_removed",
            "test_the_first_rebalance_waits_for_its_delay",
            "test_the_first_tasks_of_a_streams_group_wait_for_the_delay",
        ),
    ),
    "assignments": Timer(
        (
            *("group.consumer.assignment.interval.ms", "group.share.assignment.interval.ms"),
            "group.streams.assignment.interval.ms",
        ),
        ("test_the_next_assignment_waits_for_its_interval",),
    ),
    "locks of records of share groups": Timer(
        ("group.share.record.lock.duration.ms",), ("test_the_lock_of_a_record_of_a_share_group_ends",)
    ),
    "committed offsets of empty groups": Timer(
        ("offsets.retention.minutes",), ("test_committed_offsets_of_an_empty_group_expire",)
    ),
    "open transactions": Timer(("transaction.timeout.ms",), ("test_an_open_transaction_is_aborted_after_its_timeout",)),
    "transactional ids": Timer(("transactional.id.expiration.ms",), ("test_a_transactional_id_expires",)),
    "idle connections": Timer(("connections.max.idle.ms",), ("test_an_idle_connection_is_closed",)),
    "handshakes and logins": Timer((), ("test_a_handshake_has_a_deadline",)),
    "renewal of logins": Timer(("connections.max.reauth.ms",), ("test_a_login_must_be_renewed",)),
    "answers to failed logins": Timer(
        ("connection.failed.authentication.delay.ms",), ("test_the_answer_to_a_wrong_password_waits",)
    ),
    "long polls": Timer(("fetch.max.wait.ms",), ("test_a_long_poll_ends_at_once",)),
    "writes that wait for replicas": Timer(
        ("request.timeout.ms",), ("test_a_write_that_is_not_replicated_in_time_is_refused",)
    ),
    "quotas": Timer(
        ("quota.window.num", "quota.window.size.seconds"),
        ("test_a_quota_forgets_what_was_sent_before_its_window",),
    ),
    "throttled connections": Timer((), ("test_a_throttled_connection_is_served_again",)),
    "certificates of listeners (warnings and metrics)": Timer((), ("test_the_certificate_of_a_listener_runs_out",)),
    "delegation tokens": Timer(
        ("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms"), ("test_a_delegation_token_expires",)
    ),
    "followers that lag (one that has every record does not lag)": Timer(
        ("replica.lag.time.max.ms",), ("test_a_follower_that_lags_leaves_the_isr_in_broker_time",)
    ),
    "return of leadership to the preferred replica": Timer(
        ("leader.imbalance.check.interval.seconds",), ("test_the_preferred_replica_leads_again",)
    ),
}

# What has a time and no row above. A turned clock fires pauses and deadlines early, and that changes no result.
PAUSE: Final = "a pause before the same is tried again"
DEADLINE: Final = "a deadline of one call between brokers: the call fails, and is made again"
REPORT: Final = "an interval of metrics, reports or files that no client sees"
MEASURED: Final = "measures how long something took, or limits a rate of work; nothing is due by it"
MACHINE: Final = "the clock of the machine on purpose: a lease, a process or a token of another program"
CLIENT: Final = "a time that the broker tells its clients, or a limit for what they may ask"
OTHERS: Final = (PAUSE, DEADLINE, REPORT, MEASURED, MACHINE, CLIENT)

# Functions that start a timer or read the clock of the machine.
PLACES: Final = {
    "net.connection:Connection.throttle": "throttled connections",
    "net.handshakes:Handshakes._expire": "handshakes and logins",
    "net.handshakes:Handshakes.begin": "handshakes and logins",
    "net.listener:Listeners._accept": PAUSE,
    "net.listener:Listeners._admit": "quotas",
    "net.listener:Listeners._drop_silent": "idle connections",
    "net.listener:Listeners._pauses": PAUSE,
    "net.listener:Listeners.start": "idle connections",
    "telemetry.endpoint:MetricsEndpoint._serve": REPORT,
    "telemetry.loop_lag:LoopLag._wait": REPORT,
    "coordinators.share.dead_letters:DeadLetters._write_patiently": PAUSE,
    "coordinators.group.core.classic.rebalance:Rebalances._arm_initial": "rebalances",
    "coordinators.group.core.classic.rebalance:Rebalances._arm_join": "rebalances",
    "coordinators.group.core.classic.rebalance:Rebalances.complete_join": "rebalances",
    "coordinators.group.core.classic.rebalance:Rebalances.watch": "sessions of members",
    "coordinators.group.core.consumer.classic_members:ClassicMembers._watch": "rebalances",
    "coordinators.group.core.consumer.heartbeat:ConsumerHeartbeats.keep_alive": "sessions of members",
    "coordinators.group.core.consumer.heartbeat:ConsumerHeartbeats.watch_rebalance": "rebalances",
    "coordinators.group.core.effects:Effects.arm": "sessions of members",
    "coordinators.group.core.shard:GroupShard.clean_up": "committed offsets of empty groups",
    "coordinators.group.core.shard:GroupShard.loaded": "committed offsets of empty groups",
    "coordinators.group.core.share.heartbeat:ShareHeartbeats.keep_alive": "sessions of members",
    "coordinators.group.core.streams.heartbeat:StreamsHeartbeats._delay": "rebalances",
    "coordinators.group.core.streams.heartbeat:StreamsHeartbeats.keep_alive": "sessions of members",
    "coordinators.group.core.streams.heartbeat:StreamsHeartbeats.watch_revocation": "rebalances",
    "coordinators.runtime.loading:replay_log": MEASURED,
    "coordinators.runtime.timers:Timers._wake": "sessions of members",
    "coordinators.runtime.timers:Timers.apply": "sessions of members",
    "coordinators.share.consumption:ShareConsumption._end": DEADLINE,
    "coordinators.share.consumption:ShareConsumption._fetch_into": "long polls",
    "coordinators.share.consumption:ShareConsumption.fetch": "long polls",
    "coordinators.share.initializer:ShareInitializer.begin": DEADLINE,
    "coordinators.share.led_share_partitions:LedSharePartitions._locks_are_over": PAUSE,
    "coordinators.share.led_share_partitions:LedSharePartitions._watch_locks": "locks of records of share groups",
    "coordinators.share.persister:Persister._patiently": PAUSE,
    "coordinators.share.state_coordinator:ShareStateCoordinator._prune": REPORT,
    "coordinators.share.state_coordinator:ShareStateCoordinator.follow": REPORT,
    "coordinators.txn.coordinator:TransactionCoordinator._ended": DEADLINE,
    "coordinators.txn.core.shard:TransactionShard._abort_timed_out": "open transactions",
    "coordinators.txn.core.shard:TransactionShard._begin_markers": PAUSE,
    "coordinators.txn.core.shard:TransactionShard._completion.then": PAUSE,
    "coordinators.txn.core.shard:TransactionShard._expire": "transactional ids",
    "coordinators.txn.core.shard:TransactionShard.loaded": "open transactions",
    "coordinators.txn.marker_sender:ShardMarkers._finish": PAUSE,
    "coordinators.txn.marker_sender:ShardMarkers._write_completion": PAUSE,
    "coordinators.txn.producer_ids:ProducerIds.take": DEADLINE,
    "handlers.data.long_poll:LongPoll.__init__": "long polls",
    "handlers.data.produce:Acknowledgement.__init__": "writes that wait for replicas",
    "handlers.data.produce:Produce._when_synced.sync": "writes that wait for replicas",
    "handlers.dispatch.audit:Audit.__init__": MEASURED,
    "handlers.dispatch.login:Logins._refused": "answers to failed logins",
    "broker.audit_topic:AuditTopic._write_all": PAUSE,
    "broker.audit_topic:AuditTopic.close": DEADLINE,
    "broker.broker:Broker._while_it_may_work": DEADLINE,
    "broker.loss_reports:LossReports._tell": PAUSE,
    "broker.loss_reports:LossReports.tell_later": REPORT,
    "broker.full_disks:FullDisks._tell": PAUSE,
    "broker.graceful_shutdown:_until_forgotten": PAUSE,
    "broker.graceful_shutdown:wait_until_clients_are_redirected": DEADLINE,
    "broker.housekeeping:Housekeeping._every.run": "retention",
    "broker.housekeeping:Housekeeping._make_files": REPORT,
    "broker.housekeeping:Housekeeping._save_epochs": REPORT,
    "broker.lag.flow_reports:FlowReports._run": REPORT,
    "broker.lag.group_lag:GroupLag._run": REPORT,
    "broker.listener_certificates:ListenerCertificates._run": "certificates of listeners (warnings and metrics)",
    "broker.recovery_progress:RecoveryProgress.__init__": MEASURED,
    "broker.registry_process:RegistryProcess._supervise": PAUSE,
    "broker.registry_process:RegistryProcess.stop": DEADLINE,
    "broker.standalone:_write": MACHINE,
    "storage.compaction.cleaner:Cleaner.__init__": MEASURED,
    "storage.compaction.cleaner:Cleaner._limit_rate": MEASURED,
    "storage.compaction.cleaner:Cleaner.clean": MEASURED,
    "replication.fetcher:LeaderFetcher._failed": PAUSE,
    "replication.fetcher:LeaderFetcher._fetch_once": PAUSE,
    "replication.fetcher:LeaderFetcher._run": PAUSE,
    "replication.isr_changes:ControllerIsrChanges._run": PAUSE,
    "replication.leader_channel:WireChannel._watch": DEADLINE,
    "replication.leader_channel:WireChannel.open": DEADLINE,
    "replication.service:Replication._tick": "followers that lag (one that has every record does not lag)",
    "replication.waiters:answer_within": "writes that wait for replicas",
    "coordination.companion:end_session": MACHINE,
    "coordination.fallback_channel:FallbackRequests.ask": DEADLINE,
    "coordination.fallback_reader:FallbackReader.run": PAUSE,
    "coordination.kazoo_log:RateLimitedLog.__init__": MEASURED,
    "coordination.startup_retry:answered": PAUSE,
    "coordination.waiting:until": DEADLINE,
    "coordination.zookeeper_session:ZooKeeperSession._beat": MACHINE,
    "coordination.zookeeper_session:ZooKeeperSession._first_answer": PAUSE,
    "coordination.zookeeper_session:ZooKeeperSession._session_changed": MACHINE,
    "coordination.zookeeper_session:ZooKeeperSession.call": MACHINE,
    "coordination.zookeeper_session:ZooKeeperSession.connect": DEADLINE,
    "coordination.zookeeper_session:_within": DEADLINE,
    "cluster.follower:ImageFollower._follow": PAUSE,
    "cluster.membership:Membership._refuse_or_wait": MACHINE,
    "cluster.membership:Membership._encoded": MACHINE,
    "cluster.membership:Membership._register": MACHINE,
    "cluster.membership:Membership._register_again": PAUSE,
    "cluster.membership:Membership.lease_held": MACHINE,
    "cluster.membership:_answers": DEADLINE,
    "cluster.view:ClusterView.wait_until": DEADLINE,
    "controller.acl_nodes:AclNodes.run": PAUSE,
    "controller.controller:Controller._follow_brokers": PAUSE,
    "controller.controller:Controller._keep_balance": "return of leadership to the preferred replica",
    "controller.controller:Controller._remove_expired_tokens": "delegation tokens",
    "controller.gateway:ControllerGateway._ask": DEADLINE,
    "controller.gateway:ControllerGateway._to_controller": PAUSE,
    "controller.gateway:_by": DEADLINE,
    "controller.leadership:Leadership._run": PAUSE,
    "controller.leadership:Leadership._win": MACHINE,
    "controller.ledger:Ledger._exists": PAUSE,
    "controller.ledger:Ledger._is_ours": PAUSE,
    "controller.ledger:Ledger._read_children": PAUSE,
    "controller.ledger:Ledger._write": PAUSE,
    "controller.member:ClusterMember.close": DEADLINE,
    "coordination.unit.server:_Connection._beat": MACHINE,
    "coordination.unit.server:_Connection._check_timeout": MACHINE,
    "coordination.unit.server:_Connection._ended": MACHINE,
    "coordination.unit.server:_Connection._hello": MACHINE,
    "coordination.unit.server:_Connection._schedule_check": MACHINE,
    "coordination.unit.server:_Connection.data_received": MACHINE,
    "coordination.unit.store:SocketStore._ask": DEADLINE,
    "coordination.unit.store:SocketStore._beat": MACHINE,
    "coordination.unit.store:SocketStore._hello": MACHINE,
    "coordination.unit.store:SocketStore._renew": MACHINE,
    "coordination.unit.store:SocketStore.close": DEADLINE,
    "replication.replica_moves:ReplicaMoves._advance": PAUSE,
    "replication.replica_moves:ReplicaMoves._run": PAUSE,
    "security.tls.authority:_dated": MACHINE,
}

_GROUP_LIMITS: Final = (
    *(
        f"group.{kind}.{end}.{what}.ms"
        for kind in ("consumer", "share", "streams")
        for end in ("min", "max")
        for what in ("session.timeout", "heartbeat.interval", "assignment.interval")
    ),
    *(f"group.share.{end}.record.lock.duration.ms" for end in ("min", "max")),
    *("group.min.session.timeout.ms", "group.max.session.timeout.ms", "transaction.max.timeout.ms"),
)

# Settings with a time that the broker honours. Names of topics' and brokers' settings that mean the same are beside
# each other.
SETTINGS: Final = {
    "retention": (
        *("retention.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        *("log.retention.check.interval.ms", "log.initial.task.delay.ms"),
    ),
    "roll of segments": (
        *("segment.ms", "log.roll.ms", "log.roll.hours"),
        *("segment.jitter.ms", "log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    "compaction": (
        *("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "log.cleaner.backoff.ms"),
        *("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ),
    "tombstones": ("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    "files of deleted topics": ("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    "timestamps of records": (
        *("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
        *("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    ),
    "flush of logs": ("flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "checkpoints": ("replica.high.watermark.checkpoint.interval.ms",),
    "state of idle producers": ("producer.id.expiration.ms", "producer.id.expiration.check.interval.ms"),
    "sessions of members": (
        *("group.consumer.session.timeout.ms", "consumer.session.timeout.ms"),
        *("group.share.session.timeout.ms", "share.session.timeout.ms"),
        *("group.streams.session.timeout.ms", "streams.session.timeout.ms"),
    ),
    "rebalances": (
        "group.initial.rebalance.delay.ms",
        *("group.streams.initial.rebalance.delay.ms", "streams.initial.rebalance.delay.ms"),
    ),
    "assignments": (
        *("group.consumer.assignment.interval.ms", "consumer.assignment.interval.ms"),
        *("group.share.assignment.interval.ms", "share.assignment.interval.ms"),
        *("group.streams.assignment.interval.ms", "streams.assignment.interval.ms"),
    ),
    "locks of records of share groups": ("group.share.record.lock.duration.ms", "share.record.lock.duration.ms"),
    "committed offsets of empty groups": ("offsets.retention.minutes", "offsets.retention.check.interval.ms"),
    "open transactions": ("transaction.abort.timed.out.transaction.cleanup.interval.ms",),
    "transactional ids": (
        *("transactional.id.expiration.ms", "transaction.remove.expired.transaction.cleanup.interval.ms"),
    ),
    "idle connections": ("connections.max.idle.ms",),
    "renewal of logins": ("connections.max.reauth.ms",),
    "answers to failed logins": ("connection.failed.authentication.delay.ms",),
    "quotas": ("quota.window.size.seconds", "controller.quota.window.size.seconds"),
    "delegation tokens": (
        *("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms"),
        "delegation.token.expiry.check.interval.ms",
    ),
    "followers that lag (one that has every record does not lag)": ("replica.lag.time.max.ms",),
    "return of leadership to the preferred replica": ("leader.imbalance.check.interval.seconds",),
    PAUSE: ("replica.fetch.backoff.ms",),
    DEADLINE: (
        *("replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "offsets.commit.timeout.ms"),
        "share.coordinator.write.timeout.ms",
    ),
    REPORT: ("share.coordinator.state.topic.prune.interval.ms",),
    MACHINE: (
        *(
            "broker.session.timeout.ms",
            "zookeeper.session.timeout.ms",
            "zookeeper.connection.timeout.ms",
            "sasl.oauthbearer.clock.skew.seconds",
        ),
        *("sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    ),
    CLIENT: (
        *_GROUP_LIMITS,
        *("group.consumer.heartbeat.interval.ms", "consumer.heartbeat.interval.ms"),
        *("group.share.heartbeat.interval.ms", "share.heartbeat.interval.ms"),
        *("group.streams.heartbeat.interval.ms", "streams.heartbeat.interval.ms"),
    ),
}

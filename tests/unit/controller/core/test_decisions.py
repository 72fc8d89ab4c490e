"""The controller's decisions over a whole image: membership, reports, reassignments, new topics, settings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from headrace.cluster.core.changes import BrokerRegistered, ConfigSet, PartitionChanged, TopicCreated, apply
from headrace.cluster.core.features import INITIAL_LEVELS, why_unfit
from headrace.cluster.core.image import NO_LEADER, BrokerInfo, ClusterImage, Endpoint, PartitionInfo, TopicInfo
from headrace.cluster.core.losses import NO_LOSSES, ReplicaLosses
from headrace.config import TOPIC_KEYS, BrokerConfig, load_broker_config
from headrace.controller import partition_operations
from headrace.controller.broker_operations import fit_members
from headrace.controller.config_operations import change_configs
from headrace.controller.core import elections, features, quotas, topics
from headrace.controller.core.config_changes import KeyChange, Operation, check_values, merged
from headrace.controller.core.elections import TopicRules
from headrace.controller.core.isr_changes import IsrReport, decide_isr
from headrace.controller.core.partition_states import Election
from headrace.controller.core.topics import NewTopic, PlacementDraw
from headrace.controller.election_policy import ElectionPolicy
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.kernel.ids import TopicPartition


def _given(config: BrokerConfig) -> BrokerConfig:
    return config


def broker(broker_id: int, epoch: int = 1, rack: str | None = None) -> BrokerInfo:
    return BrokerInfo(broker_id, epoch, (Endpoint("PLAINTEXT", "h", 9092 + broker_id, "PLAINTEXT"),), rack)


def cluster(*infos: PartitionInfo, brokers: int = 3) -> ClusterImage:
    changes = [BrokerRegistered(broker(i)) for i in range(1, brokers + 1)]
    topic = TopicInfo("t", UUID(int=1), infos or (PartitionInfo(1, 5, 7, (1, 2, 3), (1, 2, 3)),))
    return apply(ClusterImage(), [*changes, TopicCreated(topic)], 1)


def rules(min_insync: int = 1, unclean: bool = False) -> elections.RulesOf:
    return lambda _: TopicRules(min_insync, unclean)


def after(image: ClusterImage, decided: elections.ElectionResult) -> ClusterImage:
    return apply(image, decided.changes, image.version + 1)


def missing(image: ClusterImage, *, is_offline: bool = False) -> ReplicaLosses:
    """The log of t-0."""
    return ReplicaLosses(frozenset({(image.topics["t"].id, 0)}), is_offline=is_offline)


def code_of(call: object, *args: object, **options: object) -> ErrorCode:
    with pytest.raises(Fault) as caught:
        call(*args, **options)  # type: ignore[operator]
    return caught.value.code


class TestEnoughInSync:
    """min.insync.replicas moves while replicas are eligible that left the in-sync set when it was too small."""

    def test_an_eligible_replica_may_not_lead_once_the_isr_commits_without_it(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1,), (1, 2, 3), eligible=(2, 3)))
        assert not elections.min_insync_changed(image, rules(2), ["t"]).changes, "nothing commits yet"
        now = after(image, elections.min_insync_changed(image, rules(1), ["t"]))
        info = now.partition("t", 0)
        assert info is not None
        assert (info.leader, info.isr, info.eligible, info.leader_epoch) == (1, (1,), (), 5)
        info = after(now, elections.membership_changed(now, {2: (broker(2), True)}, rules(1))).partition("t", 0)
        assert info is not None
        assert info.leader == NO_LEADER

    def test_a_setting_and_its_consequences_are_one_change(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1,), (1, 2, 3), eligible=(2, 3)))
        image = apply(image, [ConfigSet("broker", "", {"min.insync.replicas": "2"})], 2)
        config = load_broker_config({"broker.id": "1"}).with_dynamic({}, {"min.insync.replicas": "2"})
        obeyed = ElectionPolicy(lambda: config)
        for resource in (("topic", "t"), ("broker", "")):
            lower = [(*resource, [KeyChange("min.insync.replicas", Operation.SET, "1")])]
            decision = change_configs(obeyed, lower, validate_only=False)(image)
            assert [type(change) for change in decision.changes] == [PartitionChanged, ConfigSet], resource
            info = apply(image, decision.changes, 3).partition("t", 0)
            assert info is not None
            assert info.eligible == ()


class TestMembership:
    def test_a_dead_brokers_partitions_get_new_leaders(self) -> None:
        image = cluster()
        decided = elections.membership_changed(image, {2: (broker(2), True), 3: (broker(3), True)}, rules())
        now = after(image, decided)
        info = now.partition("t", 0)
        assert info is not None
        assert (info.leader, info.isr) == (2, (2, 3))
        assert 1 not in now.brokers
        assert now.fenced_brokers[1].fenced, "it stays registered"

    def test_a_broker_with_another_epoch_has_restarted(self) -> None:
        image = cluster()
        present = {1: (broker(1, 9), True), 2: (broker(2), True), 3: (broker(3), True)}
        info = after(image, elections.membership_changed(image, present, rules())).partition("t", 0)
        assert info is not None
        assert (info.leader, info.isr) == (2, (2, 3))

    def test_the_only_replica_leads_again_in_a_new_epoch(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1,), (1,)), brokers=1)
        for clean in (True, False):
            decided = elections.membership_changed(image, {1: (broker(1, 9), clean)}, rules())
            info = after(image, decided).partition("t", 0)
            assert info is not None
            assert (info.leader, info.isr, info.leader_epoch) == (1, (1,), 6)
            assert bool(decided.from_last_known) == (not clean)

    def test_after_a_crash_of_all_replicas_only_the_last_leader_may_lead(self) -> None:
        image = cluster()
        for back in ([2], [2, 3]):
            present = {i: (broker(i, 9), False) for i in back}
            image = after(image, elections.membership_changed(image, present, rules(2)))
            info = image.partition("t", 0)
            assert info is not None and info.leader == NO_LEADER
        image = after(
            image, elections.membership_changed(image, {i: (broker(i, 9), False) for i in (1, 2, 3)}, rules(2))
        )
        info = image.partition("t", 0)
        assert info is not None
        assert (info.leader, info.isr) == (1, (1,))

    def test_nothing_changes_without_a_membership_change(self) -> None:
        image = cluster()
        present = {i: (broker(i), True) for i in (1, 2, 3)}
        assert elections.membership_changed(image, present, rules()).changes == []

    def test_a_stopping_broker_moves_its_leadership_first(self) -> None:
        alone = PartitionInfo(1, 0, 0, (1,), (1,))
        image = cluster(PartitionInfo(1, 5, 7, (1, 2), (1, 2)), alone)
        now = after(image, elections.shutting_down(image, 1, rules()))
        moved, stays = now.topics["t"].partitions
        assert (moved.leader, moved.isr) == (2, (2,))
        assert stays == alone
        assert now.brokers[1].shutting_down
        assert not elections.leads_movable(now, 1)

    def test_replicas_on_a_failed_disk_leave_the_isr(self) -> None:
        image = cluster()
        now = after(image, elections.losses_reported(image, 1, missing(image, is_offline=True), rules()))
        info = now.partition("t", 0)
        assert info is not None
        assert (info.leader, info.isr) == (2, (2, 3))
        assert elections.losses_reported(now, 1, missing(image, is_offline=True), rules()).changes == []

    def test_a_registration_that_names_losses_comes_before_any_election(self) -> None:
        """Broker 1 was the last leader. It returns without its log, in the same change as the others."""
        image = cluster(PartitionInfo(NO_LEADER, 5, 7, (), (1, 2, 3), last_known_eligible=(1,)), brokers=0)
        present = {i: (broker(i, 9), i == 3) for i in (1, 2, 3)}
        present[1] = (replace(broker(1, 9), losses=missing(image)), True)
        now = after(image, elections.membership_changed(image, present, rules(2)))
        assert (info := now.partition("t", 0)) is not None and info.leader == NO_LEADER
        code, _, elected = elections.elect(now, "t", 0, Election.UNCLEAN, rules(2))
        assert code == 0 and elected is not None and elected.info.leader == 2
        present[1] = (broker(1, 11), False)
        back = after(now, elections.membership_changed(now, present, rules(2)))
        assert (info := back.partition("t", 0)) is not None and info.leader == 1, "its log is there again"

    def test_a_late_report_of_a_new_log_costs_no_place_in_the_isr(self) -> None:
        """The replica has fetched its records again before the report about its empty log arrives."""
        image = cluster(PartitionInfo(1, 5, 7, (1, 2), (1, 2)))
        lost = missing(image)
        returned = replace(image.brokers[1], losses=lost)
        image = replace(image, brokers={**image.brokers, 1: returned})
        now = after(image, elections.losses_reported(image, 1, ReplicaLosses(incomplete=lost.missing), rules()))
        assert (info := now.partition("t", 0)) is not None and (info.leader, info.isr) == (1, (1, 2))
        assert now.brokers[1].losses == ReplicaLosses(incomplete=lost.missing)

    def test_the_end_of_a_loss_elects_the_replica_that_waits_for_it(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1,), (1, 2)), brokers=1)
        now = after(image, elections.losses_reported(image, 1, missing(image), rules()))
        assert (info := now.partition("t", 0)) is not None and info.leader == NO_LEADER
        now = after(now, elections.losses_reported(now, 1, NO_LOSSES, rules()))
        assert (info := now.partition("t", 0)) is not None and (info.leader, info.isr) == (1, (1,))

    def test_request_names_an_offline_directory(self) -> None:
        image = cluster(PartitionInfo(NO_LEADER, 5, 7, (), (1, 2), last_known_eligible=(1,)), brokers=1)
        image = after(image, elections.losses_reported(image, 1, missing(image, is_offline=True), rules()))
        code, why, _ = elections.elect(image, "t", 0, Election.UNCLEAN, rules())
        assert code == ErrorCode.eligible_leaders_not_available
        assert why == (
            "the logs of t-0 on 1 live broker [1] are in a log directory that is offline: repair it, or remove it from "
            "log.dirs, and start the broker again"
        )

    def test_replica_on_a_failed_disk_is_not_added_to_the_isr(self) -> None:
        image = after(image := cluster(), elections.losses_reported(image, 3, missing(image, is_offline=True), rules()))
        info = image.topics["t"].partitions[0]
        assert info.isr == (1, 2)
        report = IsrReport("t", 0, info.leader_epoch, info.partition_epoch, [(1, -1), (2, -1), (3, -1)])
        assert decide_isr(image, 1, report, rules()).error == ErrorCode.ineligible_replica
        image = after(image, elections.losses_reported(image, 3, missing(image), rules()))
        assert decide_isr(image, 1, report, rules()).error == ErrorCode.none, "it has fetched the records"

    def test_a_full_disk_costs_leadership_and_the_place_in_the_isr_but_not_eligibility(self) -> None:
        zero = [TopicPartition("t", 0)]
        now = after(image := cluster(), elections.replicas_full(image, 1, zero, rules(2)))
        assert (info := now.partition("t", 0)) is not None
        assert (info.leader, info.isr, info.eligible) == (2, (2, 3), ())
        now = after(now, elections.replicas_full(now, 2, zero, rules(2)))
        assert (info := now.partition("t", 0)) is not None
        assert (info.leader, info.isr, info.eligible) == (3, (3,), (2,))
        assert elections.replicas_full(now, 3, zero, rules(2)).changes == [], "nobody else could go on"
        assert elections.replicas_full(now, 1, zero, rules(2)).changes == [], "it is out already"

    def test_a_new_controller_applies_its_own_setting_of_unclean_elections(self) -> None:
        waits = PartitionInfo(NO_LEADER, 5, 7, (), (9, 2), eligible=(9,), last_known_eligible=(9,))
        image = cluster(waits, PartitionInfo(1, 5, 7, (1, 2), (1, 2)))
        for allowed in (False, True):
            config = load_broker_config({"unclean.leader.election.enable": str(allowed).lower()})
            obeyed = ElectionPolicy(partial(_given, config))
            decision = partition_operations.elect_where_allowed(obeyed)(image)
            elected = [change.info.leader for change in decision.changes if isinstance(change, PartitionChanged)]
            assert (elected, obeyed.unclean_elections) == (([2], 1) if allowed else ([], 0))

    def test_leadership_goes_back_when_it_is_uneven(self) -> None:
        away = PartitionInfo(2, 5, 7, (1, 2, 3), (1, 2, 3))
        home = PartitionInfo(1, 5, 7, (1, 2, 3), (1, 2, 3))
        assert elections.rebalanced(cluster(away, *[home] * 19), 10, rules()).changes == []
        decided = elections.rebalanced(cluster(away, away, home), 10, rules())
        assert [change.info.leader for change in decided.changes if isinstance(change, PartitionChanged)] == [1, 1]

    def test_refused_elections_have_a_reason(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1, 2), (1, 2)), PartitionInfo(2, 5, 7, (2,), (1, 2)))
        code, _, _ = elections.elect(image, "t", 0, Election.PREFERRED, rules())
        assert code is ErrorCode.election_not_needed
        code, why, _ = elections.elect(image, "t", 1, Election.PREFERRED, rules())
        assert code is ErrorCode.preferred_leader_not_available and why
        code, _, _ = elections.elect(image, "x", 0, Election.PREFERRED, rules())
        assert code is ErrorCode.unknown_topic_or_partition


class TestReports:
    def report(self, *members: tuple[int, int], epoch: int = 5, version: int = 7) -> IsrReport:
        return IsrReport("t", 0, epoch, version, members)

    def test_the_report_of_a_leader_is_accepted(self) -> None:
        answer = decide_isr(cluster(), 1, self.report((1, 1), (2, 1)), rules())
        assert answer.error is ErrorCode.none and answer.info is not None
        assert (answer.info.isr, answer.info.partition_epoch) == ((1, 2), 8)

    def test_a_report_on_a_deleted_topic_does_not_affect_a_new_one_of_the_same_name(self) -> None:
        report = replace(self.report((1, 1), (2, 1)), topic_id=UUID(int=77))
        assert decide_isr(cluster(), 1, report, rules()).error is ErrorCode.unknown_topic_id
        assert decide_isr(cluster(), 1, replace(report, topic_id=UUID(int=1)), rules()).error is ErrorCode.none

    def test_a_report_of_the_unchanged_isr_raises_the_partition_epoch(self) -> None:
        """So that late copies of older reports are refused."""
        image = cluster()
        before = image.partition("t", 0)
        assert before is not None
        answer = decide_isr(image, 1, self.report(*((member, 1) for member in before.isr)), rules())
        assert answer.error is ErrorCode.none and answer.info is not None
        assert (answer.info.isr, answer.info.partition_epoch) == (before.isr, before.partition_epoch + 1)
        assert answer.settled is not None

    @pytest.mark.parametrize(
        ("sender", "report", "code"),
        [
            (1, {"members": [(1, 1), (2, 1)], "epoch": 4}, ErrorCode.fenced_leader_epoch),
            (1, {"members": [(1, 1), (2, 1)], "epoch": 6}, ErrorCode.not_controller),
            (1, {"members": [(1, 1), (2, 1)], "version": 6}, ErrorCode.invalid_update_version),
            (1, {"members": [(1, 1), (2, 1)], "version": 8}, ErrorCode.not_controller),
            (2, {"members": [(1, 1), (2, 1)]}, ErrorCode.invalid_request),
            (1, {"members": [(2, 1)]}, ErrorCode.invalid_request),
            (1, {"members": [(1, 1), (9, 1)]}, ErrorCode.invalid_request),
            (1, {"members": [(1, 1), (2, 8)]}, ErrorCode.ineligible_replica),
        ],
    )
    def test_stale_and_wrong_reports_are_refused(self, sender: int, report: dict[str, Any], code: ErrorCode) -> None:
        made = self.report(*report["members"], epoch=report.get("epoch", 5), version=report.get("version", 7))
        assert decide_isr(cluster(), sender, made, rules()).error is code

    def test_a_dead_member_cannot_join(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1,), (1, 2, 9)), brokers=2)
        assert decide_isr(image, 1, self.report((1, 1), (9, 1)), rules()).error is ErrorCode.ineligible_replica

    def test_a_report_that_ends_a_reassignment_moves_leadership(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1,), (2, 1), adding=(2,), removing=(1,)))
        answer = decide_isr(image, 1, self.report((1, 1), (2, 1)), rules())
        assert answer.error is ErrorCode.new_leader_elected and answer.info is not None
        assert (answer.info.leader, answer.info.replicas, answer.info.isr) == (2, (2,), (2,))


class TestTopics:
    def new(self, asked: NewTopic) -> TopicInfo:
        return topics.new_topic(cluster(), asked, UUID(int=9), PlacementDraw(), default_partitions=2, default_factor=1)

    def test_defaults_fill_in(self) -> None:
        assert len(self.new(NewTopic("n")).partitions) == 2

    def test_every_partition_starts_with_a_leader_and_all_in_sync(self) -> None:
        for info in self.new(NewTopic("n", 6, 3)).partitions:
            assert info.leader == info.replicas[0]
            assert set(info.isr) == {1, 2, 3}

    @pytest.mark.parametrize(
        ("asked", "code", "words"),
        [
            (NewTopic("t"), ErrorCode.topic_already_exists, "already exists"),
            (NewTopic("a/b"), ErrorCode.invalid_topic_exception, "a/b"),
            (NewTopic("."), ErrorCode.invalid_topic_exception, "'.'"),
            (NewTopic("n", 0), ErrorCode.invalid_partitions, "0"),
            (NewTopic("n", -5), ErrorCode.invalid_partitions, "-5"),
            (NewTopic("n", 20_000), ErrorCode.policy_violation, "10000"),
            (NewTopic("n", 1, 4), ErrorCode.invalid_replication_factor, "4 .*3 broker"),
            (NewTopic("n", 1, 0), ErrorCode.invalid_replication_factor, "0"),
            (NewTopic("n", 1, -1, {0: [1]}), ErrorCode.invalid_request, "numPartitions"),
            (NewTopic("n", -1, 1, {0: [1]}), ErrorCode.invalid_request, "replication factor"),
            (NewTopic("n", -1, -1, {1: [1]}), ErrorCode.invalid_replica_assignment, "0-based"),
            (NewTopic("n", -1, -1, {0: [1, 1]}), ErrorCode.invalid_replica_assignment, "more than once"),
            (NewTopic("n", -1, -1, {0: [8]}), ErrorCode.invalid_replica_assignment, "broker 8"),
            (NewTopic("n", -1, -1, {0: [1, 2], 1: [1]}), ErrorCode.invalid_replica_assignment, "n-1"),
        ],
    )
    def test_invalid_topics_are_refused_with_a_reason(self, asked: NewTopic, code: ErrorCode, words: str) -> None:
        with pytest.raises(Refused, match=words) as caught:
            self.new(asked)
        assert caught.value.code is code

    def test_names_that_differ_by_dot_and_underscore_collide(self) -> None:
        image = apply(cluster(), [TopicCreated(TopicInfo("a.b", UUID(int=4), ()))], 2)
        assert code_of(topics.check_name, image, "a_b") is ErrorCode.invalid_topic_exception

    def test_growth_only_grows(self) -> None:
        image = cluster()
        assert len(topics.more_partitions(image, "t", 4, None, PlacementDraw())) == 3
        assert len(topics.more_partitions(image, "t", 2, [[3, 2, 1]], PlacementDraw())) == 1
        for name, count, assignment, code in [
            ("x", 2, None, ErrorCode.unknown_topic_or_partition),
            ("t", 1, None, ErrorCode.invalid_partitions),
            ("t", 0, None, ErrorCode.invalid_partitions),
            ("t", 3, [[1, 2, 3]], ErrorCode.invalid_replica_assignment),
            ("t", 2, [[1]], ErrorCode.invalid_replica_assignment),
        ]:
            assert code_of(topics.more_partitions, image, name, count, assignment, PlacementDraw()) is code

    def test_new_partitions_get_the_replication_factor_of_a_running_reassignment(self) -> None:
        image = cluster(PartitionInfo(1, 5, 7, (1, 2), (3, 1, 2), adding=(3,), removing=(1, 2)))
        (info,) = topics.more_partitions(image, "t", 2, None, PlacementDraw())
        assert len(info.replicas) == 1


class TestSettings:
    def test_operations_on_overrides(self) -> None:
        def merge(*changes: KeyChange, **current: str) -> dict[str, str]:
            renamed = {name.replace("_", "."): value for name, value in current.items()}
            return merged(renamed, changes, TOPIC_KEYS, lambda _: "delete")

        assert merge(KeyChange("retention.ms", 0, "5")) == {"retention.ms": "5"}
        assert merge(KeyChange("retention.ms", 1, None), retention_ms="5") == {}
        assert merge(KeyChange("cleanup.policy", 2, "compact")) == {"cleanup.policy": "delete,compact"}
        assert merge(KeyChange("cleanup.policy", 3, "delete"), cleanup_policy="delete,compact") == {
            "cleanup.policy": "compact"
        }
        for wrong, code in [
            ([KeyChange("retention.ms", 2, "5")], ErrorCode.invalid_config),
            ([KeyChange("retention.ms", 0, None)], ErrorCode.invalid_request),
            ([KeyChange("retention.ms", 7, "5")], ErrorCode.invalid_request),
            ([KeyChange("retention.ms", 0, "5")] * 2, ErrorCode.invalid_request),
        ]:
            assert code_of(merge, *wrong) is code

    def test_values_are_checked_before_they_are_stored(self) -> None:
        config = load_broker_config({})
        for kind, values in [
            ("topic", {"retention.ms": "soon"}),
            ("topic", {"no.such.key": "1"}),
            ("group", {"no.such.key": "1"}),
            ("client-metrics", {"interval.ms": "soon"}),
            ("client-metrics", {"match": "planet=earth"}),
            ("client-metrics", {"metrics": "a,,b"}),
        ]:
            assert code_of(check_values, kind, "x", values, config) is ErrorCode.invalid_config
        for key, value in [("interval.ms", "1"), ("no.such.key", "1")]:
            assert code_of(check_values, "client-metrics", "x", {key: value}, config) is ErrorCode.invalid_request

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("num.io.threads", "3"),
            ("num.io.threads", "17"),
            ("max.connections", "0"),
            ("max.connection.creation.rate", "0"),
            ("max.connections.per.ip", "0"),
            ("max.connections.per.ip.overrides", "nobody"),
        ],
    )
    def test_a_running_broker_refuses_settings_that_would_lock_out_all_clients(self, key: str, value: str) -> None:
        assert code_of(check_values, "broker", "", {key: value}, load_broker_config({})) is ErrorCode.invalid_request

    def test_feature_levels_move_within_their_range(self) -> None:
        image = ClusterImage(features=INITIAL_LEVELS)
        assert features.change_level(image, "group.version", 1, 1) is None
        assert features.change_level(image, "group.version", 0, 2) is not None
        for name, level, how in [("nope", 1, 1), ("group.version", 9, 1), ("group.version", 0, 1)]:
            assert code_of(features.change_level, image, name, level, how) is ErrorCode.invalid_update_version

    def test_a_level_that_one_broker_does_not_support_is_not_finalized(self) -> None:
        old = BrokerInfo(7, 70, (), features=(("transaction.version", 0, 1),))
        image = ClusterImage(brokers={7: old}, features={"metadata.version": 30})
        assert features.change_level(image, "transaction.version", 1, 1) is not None
        with pytest.raises(Refused, match="Broker 7 only supports versions 0-1"):
            features.change_level(image, "transaction.version", 2, 1)
        with pytest.raises(Refused, match="Broker 7 does not support this feature"):
            features.change_level(image, "group.version", 1, 1)

    def test_a_broker_that_does_not_support_the_finalized_levels_does_not_join(self) -> None:
        old = BrokerInfo(7, 70, (), features=(("metadata.version", 7, 30), ("transaction.version", 0, 1)))
        untold = BrokerInfo(8, 80, ())
        present = {7: (old, True), 8: (untold, True)}
        image = ClusterImage(features={"metadata.version": 30, "transaction.version": 2})
        assert fit_members(image, present).keys() == {8}
        assert "transaction.version at level 2, broker 7 supports 0 to 1" in (why_unfit(image, old) or "")
        assert fit_members(replace(image, brokers={7: old}), present).keys() == {7, 8}  # a member stays one
        assert why_unfit(ClusterImage(), old) is None

    def test_quotas(self) -> None:
        image = ClusterImage()
        entity = quotas.entity_of([("client-id", "c"), ("user", None)])
        assert entity == (("client-id", "c"), ("user", None))
        changes = quotas.altered(image, entity, [("producer_byte_rate", 100.0, False)])
        image = apply(image, changes, 1)
        assert quotas.matching(image, [("user", 1, None)], strict=False) == {entity: {"producer_byte_rate": 100.0}}
        assert quotas.matching(image, [("user", 1, None)], strict=True) == {}
        assert quotas.matching(image, [("client-id", 0, "other")], strict=False) == {}
        image = apply(image, quotas.altered(image, entity, [("producer_byte_rate", 0.0, True)]), 2)
        assert image.quotas == {}
        for parts, ops in [
            ([], []),
            ([("planet", "x")], []),
            ([("user", "")], []),
            ([("user", "u"), ("ip", "1.1.1.1")], []),
            ([("user", "u")], [("nope", 1.0, False)]),
            ([("user", "u")], [("producer_byte_rate", -1.0, False)]),
        ]:
            with pytest.raises(Refused) as caught:
                quotas.altered(image, quotas.entity_of(parts), ops)
            assert caught.value.code is ErrorCode.invalid_request

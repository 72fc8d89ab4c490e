"""Overrides, quotas and feature levels: operations for the ledger. An error of one resource affects only that
resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.cluster.core.changes import Change, ConfigSet
from headrace.cluster.core.image import ClusterImage, QuotaEntity
from headrace.config.topic_config import canonical_topic_name
from headrace.controller.core import features, quotas, scram_changes
from headrace.controller.core.config_changes import (
    MIN_INSYNC,
    TABLES,
    KeyChange,
    change_for,
    check_min_insync,
    check_named,
    check_resource,
    check_values,
    effective_text,
    merged,
    replaced,
)
from headrace.controller.election_policy import ElectionPolicy
from headrace.controller.ledger import Decision
from headrace.controller.partition_operations import allowed_unclean, min_insync_changed
from headrace.controller.results import NamedResult, ResourceResult
from headrace.kernel.errors import ErrorCode, Fault, Refused

Given = TypeVar("Given")

# (entity parts, operations as (key, value, remove))
QuotaRequest = tuple[Sequence[tuple[str, str | None]], Sequence[tuple[str, float, bool]]]
_UNCLEAN = "unclean.leader.election.enable"


def replace_configs(
    policy: ElectionPolicy, resources: Sequence[tuple[str, str, Mapping[str, str | None]]], *, validate_only: bool
) -> Callable[[ClusterImage], Decision[list[ResourceResult]]]:
    def new_values(
        image: ClusterImage, resource_type: str, name: str, given: Mapping[str, str | None]
    ) -> dict[str, str]:
        return replaced(given)

    return _altered(policy, resources, new_values, validate_only)


def change_configs(
    policy: ElectionPolicy, resources: Sequence[tuple[str, str, Sequence[KeyChange]]], *, validate_only: bool
) -> Callable[[ClusterImage], Decision[list[ResourceResult]]]:
    def new_values(image: ClusterImage, resource_type: str, name: str, given: Sequence[KeyChange]) -> dict[str, str]:
        effective = effective_text(image, resource_type, name, policy.config)
        if resource_type == "topic":
            # Overrides are stored under Kafka's names, so a change under another spelling must change the same key.
            given = [replace(change, name=canonical_topic_name(change.name)) for change in given]
        return merged(image.config_of(resource_type, name), given, TABLES.get(resource_type, {}), effective)

    return _altered(policy, resources, new_values, validate_only)


def _altered(
    policy: ElectionPolicy,
    resources: Sequence[tuple[str, str, Given]],
    new_values: Callable[[ClusterImage, str, str, Given], dict[str, str]],
    validate_only: bool,
) -> Callable[[ClusterImage], Decision[list[ResourceResult]]]:
    def decide(image: ClusterImage) -> Decision[list[ResourceResult]]:
        results: list[ResourceResult] = []
        changes: list[Change] = []
        unclean_for: list[str] = []
        cluster_wide = False
        for resource_type, name, given in resources:
            try:
                check_named(resource_type, name)
                # Checks names and values first, then the existence of the resource, as Kafka does.
                values = check_values(resource_type, name, new_values(image, resource_type, name, given), policy.config)
                check_resource(image, resource_type, name)
                check_min_insync(image, resource_type, name, values)
            except Fault as fault:
                results.append(ResourceResult(resource_type, name, fault.code, fault.message or None))
                continue
            changes += change_for(image, resource_type, name, values)
            results.append(ResourceResult(resource_type, name))
            if values.get(_UNCLEAN) == "true":
                unclean_for += [name] if resource_type == "topic" else []
                cluster_wide = cluster_wide or (resource_type == "broker" and not name)
        # Before the settings: a list may be stored in parts, and no leader may commit alone while others may still
        # lead.
        changes = [*_no_longer_eligible(policy, image, changes), *changes]
        if unclean_for or cluster_wide:
            changes += allowed_unclean(policy, image, changes, None if cluster_wide else unclean_for)
        return Decision(results, [] if validate_only else changes)

    return decide


def _no_longer_eligible(policy: ElectionPolicy, image: ClusterImage, changes: Sequence[Change]) -> list[Change]:
    moved = [
        change
        for change in changes
        if isinstance(change, ConfigSet)
        and change.values.get(MIN_INSYNC) != image.config_of(change.resource_type, change.name).get(MIN_INSYNC)
    ]
    topics = [change.name for change in moved if change.resource_type == "topic"]
    for_all = any(change.resource_type == "broker" and not change.name for change in moved)
    return min_insync_changed(policy, image, changes, None if for_all else topics) if topics or for_all else []


def alter_quotas(
    entries: Sequence[QuotaRequest], *, validate_only: bool
) -> Callable[[ClusterImage], Decision[list[tuple[ErrorCode, str | None]]]]:
    def decide(image: ClusterImage) -> Decision[list[tuple[ErrorCode, str | None]]]:
        results: list[tuple[ErrorCode, str | None]] = []
        changes: dict[QuotaEntity, Change] = {}
        given = [dict(parts) for parts, _ in entries]
        for parts, ops in entries:
            try:
                if given.count(dict(parts)) > 1:
                    raise Refused(ErrorCode.invalid_request, f"client quota entity {dict(parts)} is given twice")
                entity = quotas.entity_of(parts)
                for change in quotas.altered(image, entity, ops):
                    changes[entity] = change
            except Fault as fault:
                results.append((fault.code, fault.message or None))
                continue
            results.append((ErrorCode.none, None))
        return Decision(results, [] if validate_only else list(changes.values()))

    return decide


def alter_scram_credentials(
    deletions: Sequence[scram_changes.ScramDeletion],
    upsertions: Sequence[scram_changes.ScramUpsertion],
    new_secret: str,
) -> Callable[[ClusterImage], Decision[list[scram_changes.ScramResult]]]:
    def decide(image: ClusterImage) -> Decision[list[scram_changes.ScramResult]]:
        return Decision(*scram_changes.altered(image, deletions, upsertions, new_secret))

    return decide


def update_features(
    updates: Sequence[tuple[str, int, int]], *, validate_only: bool
) -> Callable[[ClusterImage], Decision[list[NamedResult]]]:
    """(name, level, upgrade type). All or nothing, as Kafka does it since version 2 of the request."""

    def decide(image: ClusterImage) -> Decision[list[NamedResult]]:
        results: list[NamedResult] = []
        changes: list[Change] = []
        for name, level, upgrade_type in updates:
            try:
                change = features.change_level(image, name, level, upgrade_type)
            except Fault as fault:
                results.append(NamedResult(name, fault.code, fault.message))
                continue
            changes += [change] if change is not None else []
            results.append(NamedResult(name))
        refused = any(result.error is not ErrorCode.none for result in results)
        return Decision(results, [] if validate_only or refused else changes)

    return decide

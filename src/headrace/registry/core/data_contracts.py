"""Merges the metadata and rules of a version: its own, those of the previous version, and defaults and overrides of the
configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.content import VERSION_PROPERTY, Content

Part = Mapping[str, JsonValue] | None
_RULE_LISTS = ("migrationRules", "domainRules", "encodingRules")


def with_contract(
    content: Content,
    previous: Content | None,
    config: Mapping[str, JsonValue],
    new_version: int | None,
    asked_version: int,
) -> Content:
    """`new_version` is None in a look-up. The version number in the metadata is set to the new version."""
    metadata = content.metadata if content.metadata is not None or previous is None else previous.metadata
    rules = content.rule_set if content.rule_set is not None or previous is None else previous.rule_set
    metadata = _merged_metadata(
        _merged_metadata(config.get("defaultMetadata"), metadata), config.get("overrideMetadata")
    )
    rules = _merged_rules(_merged_rules(config.get("defaultRuleSet"), rules), config.get("overrideRuleSet"))
    named = metadata is not None and VERSION_PROPERTY in (metadata.get("properties") or {})
    if new_version is not None and (asked_version != 0 or named):
        properties = {**((metadata or {}).get("properties") or {}), VERSION_PROPERTY: str(new_version)}
        metadata = {**(metadata or {}), "properties": properties}
    return Content(content.text, content.type, content.references, metadata, rules)


def merged_rules(first: Part, second: Part, removed: Collection[str] = ()) -> Part:
    """`second` over `first`, without the rules whose names are `removed`."""
    rules = _merged_rules(first, second)
    if rules is None or not removed:
        return rules
    kept = {
        group: [rule for rule in rules.get(group) or () if rule.get("name") not in removed] for group in _RULE_LISTS
    }
    return {group: found for group, found in kept.items() if found}


def _merged_metadata(first: Part, second: Part) -> Part:
    if first is None or second is None:
        return second if first is None else first
    tags: dict[str, JsonValue] = dict(first.get("tags") or {})
    for path, names in (second.get("tags") or {}).items():
        tags[path] = sorted({*tags.get(path, ()), *names})
    parts = {
        "tags": tags,
        "properties": {**(first.get("properties") or {}), **(second.get("properties") or {})},
        "sensitive": sorted({*(first.get("sensitive") or ()), *(second.get("sensitive") or ())}),
    }
    return {name: value for name, value in parts.items() if value}


def _merged_rules(first: Part, second: Part) -> Part:
    """A rule of the second set replaces the rule with the same name in the first."""
    if first is None or second is None:
        return second if first is None else first
    merged: dict[str, JsonValue] = {}
    for group in _RULE_LISTS:
        later = list(second.get(group) or ())
        names = {rule.get("name") for rule in later}
        rules = [rule for rule in first.get(group) or () if rule.get("name") not in names] + later
        if rules:
            merged[group] = rules
    return merged

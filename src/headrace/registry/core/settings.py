"""Compatibility levels and modes, and where a subject inherits them from.

A subject without a setting inherits that of its context, then the global one (`:.__GLOBAL:` for every context; the
plain global setting belongs to the default context), then the default: BACKWARD and READWRITE.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headrace.kernel.json_values import JsonValue
from headrace.registry.core.errors import Code, Unprocessable
from headrace.registry.core.state import State
from headrace.registry.core.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT, GLOBAL_SCOPE, QualifiedSubject


class Level(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def new_reads_old(self) -> bool:
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        return self.endswith("_TRANSITIVE")


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)

    @property
    def imports(self) -> bool:
        return self in (Mode.IMPORT, Mode.FORWARD)


LEVEL: Final = "compatibilityLevel"
_POLICIES: Final = ("STRICT", "LENIENT")
_FIELDS: Final = (
    "alias",
    "normalize",
    "validateFields",
    "validateRules",
    LEVEL,
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)


def config_changes(body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The settings in a request. None removes a setting. Unknown fields are ignored. Raises 42203."""
    changes = {name: body[name] for name in _FIELDS if name in body}
    if "compatibility" in body:
        changes[LEVEL] = body["compatibility"]
    level = changes.get(LEVEL)
    if level is not None:
        if not isinstance(level, str) or level.upper() not in Level.__members__:
            raise Unprocessable(
                Code.INVALID_LEVEL,
                f"Invalid compatibility level {level!r}. Valid values are {', '.join(Level.__members__)}",
            )
        changes[LEVEL] = level.upper()
    policy = changes.get("compatibilityPolicy")
    if policy is not None and policy not in _POLICIES:
        raise Unprocessable(
            Code.INVALID_LEVEL, f"Invalid compatibilityPolicy {policy!r}. Valid values are {', '.join(_POLICIES)}"
        )
    return changes


def merged(config: Mapping[str, JsonValue] | None, changes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    together = {**(config or {}), **changes}
    return {name: together[name] for name in _FIELDS if together.get(name) is not None}


def config_of(state: State, subject: str | None) -> dict[str, JsonValue] | None:
    """The subject's own configuration; the global one always exists."""
    own = state.configs.get(subject)
    if own is None and not _is_global(subject):
        return None
    return {LEVEL: Level.BACKWARD.value, **merged(own, {})}


def config_in_scope(state: State, subject: str | None) -> dict[str, JsonValue]:
    for scope in _scopes(subject):
        if scope in state.configs:
            return {LEVEL: Level.BACKWARD.value, **merged(state.configs[scope], {})}
    return {LEVEL: Level.BACKWARD.value}


def mode_of(state: State, subject: str | None) -> Mode | None:
    own = state.modes.get(subject)
    if own is None:
        return Mode.READWRITE if _is_global(subject) else None
    return Mode(own)


def mode_in_scope(state: State, subject: str | None) -> Mode:
    for scope in _scopes(subject):
        if scope in state.modes:
            return Mode(state.modes[scope])
    return Mode.READWRITE


def mode_named(text: JsonValue) -> Mode:
    if not isinstance(text, str) or text.upper() not in Mode.__members__:
        raise Unprocessable(Code.INVALID_MODE, f"Invalid mode {text!r}. Valid values are {', '.join(Mode.__members__)}")
    return Mode(text.upper())


def _is_global(subject: str | None) -> bool:
    return subject is None or QualifiedSubject.parse(subject).context == GLOBAL_CONTEXT


def _scopes(subject: str | None) -> tuple[str | None, ...]:
    if subject is None:
        return (None, GLOBAL_SCOPE)
    own = QualifiedSubject.parse(subject)
    return (subject, None if own.context == DEFAULT_CONTEXT else own.scope, GLOBAL_SCOPE)

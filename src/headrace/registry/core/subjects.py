"""Subjects and contexts.

A subject may include its context: `:.staging:orders-value` is the subject `orders-value` of the context `.staging`.
Without one it belongs to the default context `.`. Each context has its own ids and versions. `:.ctx:` without a
subject names the context itself, for its configuration and mode. `:*:` stands for all contexts in listings.
"""

from __future__ import annotations

from typing import Final

from headrace.kernel.dataclass import dataclass

DEFAULT_CONTEXT: Final = "."
ALL_CONTEXTS: Final = ":*:"
GLOBAL_CONTEXT: Final = ".__GLOBAL"
GLOBAL_SCOPE: Final = f":{GLOBAL_CONTEXT}:"
_PREFIX: Final = ":."
_RESERVED: Final = ("__GLOBAL", "__EMPTY")


@dataclass(frozen=True, slots=True)
class QualifiedSubject:
    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> QualifiedSubject:
        if text.startswith(_PREFIX):
            context, _, name = text[1:].partition(":")
            return cls(context, name)
        if text.startswith(ALL_CONTEXTS):
            return cls("*", text[len(ALL_CONTEXTS) :])
        return cls(DEFAULT_CONTEXT, text)

    @property
    def scope(self) -> str:
        """The key of the context's own configuration; empty for the default context."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def __str__(self) -> str:
        return self.scope + self.name


def normalized(subject: str) -> str:
    """`:.:orders` and `orders` are the same subject."""
    return str(QualifiedSubject.parse(subject))


def context_of(subject: str) -> str:
    return QualifiedSubject.parse(subject).context


def in_context_of(parent: str, subject: str) -> str:
    """Resolves `subject` in a reference of `parent`: in the same context unless it names one."""
    own = QualifiedSubject.parse(subject)
    if own.context != DEFAULT_CONTEXT:
        return str(own)
    return str(QualifiedSubject(context_of(parent), own.name))


def is_valid(subject: str, *, may_be_scope: bool = False) -> bool:
    """No control characters and no reserved name. The global context has configuration and mode, but no schemas."""
    if any(ord(each) < 32 or 127 <= ord(each) < 160 for each in subject):
        return False
    parsed = QualifiedSubject.parse(subject)
    return parsed.name not in _RESERVED and (may_be_scope or parsed.context != GLOBAL_CONTEXT)


def is_default_scope(subject: str) -> bool:
    """`:.:` names the default context, whose configuration is the global one."""
    parsed = QualifiedSubject.parse(subject)
    return parsed.context == DEFAULT_CONTEXT and not parsed.name


def context_name(text: str) -> str:
    """`staging`, `.staging` and `:.staging:` name the same context."""
    bare = text.strip(":")
    return bare if bare.startswith(".") else f".{bare}"


def matches_prefix(subject: str, prefix: str) -> bool:
    """Whether a listing for `prefix` includes the subject. `:*:` matches every context."""
    if prefix.startswith(ALL_CONTEXTS):
        return QualifiedSubject.parse(subject).name.startswith(prefix[len(ALL_CONTEXTS) :])
    wanted, own = QualifiedSubject.parse(prefix), QualifiedSubject.parse(subject)
    return wanted.context == own.context and own.name.startswith(wanted.name)

"""What the guard tells a route about its caller: which subjects the caller may see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.requests import Request

from headrace.registry.app.rights import Right, Rights
from headrace.registry.core.content import Reference
from headrace.registry.core.subjects import in_context_of
from headrace.web.login import Caller

VISIBLE: Final = "registry_visible"


def caller_of(request: Request) -> Caller | None:
    """None if the brokers need no login."""
    return getattr(request.state, "caller", None)


def is_visible(request: Request, subject: str) -> bool:
    visible = getattr(request.state, VISIBLE, None)
    return visible is None or bool(visible(subject))


async def check_references(request: Request, parent: str, references: Iterable[Reference]) -> None:
    """A schema with references shows what it refers to, so the caller must be able to read that. Raises 40301."""
    rights: Rights | None = request.app.state.rights
    caller = caller_of(request)
    if rights is None or caller is None:
        return
    for reference in references:
        await rights.check(caller, Right.READ, in_context_of(parent, reference.subject))

"""Topics in the description of a group: a client that may not describe one of them does not see the group."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.handlers.dispatch.authorization import Access
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Operation, ResourceType


def require_topics(access: Access, topics: Iterable[str]) -> None:
    """Raises Refused. The message does not name the topic."""
    if not all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        raise Refused(
            ErrorCode.topic_authorization_failed,
            "The group has described topic(s) that the client is not authorized to describe.",
        )

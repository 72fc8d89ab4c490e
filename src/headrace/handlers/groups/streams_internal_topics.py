"""Creates the internal topics of streams applications: repartition and changelog topics.

The coordinator of a streams group names the missing topics with every heartbeat. A creation runs in the background, one
for each topic; the member learns with a later heartbeat that the topic exists, or why it cannot be created. After a
failure the broker waits two heartbeat intervals before it tries again. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from headrace.controller.core.topics import USE_DEFAULT, NewTopic
from headrace.controller.results import TopicResult
from headrace.coordinators.codec.streams_topology import InternalTopicInfo
from headrace.kernel.clock import SYSTEM_CLOCK, Clock
from headrace.kernel.errors import ErrorCode, Fault

log = logging.getLogger(__name__)

_MOST_ERRORS: Final = 1_000
_MOST_SHOWN: Final = 3


class TopicCreator(Protocol):
    """What this module needs of `controller.gateway.ControllerGateway`."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicResult]: ...


class StreamsInternalTopics:
    def __init__(self, creator: TopicCreator, clock: Clock = SYSTEM_CLOCK) -> None:
        self._creator = creator
        self._clock = clock
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Topic → why its creation failed, and until when it is not tried again.
        self._errors: dict[str, tuple[str, int]] = {}

    def begin(self, topics: Mapping[str, InternalTopicInfo], retry_ms: int) -> None:
        self._forget_old_errors()
        wanted = [each for name, each in topics.items() if name not in self._errors and name not in self._under_way]
        if wanted:
            self._under_way.update(each.name for each in wanted)
            task = asyncio.create_task(self._create(wanted, retry_ms))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def errors_of(self, topics: Collection[str]) -> str:
        """Why topics could not be created, or nothing."""
        self._forget_old_errors()
        known = [(name, self._errors[name][0]) for name in topics if name in self._errors]
        shown = ", ".join(f"{name} ({error})" for name, error in known[:_MOST_SHOWN])
        rest = len(known) - _MOST_SHOWN
        return f"{shown} and {rest} more" if rest > 0 else shown

    async def _create(self, topics: list[InternalTopicInfo], retry_ms: int) -> None:
        names = [each.name for each in topics]
        try:
            results = await self._creator.create_topics([_new_topic(each) for each in topics])
            failed = {
                str(each.name): each.message or each.error.name
                for each in results
                if each.error not in (ErrorCode.none, ErrorCode.topic_already_exists)
            }
        except Fault as fault:
            failed = dict.fromkeys(names, fault.message or fault.code.name)
        finally:
            self._under_way.difference_update(names)
        until_ms = self._clock.wall_ms() + retry_ms
        for name, error in failed.items():
            log.warning("internal topic %s of a streams application could not be created: %s", name, error)
            self._errors[name] = (error, until_ms)
        while len(self._errors) > _MOST_ERRORS:
            del self._errors[next(iter(self._errors))]

    def _forget_old_errors(self) -> None:
        now_ms = self._clock.wall_ms()
        for name in [name for name, (_, until_ms) in self._errors.items() if until_ms <= now_ms]:
            del self._errors[name]


def _new_topic(topic: InternalTopicInfo) -> NewTopic:
    replicas = topic.replication_factor or USE_DEFAULT
    return NewTopic(topic.name, topic.partitions, replicas, configs=dict(topic.configs))

"""The single writer of cluster state: runs operations, stores their changes, publishes the next image.

One task owns the image of an active controller. It takes the waiting operations, runs each on the image that the
previous ones left, stores all their changes in one multi, publishes the image, and only then answers. So an answer
means "stored", no operation depends on a change that may still be reverted, and a hundred reports of leaders need one
write.

Every multi begins with a check of /controller_epoch: a controller that was replaced writes nothing (ADR 5). After a
lost connection the outcome is unknown. The ledger then reads the change list of that version: either it is ours, byte
for byte, or it is missing and the ledger writes again. If the store differs in any other way, this controller's image
is wrong: it resigns, and the next controller reads everything again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, Generic, TypeVar

from headrace.cluster.core.changes import Change, ConfigSet, PartitionsAdded, TopicCreated, TopicDeleted, apply
from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.controller import writes
from headrace.controller.core.deletions import clearing_steps
from headrace.coordination import paths
from headrace.coordination.store import (
    BadVersion,
    ConnectionLost,
    Create,
    NodeExists,
    NoNode,
    Op,
    SessionExpired,
    Store,
    StoreFault,
)
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

MAX_WAITING: Final = 10_000
_RETRY_PAUSE: Final = 0.2
_LOSSES_BEFORE_GIVING_UP: Final = 10


@dataclass(slots=True)
class Decision(Generic[Reply]):
    reply: Reply
    changes: Sequence[Change] = ()


Operation = Callable[[ClusterImage], Decision[Any]]  # each with a reply of its own


class Deposed(Refused):
    def __init__(self, why: str) -> None:
        super().__init__(ErrorCode.not_controller, why)


@dataclass(slots=True)
class _Round:
    """The operations of one multi."""

    before: ClusterImage
    after: ClusterImage
    changes: list[Change] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    weight: int = 0

    def add(self, changes: Sequence[Change]) -> None:
        next_image = apply(self.after, changes, self.before.version + 1)
        self.ops += writes.ops_for(changes, self.after, next_image)
        self.changes += changes
        self.weight += sum(map(writes.weight, changes))
        self.after = next_image


class Ledger:
    def __init__(self, store: Store, view: ClusterView, image: ClusterImage, epoch_version: int) -> None:
        self.image = image
        self.deposed = asyncio.Event()
        self._store = store
        self._view = view
        self._epoch_version = epoch_version
        self._waiting: list[tuple[Operation, asyncio.Future[Any]]] = []
        self._wanted = asyncio.Event()
        self._task = asyncio.create_task(self._work(), name="controller ledger")

    async def run(self, operation: Callable[[ClusterImage], Decision[Reply]]) -> Reply:
        """The operation's reply, once its changes are stored and published. Raises what the operation raises."""
        if self.deposed.is_set():
            raise Deposed("this broker is not the controller any more")
        if len(self._waiting) >= MAX_WAITING:
            raise Refused(ErrorCode.request_timed_out, f"{MAX_WAITING} operations already wait for the controller")
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((operation, answered))
        self._wanted.set()
        return await answered

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.resign("this broker's controller was closed")

    def resign(self, why: str) -> None:
        """Starts no further operation; waiting ones get the error."""
        self.deposed.set()
        waiting, self._waiting = self._waiting, []
        for _, answered in waiting:
            if not answered.done():
                answered.set_exception(Deposed(why))

    async def _work(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                while self._waiting:
                    await self._round()
        except Deposed as deposed:
            logger.info("no longer controller: %s", deposed.message)
            self.resign(deposed.message)
        except asyncio.CancelledError:
            raise
        except Exception:
            # A bug, or the store differs from our image. The next controller reads the stored state.
            logger.exception("the controller's ledger failed; resigning")
            self.resign("the controller failed and resigned; its log says why")

    async def _round(self) -> None:
        """Runs as many waiting operations as fit one multi, stores, publishes, answers."""
        image = self.image
        next_round = _Round(image, image)
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        deleted: list[str] = []
        try:
            # A deletion ends the round: its nodes are deleted before the name can be used again.
            while self._waiting and next_round.weight < writes.OPS_PER_MULTI and not deleted:
                operation, answered = self._waiting.pop(0)
                if answered.cancelled():
                    continue
                try:
                    decision = operation(next_round.after)
                    writes.check_paths(decision.changes)
                except Fault as fault:
                    answered.set_exception(fault)
                    continue
                except Exception as bug:  # boundary of an operation: a bug in one must not end the ledger
                    logger.exception("an operation of the controller failed")
                    answered.set_exception(bug)
                    continue
                answers.append((answered, decision.reply))
                deleted += [change.name for change in decision.changes if isinstance(change, TopicDeleted)]
                for part in parts_of(decision.changes):
                    if next_round.changes and next_round.weight + sum(map(writes.weight, part)) > writes.OPS_PER_MULTI:
                        await self._store_round(next_round)
                        next_round = _Round(self.image, self.image)
                    if sum(map(writes.weight, part)) > writes.OPS_PER_MULTI:
                        await self._store_large(part)
                        next_round = _Round(self.image, self.image)
                    else:
                        next_round.add(part)
            await self._store_round(next_round)
        except BaseException as error:
            # After a lost term the request is retried elsewhere. An operation that made the ledger fail must not be
            # retried.
            deposed = isinstance(error, Deposed | asyncio.CancelledError)
            why = Deposed(str(error)) if deposed else Refused(ErrorCode.unknown_server_error, f"not stored: {error}")
            why.__cause__ = error
            for answered, _ in answers:
                if not answered.done():
                    answered.set_exception(why)
            raise
        for answered, reply in answers:
            if not answered.done():
                answered.set_result(reply)
        for name in deleted:
            await self.clear_topic(name)

    async def _store_round(self, next_round: _Round) -> None:
        if not next_round.changes:
            return
        versions = writes.version_ops(next_round.changes, next_round.after)
        await self._write([writes.fence(self._epoch_version), *next_round.ops, *versions])
        self.image = next_round.after
        self._view.publish(self.image)

    async def _store_large(self, part: Sequence[Change]) -> None:
        """A topic (with its overrides) that is too large for one multi: its partitions first, the topic itself last."""
        [*before_it, created] = part
        assert isinstance(created, TopicCreated), created
        for step in writes.large_topic_steps(created.topic, self.image.controller_epoch):
            await self._write([writes.fence(self._epoch_version), *step])
        after_configs = apply(self.image, before_it, self.image.version)
        after = apply(self.image, part, self.image.version + 1)
        ops = [
            writes.fence(self._epoch_version),
            *writes.ops_for(before_it, self.image, after_configs),
            writes.finish_large_topic(created.topic),
            *writes.version_ops(part, after),
        ]
        await self._write(ops)
        self.image = after
        self._view.publish(after)

    async def _write(self, ops: Sequence[Op]) -> None:
        in_doubt = False
        losses = 0
        while True:
            try:
                await self._store.multi(ops)
                return
            except ConnectionLost as lost:
                logger.warning("a controller write has an unknown outcome (%s); looking for it", lost.message)
                in_doubt = True
                await asyncio.sleep(_RETRY_PAUSE)
                # A store that answers everything but this write will never accept it (for example, it is too large).
                losses = losses + 1 if await self._answers() else 0
                if losses >= _LOSSES_BEFORE_GIVING_UP:
                    raise StoreFault(f"the store drops the connection on a write of {len(ops)} operations") from lost
            except BadVersion as fenced:
                raise Deposed(f"another controller was elected ({fenced.message})") from fenced
            except SessionExpired as expired:
                raise Deposed("the session with the coordination store expired") from expired
            except (NodeExists, NoNode) as contradiction:
                # After a lost connection this may be our own success.
                if not (in_doubt and await self._is_ours(ops)):
                    raise StoreFault(
                        f"the store contradicts the controller: {contradiction.message}"
                    ) from contradiction
                return

    async def _answers(self) -> bool:
        try:
            await self._store.exists(paths.IMAGE)
        except StoreFault:
            return False
        return True

    async def _is_ours(self, ops: Sequence[Op]) -> bool:
        """Whether the last node that `ops` create exists with our content: a multi is atomic."""
        created = [op for op in ops if isinstance(op, Create)]
        if not created:
            return False
        while True:
            try:
                await self._store.sync()
                node = await self._store.get(created[-1].path)
            except NoNode:
                return False
            except ConnectionLost:
                await asyncio.sleep(_RETRY_PAUSE)
            except SessionExpired as expired:
                raise Deposed("the session with the coordination store expired") from expired
            else:
                return node.data == created[-1].data

    async def clear_topic(self, name: str) -> None:
        """Deletes the remaining nodes of a deleted or unfinished topic."""
        try:
            indexes = [int(child) for child in await self._read_children(paths.topic_partitions(name))]
            has_config = await self._exists(paths.config("topic", name))
            is_marked = await self._exists(paths.delete_topic(name))
        except NoNode:
            return
        steps = clearing_steps(
            name, indexes, has_config=has_config, is_marked=is_marked, step_size=writes.OPS_PER_MULTI
        )
        for step in steps:
            try:
                await self._write([writes.fence(self._epoch_version), *step])
            except StoreFault as fault:
                if isinstance(fault.__cause__, NoNode):
                    continue  # an earlier attempt of this step succeeded
                raise

    async def _read_children(self, path: str) -> list[str]:
        while True:
            try:
                return await self._store.children(path)
            except ConnectionLost:
                await asyncio.sleep(_RETRY_PAUSE)

    async def _exists(self, path: str) -> bool:
        while True:
            try:
                return await self._store.exists(path) is not None
            except ConnectionLost:
                await asyncio.sleep(_RETRY_PAUSE)


def parts_of(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Pieces small enough for one multi. A new topic stays with the overrides just before it; a topic that is too large
    by itself is a piece of its own."""
    parts: list[Sequence[Change]] = []
    piece: list[Change] = []
    piece_weight = 0
    for unit in _units(changes):
        unit_weight = sum(map(writes.weight, unit))
        if piece and piece_weight + unit_weight > writes.OPS_PER_MULTI:
            parts.append(piece)
            piece, piece_weight = [], 0
        piece += unit
        piece_weight += unit_weight
    if piece:
        parts.append(piece)
    return parts


def _units(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Groups of changes that must stay in one multi."""
    overrides: list[Change] = []
    for change in changes:
        if isinstance(change, ConfigSet):
            overrides.append(change)
            continue
        own = [o for o in overrides if isinstance(change, TopicCreated) and _is_of(o, change)]
        yield from ([override] for override in overrides if override not in own)
        overrides = []
        if isinstance(change, PartitionsAdded):
            yield from _growth_units(change)
        else:
            yield [*own, change]
    yield from ([override] for override in overrides)


def _is_of(override: Change, created: TopicCreated) -> bool:
    return isinstance(override, ConfigSet) and (override.resource_type, override.name) == ("topic", created.topic.name)


def _growth_units(change: PartitionsAdded) -> Iterator[list[Change]]:
    """A large growth may be split: some partitions are only created later."""
    step = max(1, writes.OPS_PER_MULTI // (4 * writes.name_weight(change.topic)))
    for at in range(0, len(change.infos), step):
        yield [PartitionsAdded(change.topic, change.first_index + at, change.infos[at : at + step])]

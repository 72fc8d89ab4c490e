"""The embedded store: a coordination store in local files, crash-safe, with ZooKeeper's semantics.

One process owns the directory (a lock file says so): a standalone broker, or the supervisor of a unit, which serves it
to the processes of the unit (`unit.server`). The owner has a session of its own, and may open others for them.

A write is checked against the tree, appended to the journal, made durable by fsync in a thread, and only then applied
and answered, so a reader never sees a write that a crash could lose. Writes that arrive during an fsync wait and go out
together in the next one (group commit). Ephemeral nodes end with their session, and all sessions with the process: the
nodes are dropped when the directory is opened. Transaction ids are never reused, so a broker epoch (the creation id of
its registration) rises with every restart, as with ZooKeeper.

A failed fsync is never retried (the page cache may have dropped the pages): the store raises StoreFailed from then on.
When the disk is full, the store truncates the journal to its last whole entry and refuses that write; later ones may
succeed.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headrace.coordination.core.tree import ChangedPath, Tree, parent_of
from headrace.coordination.embedded_files import (
    JOURNAL_FILE,
    JOURNAL_MAGIC,
    SNAPSHOT_FILE,
    StoredTree,
    Transaction,
    encode_entry,
    encode_snapshot,
    mark_closed,
    read_store,
    replace_file,
    take_closed_mark,
)
from headrace.coordination.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    NoNode,
    Op,
    SessionEvent,
    SessionExpired,
    Set,
    StoreFailed,
    StoreFault,
    Watch,
)
from headrace.kernel.dataclass import dataclass

logger = logging.getLogger(__name__)

# The journal is folded into a snapshot when it is this large and larger than the last snapshot: folding stays rare and
# reading at the start stays short.
SNAPSHOT_AFTER_BYTES: Final = 4 << 20


def _parent_if_moved(op: Op) -> tuple[str, ...]:
    """Creating and deleting also changes the parent's list of children."""
    return (parent_of(op.path),) if isinstance(op, Create | Delete) else ()


@dataclass(slots=True)
class _Write:
    """A transaction that waits for its turn. `done` gets its id."""

    session_id: int
    ops: Sequence[Op]
    done: asyncio.Future[int]
    ends_session: bool = False


class EmbeddedStore:
    def __init__(
        self,
        directory: Path,
        *,
        stored: StoredTree | None = None,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> None:
        """`stored`: the result of `read_store` for this directory, if the caller has it already."""
        self._directory = directory
        self._snapshot_after_bytes = snapshot_after_bytes
        self._snapshot_bytes = 0
        self._tree = Tree()
        self._last_id = 0
        self._session_id = 0
        self._journal_fd = -1
        self._journal_end = 0
        self._failure: StoreFault | None = None
        self._pending: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None
        # Keys of a dict: a watcher that reads again before a change is kept once.
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}
        self._sessions: set[int] = set()
        self._lock_fd = self._open(stored)

    # Opening

    def _open(self, stored: StoredTree | None) -> int:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)  # it holds the credentials of users
        lock_fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(lock_fd, 32).decode(errors="replace").strip()
            os.close(lock_fd)
            raise StoreFailed(f"coordination store {self._directory} is in use by process {holder or '?'}") from None
        try:
            os.ftruncate(lock_fd, 0)
            os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)
            self._recover(stored or read_store(self._directory))
        except BaseException:  # on any error the store must not stay locked
            os.close(lock_fd)
            raise
        return lock_fd

    def _recover(self, stored: StoredTree | None) -> None:
        journal = self._directory / JOURNAL_FILE
        if stored is None:
            replace_file(journal, JOURNAL_MAGIC)
            stored = StoredTree(Tree(), 0, 0, len(JOURNAL_MAGIC), len(JOURNAL_MAGIC))
        self._tree, self._last_id, self._snapshot_bytes = stored.tree, stored.last_id, stored.snapshot_bytes
        self._journal_end = stored.journal_end
        take_closed_mark(self._directory)
        self._journal_fd = os.open(journal, os.O_RDWR)
        if stored.journal_end < stored.journal_bytes:
            torn = stored.journal_bytes - stored.journal_end
            logger.warning("journal %s: cut %d torn bytes at its end", journal, torn)
            os.ftruncate(self._journal_fd, stored.journal_end)
            os.fsync(self._journal_fd)
        os.lseek(self._journal_fd, stored.journal_end, os.SEEK_SET)
        # The session takes a transaction id of its own, so that it is new in every run of the process.
        ends = [Delete(path) for path in self._tree.ephemerals()]
        self._last_id += 1
        self._session_id = self._last_id
        self._append(encode_entry([Transaction(self._last_id, self._session_id, ends)]))
        os.fsync(self._journal_fd)
        self._tree.commit(ends, self._last_id, self._session_id)
        self._sessions.add(self._session_id)

    # Session

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout(self) -> float:
        return math.inf

    def lease_ends_at(self) -> float:
        return math.inf if self._failure is None else 0.0

    def on_session(self, callback: Callable[[SessionEvent], None]) -> None:
        callback(SessionEvent.CONNECTED)

    async def open_session(self) -> int:
        """A further session, for another process. Its id is a transaction of its own, so no other session ever has
        it."""
        session_id = await self._write(self._session_id, ())
        self._sessions.add(session_id)
        return session_id

    async def end_session(self, session_id: int) -> None:
        """Deletes the ephemeral nodes of a session. Writes of the session that still wait for their turn are
        refused."""
        self._sessions.discard(session_id)
        await self._write(session_id, (), ends_session=True)

    # Reading

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        return self.get_now(path, watch)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        return self.exists_now(path, watch)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return self.children_now(path, watch)

    async def data_of(self, paths: Sequence[str]) -> list[bytes | None]:
        return self.data_of_now(paths)

    # The tree is in memory, so no read waits. The server of a unit reads without a task for each request.

    def get_now(self, path: str, watch: Watch | None = None) -> Node:
        node = self._tree.get(path)
        if watch is not None:
            self._data_watches.setdefault(path, {})[watch] = None
        return node

    def exists_now(self, path: str, watch: Watch | None = None) -> Node | None:
        if watch is not None:
            self._data_watches.setdefault(path, {})[watch] = None
        try:
            return self._tree.get(path)
        except NoNode:
            return None

    def data_of_now(self, paths: Sequence[str]) -> list[bytes | None]:
        nodes = self._tree.nodes
        return [None if (node := nodes.get(path)) is None else node.data for path in paths]

    def children_now(self, path: str, watch: Watch | None = None) -> list[str]:
        names = self._tree.names(path)
        if watch is not None:
            self._child_watches.setdefault(path, {})[watch] = None
        return names

    async def sync(self) -> None:
        """Reads already see every finished write."""

    # Writing

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        await self.multi([Create(path, data, ephemeral)])

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> None:
        await self.multi([Set(path, data, version)])

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    async def multi(self, ops: Sequence[Op]) -> None:
        await self._write(self._session_id, ops)

    async def multi_of_session(self, session_id: int, ops: Sequence[Op]) -> None:
        """Raises SessionExpired if the session has ended: then no operation of it happens any more."""
        await self._write(session_id, ops)

    async def _write(self, session_id: int, ops: Sequence[Op], *, ends_session: bool = False) -> int:
        """Returns the id of the transaction."""
        if self._failure is not None:
            raise self._failure
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pending.append(_Write(session_id, ops, done, ends_session))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_pending(), name="embedded store writer")
        return await done

    async def _write_pending(self) -> None:
        """Writes rounds of waiting operations until none wait; the only place that changes tree and journal."""
        while self._pending and self._failure is None:
            waiting, self._pending = self._pending, []
            taken = self._next_round(waiting)
            if taken:
                await self._commit(taken)
        if self._failure is not None:
            for write in self._pending:
                if not write.done.done():
                    write.done.set_exception(self._failure)
            self._pending = []

    def _next_round(self, waiting: list[_Write]) -> list[_Write]:
        """The writes that the next fsync covers; the others go back to `_pending`. All are checked against the current
        tree. A write on a node of an earlier one of the round waits for the next round, so that no check runs against a
        state that is not durable."""
        taken: list[_Write] = []
        written: set[str] = set()
        for at, write in enumerate(waiting):
            if write.done.cancelled() and not write.ends_session:
                continue
            near = {path for op in write.ops for path in (op.path, parent_of(op.path))}
            # The nodes of a session that ends are known when all its earlier writes are in the tree.
            if (write.ends_session and taken) or not written.isdisjoint(near):
                self._pending = waiting[at:] + self._pending
                break
            try:
                if write.ends_session:
                    write.ops = [Delete(path) for path in self._tree.ephemerals(write.session_id)]
                elif write.session_id not in self._sessions:
                    raise SessionExpired(f"session {write.session_id} has ended")
                self._tree.check(write.ops)
            except StoreFault as fault:
                write.done.set_exception(fault)
                continue
            taken.append(write)
            written.update(
                path for op in write.ops if not isinstance(op, Check) for path in (op.path, *_parent_if_moved(op))
            )
        return taken

    async def _commit(self, taken: list[_Write]) -> None:
        try:
            self._append(
                encode_entry(
                    Transaction(self._last_id + number, write.session_id, write.ops)
                    for number, write in enumerate(taken, 1)
                )
            )
        except OSError as error:
            self._refuse(taken, error, for_good=error.errno != errno.ENOSPC)
            return
        try:
            await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._journal_fd)
        except OSError as error:
            self._refuse(taken, error, for_good=True)
            return
        touched: list[ChangedPath] = []
        for write in taken:
            self._last_id += 1
            touched += self._tree.commit(write.ops, self._last_id, write.session_id)
            if not write.done.done():
                write.done.set_result(self._last_id)
        self._fire(touched)
        if self._journal_end > max(self._snapshot_after_bytes, self._snapshot_bytes):
            await self._fold()

    def _refuse(self, taken: list[_Write], error: OSError, *, for_good: bool) -> None:
        fault = StoreFailed(f"coordination store {self._directory}: {error}")
        if for_good:
            self._failure = fault
            logger.critical("%s; the broker cannot go on", fault)
        for write in taken:
            if not write.done.done():
                write.done.set_exception(fault)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._journal_fd, view) :]
        except OSError:
            os.ftruncate(self._journal_fd, self._journal_end)
            os.lseek(self._journal_fd, self._journal_end, os.SEEK_SET)
            raise
        self._journal_end += len(data)

    async def _fold(self) -> None:
        """Writes the tree as a snapshot and empties the journal. A failure leaves the journal as it is: nothing
        is lost.
        """
        snapshot = encode_snapshot(self._tree, self._last_id)
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, replace_file, self._directory / SNAPSHOT_FILE, snapshot
            )
            self._snapshot_bytes = len(snapshot)
            os.ftruncate(self._journal_fd, len(JOURNAL_MAGIC))
            os.lseek(self._journal_fd, len(JOURNAL_MAGIC), os.SEEK_SET)
            self._journal_end = len(JOURNAL_MAGIC)
            os.fsync(self._journal_fd)
        except OSError as error:
            logger.error(
                "coordination store %s: cannot write a snapshot (%s); the journal grows on", self._directory, error
            )

    def _fire(self, touched: list[ChangedPath]) -> None:
        loop = asyncio.get_running_loop()
        for each in touched:
            for watch in (self._child_watches if each.children else self._data_watches).pop(each.path, ()):
                loop.call_soon(watch)

    async def close(self) -> None:
        if self._failure is None:
            if self._writer is not None:
                await self._writer
            self._failure = StoreFailed(f"coordination store {self._directory} is closed")
            try:
                mark_closed(self._directory, self._last_id)
            except OSError as error:
                logger.warning("coordination store %s: closed without its mark (%s)", self._directory, error)
        if self._journal_fd >= 0:
            os.close(self._journal_fd)
            os.close(self._lock_fd)
            self._journal_fd = -1

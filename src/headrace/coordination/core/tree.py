"""The node tree with ZooKeeper's rules, in memory, no I/O: used by the embedded store and the simulator.

`check(ops)` checks whether a multi is possible (operations see the effects of those before them), `commit(ops, id)`
executes it. There are two steps, because the embedded store writes its journal between them.

Invariants: every node but the root has its parent in the tree; an ephemeral node has no children; versions start at 0
and grow by one with each set; a node created again starts at 0 with a new `created_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from headrace.coordination.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Set,
    StoreFault,
)
from headrace.kernel.dataclass import dataclass


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def path_problem(path: str) -> str | None:
    if path == "/":
        return None
    if not path.startswith("/") or path.endswith("/") or "//" in path:
        return f"path {path!r}: must start with '/', have no empty parts and not end with '/'"
    return None


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A path whose watches fire, and whether its data or its list of children changed."""

    path: str
    children: bool


@dataclass(slots=True)
class _Trial:
    """Effects of the operations checked so far: version of a path (None = deleted) and the change of its number of
    children."""

    versions: dict[str, int | None] = field(default_factory=dict)
    ephemeral: set[str] = field(default_factory=set)
    child_counts: dict[str, int] = field(default_factory=dict)


class Tree:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0)}
        self.children: dict[str, set[str]] = {"/": set()}

    def add(self, path: str, node: Node) -> None:
        """Adds a node unchanged, from another store; its parent must exist."""
        self.nodes[path] = node
        if path != "/":
            self.children.setdefault(parent_of(path), set()).add(path[path.rindex("/") + 1 :])

    def remove(self, path: str) -> None:
        """Removes a node without children."""
        del self.nodes[path]
        self.children.pop(path, None)
        self.children[parent_of(path)].discard(path[path.rindex("/") + 1 :])

    def get(self, path: str) -> Node:
        try:
            return self.nodes[path]
        except KeyError:
            raise NoNode(f"no node {path}") from None

    def names(self, path: str) -> list[str]:
        self.get(path)
        return sorted(self.children.get(path, ()))

    def check(self, ops: Sequence[Op]) -> None:
        """Raises the fault of the first operation that is not possible; changes nothing."""
        trial = _Trial()
        for op in ops:
            if (problem := path_problem(op.path)) is not None:
                raise StoreFault(problem)
            self._check_one(op, trial)

    def _version(self, path: str, trial: _Trial) -> int | None:
        if path in trial.versions:
            return trial.versions[path]
        node = self.nodes.get(path)
        return None if node is None else node.version

    def _check_one(self, op: Op, trial: _Trial) -> None:
        version = self._version(op.path, trial)
        if isinstance(op, Create):
            if version is not None:
                raise NodeExists(f"node {op.path} already exists")
            parent = parent_of(op.path)
            if self._version(parent, trial) is None:
                raise NoNode(f"no parent node {parent} for {op.path}")
            known = self.nodes.get(parent)
            if parent in trial.ephemeral or (parent not in trial.versions and known is not None and known.session_id):
                raise StoreFault(f"node {parent} is ephemeral and cannot have children ({op.path})")
            trial.versions[op.path] = 0
            trial.child_counts[parent] = trial.child_counts.get(parent, 0) + 1
            if op.ephemeral:
                trial.ephemeral.add(op.path)
            return
        if version is None:
            raise NoNode(f"no node {op.path}")
        if op.version not in (ANY_VERSION, version):
            raise BadVersion(f"node {op.path} is at version {version}, not {op.version}")
        if isinstance(op, Set):
            trial.versions[op.path] = version + 1
        elif isinstance(op, Delete):
            if len(self.children.get(op.path, ())) + trial.child_counts.get(op.path, 0) > 0:
                raise NotEmpty(f"node {op.path} has children")
            trial.versions[op.path] = None
            trial.ephemeral.discard(op.path)
            parent = parent_of(op.path)
            trial.child_counts[parent] = trial.child_counts.get(parent, 0) - 1

    def commit(self, ops: Sequence[Op], transaction_id: int, session_id: int) -> list[ChangedPath]:
        """Executes operations that `check` allowed."""
        touched: list[ChangedPath] = []
        for op in ops:
            path = op.path
            if isinstance(op, Create):
                parent = parent_of(path)
                self.add(path, Node(op.data, 0, transaction_id, session_id if op.ephemeral else 0))
                touched += (ChangedPath(path, False), ChangedPath(parent, True))
            elif isinstance(op, Set):
                old = self.nodes[path]
                self.nodes[path] = Node(op.data, old.version + 1, old.created_id, old.session_id)
                touched.append(ChangedPath(path, False))
            elif isinstance(op, Delete):
                parent = parent_of(path)
                self.remove(path)
                touched += (ChangedPath(path, False), ChangedPath(path, True), ChangedPath(parent, True))
            else:
                assert isinstance(op, Check)
        return touched

    def ephemerals(self, session_id: int | None = None) -> list[str]:
        """Paths of the ephemeral nodes, of one session or of all; they have no children, so they can be deleted in any
        order."""
        return [path for path, node in self.nodes.items() if node.session_id and session_id in (None, node.session_id)]

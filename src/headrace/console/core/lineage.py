"""The flow of records as a picture: producers and databases, the topics they write, the groups and flows that read
them, and what flows write: topics again, tables, databases.

The layout is that of Sugiyama in its simplest form. Each node stands in a column right of everything that leads to it.
An edge that would close a circle does not count for this, and is drawn backwards. Within a column a node stands at the
mean height of its neighbours, so that edges are short. The picture is SVG with links, made here, so that it needs no
script and can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.kernel.dataclass import dataclass

BOX_WIDTH: Final = 206
BOX_HEIGHT: Final = 44
COLUMN: Final = BOX_WIDTH + 84
ROW: Final = 60
_TOP: Final = 12
_SWEEPS: Final = 4
PRODUCER, ORIGIN, TOPIC, GROUP, FLOW, TARGET = "producer", "origin", "topic", "group", "flow", "target"
# The leftmost column of each kind. What flows write stands further right.
_COLUMNS: Final = {PRODUCER: 0, ORIGIN: 0, TOPIC: 1, GROUP: 2, FLOW: 2, TARGET: 3}
# Where the picture is too large, links of these are kept first.
_KEPT_FIRST: Final = (FLOW, GROUP, PRODUCER)
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Link:
    """Records go from one part to another, `rate` a second if it is known."""

    source: Key
    target: Key
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    kind: str
    name: str
    note: str
    x: int
    y: int

    @property
    def label(self) -> str:
        return self.name if len(self.name) <= 24 else self.name[:23] + "…"


@dataclass(frozen=True, slots=True)
class Edge:
    source: Node
    target: Node
    rate: float | None

    @property
    def is_backwards(self) -> bool:
        return self.target.x <= self.source.x

    @property
    def path(self) -> str:
        x1, y1 = self.source.x + BOX_WIDTH, self.source.y + BOX_HEIGHT // 2
        x2, y2 = self.target.x, self.target.y + BOX_HEIGHT // 2
        if self.is_backwards:
            # Around the boxes, below them.
            low = max(y1, y2) + ROW
            return f"M{x1} {y1}C{x1 + 60} {low} {x2 - 60} {low} {x2} {y2}"
        middle = (x1 + x2) // 2
        return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"

    @property
    def middle(self) -> tuple[int, int]:
        """Where the rate stands: in the gap before the target, where lines of one source have parted."""
        if self.is_backwards:
            return (self.source.x + BOX_WIDTH + self.target.x) // 2, max(self.source.y, self.target.y) + ROW
        y1, y2 = self.source.y + BOX_HEIGHT // 2, self.target.y + BOX_HEIGHT // 2
        return self.target.x - 34, y1 + (y2 - y1) * 4 // 5 - 5

    @property
    def width(self) -> float:
        """Of the line: 1 to 6, by the order of magnitude of the rate."""
        rate = self.rate or 0.0
        return min(6.0, 1.0 + len(str(int(rate))) * 0.8) if rate >= 1 else 1.0


@dataclass(frozen=True, slots=True)
class Picture:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    left_out: int


def lineage(links: Iterable[Link], notes: Mapping[Key, str], most: int = 80) -> Picture:
    """`notes` stand below the names."""
    every = sorted(set(links), key=lambda link: (link.source, link.target))
    found, left_out = _chosen(every, most)
    columns = _columns(sorted({key for link in found for key in (link.source, link.target)}), found)
    places: dict[Key, tuple[int, int]] = {}
    for x, column in enumerate(columns):
        for y, key in enumerate(column):
            places[key] = x, y
    tallest = max((len(column) for column in columns), default=0)
    nodes = {}
    for key, (x, y) in places.items():
        # Short columns stand in the middle of the tall ones.
        shift = (tallest - len(columns[x])) * ROW // 2
        nodes[key] = Node(key[0], key[1], notes.get(key, ""), x * COLUMN, _TOP + shift + y * ROW)
    edges = tuple(Edge(nodes[link.source], nodes[link.target], link.rate) for link in found)
    width = max(1, len(columns)) * COLUMN - (COLUMN - BOX_WIDTH)
    depth = ROW if any(edge.is_backwards for edge in edges) else 0
    height = 2 * _TOP + ROW * max(tallest, 1) - (ROW - BOX_HEIGHT) + depth
    return Picture(tuple(nodes.values()), edges, width, height, left_out)


def _chosen(links: Sequence[Link], most: int) -> tuple[list[Link], int]:
    """Links with at most so many parts, and how many parts they leave out."""

    def rank(link: Link) -> int:
        return min(_KEPT_FIRST.index(kind) for kind in (link.source[0], link.target[0]) if kind in _KEPT_FIRST)

    kept: set[Key] = set()
    chosen = []
    for link in sorted(links, key=rank):
        both = {link.source, link.target}
        if len(kept | both) <= most:
            kept |= both
            chosen.append(link)
    every = {key for link in links for key in (link.source, link.target)}
    return chosen, len(every) - len(kept)


def _columns(keys: Sequence[Key], links: Sequence[Link]) -> list[list[Key]]:
    forward = _without_circles(keys, links)
    depth = {key: _COLUMNS[key[0]] for key in keys}
    # At most as many rounds as nodes: there are no circles.
    for _ in keys:
        changed = False
        for link in forward:
            if depth[link.target] <= depth[link.source]:
                depth[link.target], changed = depth[link.source] + 1, True
        if not changed:
            break
    # A producer stands beside what it writes.
    for key in keys:
        nexts = [depth[link.target] for link in forward if link.source == key]
        if _COLUMNS[key[0]] == 0 and nexts:
            depth[key] = min(nexts) - 1
    # Columns that became empty are left out.
    used = {level: at for at, level in enumerate(sorted(set(depth.values())))}
    columns: list[list[Key]] = [[] for _ in used]
    for key in keys:
        columns[used[depth[key]]].append(key)
    _order(columns, forward)
    return columns


def _without_circles(keys: Sequence[Key], links: Sequence[Link]) -> list[Link]:
    """The links, except links back to a part from which they came."""
    nexts: dict[Key, list[Link]] = {key: [] for key in keys}
    for link in links:
        nexts[link.source].append(link)
    state: dict[Key, int] = {}
    kept: list[Link] = []
    for root in keys:
        if root in state:
            continue
        state[root] = 1
        stack = [(root, iter(nexts[root]))]
        while stack:
            key, rest = stack[-1]
            onward = next(rest, None)
            if onward is None:
                state[key] = 2
                stack.pop()
            elif state.get(onward.target) != 1:
                kept.append(onward)
                if onward.target not in state:
                    state[onward.target] = 1
                    stack.append((onward.target, iter(nexts[onward.target])))
    return kept


def _order(columns: list[list[Key]], links: Sequence[Link]) -> None:
    neighbours: dict[Key, list[Key]] = {}
    for link in links:
        neighbours.setdefault(link.source, []).append(link.target)
        neighbours.setdefault(link.target, []).append(link.source)
    height = {key: float(y) for column in columns for y, key in enumerate(column)}
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            means = {
                key: sum(height[near] for near in neighbours[key]) / len(neighbours[key])
                for key in column
                if neighbours.get(key)
            }
            column.sort(key=lambda key: (means.get(key, height[key]), key))
            for y, key in enumerate(column):
                height[key] = float(y)

"""The flow of records as a picture: topics on the left, the groups and Spark flows that read them on the right.

Each column is ordered so that an edge is short: a reader stands at the mean height of the topics it reads. The picture
is SVG with links, made here, so that it needs no script and can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headrace.kernel.dataclass import dataclass

WIDTH: Final = 1000
ROW: Final = 46
BOX_HEIGHT: Final = 32
BOX_WIDTH: Final = 330
_TOP: Final = 12


@dataclass(frozen=True, slots=True)
class Node:
    kind: str  # topic, group, flow
    name: str
    note: str
    x: int
    y: int

    @property
    def label(self) -> str:
        return self.name if len(self.name) <= 34 else self.name[:33] + "…"


@dataclass(frozen=True, slots=True)
class Edge:
    source: Node
    target: Node
    label: str
    weight: float

    @property
    def path(self) -> str:
        x1, y1 = self.source.x + BOX_WIDTH, self.source.y + BOX_HEIGHT // 2
        x2, y2 = self.target.x, self.target.y + BOX_HEIGHT // 2
        middle = (x1 + x2) // 2
        return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"

    @property
    def width(self) -> float:
        """Of the line: 1 to 6, by the order of magnitude of the rate."""
        return min(6.0, 1.0 + len(str(int(self.weight))) * 0.8) if self.weight >= 1 else 1.0


@dataclass(frozen=True, slots=True)
class Picture:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    height: int
    left_out: int


def lineage(
    readers: Mapping[tuple[str, str], Iterable[str]],
    notes: Mapping[str, str],
    rates: Mapping[str, float],
    most: int = 60,
) -> Picture:
    """`readers`: (kind, name) → topics it reads. `notes` of readers by name. `rates` of topics in records a second."""
    chosen: Sequence[tuple[tuple[str, str], list[str]]] = [
        (reader, sorted(topics)) for reader, topics in sorted(readers.items()) if topics
    ]
    left_out = max(0, len(chosen) - most)
    chosen = chosen[:most]
    names = sorted({topic for _, topics in chosen for topic in topics})
    left = {
        name: Node("topic", name, f"{rates.get(name, 0.0):.0f}/s" if rates.get(name) else "", 0, _TOP + at * ROW)
        for at, name in enumerate(names)
    }
    by_height = sorted(chosen, key=lambda one: (sum(left[topic].y for topic in one[1]) / len(one[1]), one[0]))
    nodes = list(left.values())
    edges = []
    for at, ((kind, name), topics) in enumerate(by_height):
        node = Node(kind, name, notes.get(name, ""), WIDTH - BOX_WIDTH, _TOP + at * ROW)
        nodes.append(node)
        edges += [Edge(left[topic], node, left[topic].note, rates.get(topic, 0.0)) for topic in topics]
    height = _TOP + ROW * max(len(left), len(by_height), 1)
    return Picture(tuple(nodes), tuple(edges), height, left_out)

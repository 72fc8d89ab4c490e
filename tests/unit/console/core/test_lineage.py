from __future__ import annotations

from itertools import pairwise

from headrace.console.core.lineage import BOX_HEIGHT, lineage


def test_every_reader_has_an_edge_from_each_of_its_topics() -> None:
    found = lineage(
        {("group", "g"): {"a", "b"}, ("flow", "f"): {"b"}, ("group", "idle"): set()}, {"g": "lag 3"}, {"a": 5.0}
    )
    assert {(edge.source.name, edge.target.name) for edge in found.edges} == {("a", "g"), ("b", "g"), ("b", "f")}
    assert {node.name for node in found.nodes} == {"a", "b", "g", "f"}
    assert next(node for node in found.nodes if node.name == "g").note == "lag 3"


def test_boxes_do_not_overlap_and_fit_the_picture() -> None:
    found = lineage({("group", f"g{n}"): {f"t{n % 7}", f"t{n % 3}"} for n in range(40)}, {}, {})
    places = [(node.x, node.y) for node in found.nodes]
    assert len(set(places)) == len(places)
    for x in {x for x, _ in places}:
        heights = sorted(y for at, y in places if at == x)
        assert all(b - a >= BOX_HEIGHT for a, b in pairwise(heights))
    assert max(y for _, y in places) + BOX_HEIGHT <= found.height


def test_a_long_list_says_how_many_are_left_out() -> None:
    found = lineage({("group", f"g{n:03}"): {"t"} for n in range(100)}, {}, {}, most=60)
    assert found.left_out == 40 and len(found.edges) == 60


def test_a_reader_stands_beside_its_topics() -> None:
    found = lineage({("group", "a-last"): {"z"}, ("group", "z-first"): {"a"}}, {}, {})
    heights = {node.name: node.y for node in found.nodes}
    assert heights["z-first"] < heights["a-last"]

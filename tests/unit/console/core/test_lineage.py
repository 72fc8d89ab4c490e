from __future__ import annotations

from itertools import pairwise

from headrace.console.core.lineage import BOX_HEIGHT, BOX_WIDTH, Link, Picture, lineage


def reads(*pairs: tuple[str, str]) -> list[Link]:
    return [Link(("topic", topic), ("group", group)) for topic, group in pairs]


def names(picture: Picture) -> set[tuple[str, str]]:
    return {(edge.source.name, edge.target.name) for edge in picture.edges}


def test_every_link_is_an_edge_with_its_rate_and_notes_stand_at_the_names() -> None:
    links = [*reads(("a", "g"), ("b", "g")), Link(("topic", "b"), ("flow", "f"), 12.0)]
    found = lineage(links, {("group", "g"): "lag 3"})
    assert names(found) == {("a", "g"), ("b", "g"), ("b", "f")}
    assert next(node for node in found.nodes if node.name == "g").note == "lag 3"
    assert next(edge for edge in found.edges if edge.target.name == "f").rate == 12.0


def test_records_go_from_left_to_right_through_the_whole_cluster() -> None:
    found = lineage(
        [
            Link(("producer", "shop-tx"), ("topic", "orders")),
            Link(("topic", "orders"), ("flow", "shop.totals")),
            Link(("flow", "shop.totals"), ("topic", "totals")),
            Link(("topic", "totals"), ("group", "reports")),
            Link(("flow", "shop.totals"), ("target", "table sales")),
            Link(("origin", "jdbc customers"), ("flow", "shop.customers")),
        ],
        {},
    )
    x = {node.name: node.x for node in found.nodes}
    assert x["shop-tx"] < x["orders"] < x["shop.totals"] < x["totals"] < x["reports"]
    assert x["table sales"] > x["shop.totals"] and x["jdbc customers"] < x["shop.customers"]
    assert max(x.values()) + BOX_WIDTH <= found.width
    assert not any(edge.is_backwards for edge in found.edges)


def test_topics_without_a_known_producer_stand_in_the_column_of_topics() -> None:
    found = lineage([Link(("producer", "p"), ("topic", "a")), *reads(("a", "g"), ("b", "h"))], {})
    x = {node.name: node.x for node in found.nodes}
    assert x["a"] == x["b"] and x["g"] == x["h"]


def test_a_circle_is_drawn_with_one_edge_backwards() -> None:
    found = lineage([Link(("topic", "a"), ("flow", "f")), Link(("flow", "f"), ("topic", "a"))], {})
    assert [edge.is_backwards for edge in found.edges].count(True) == 1 and len(found.nodes) == 2
    assert all(edge.middle[1] <= found.height for edge in found.edges)


def test_boxes_do_not_overlap_and_fit_the_picture() -> None:
    found = lineage(reads(*((f"t{n % k}", f"g{n}") for n in range(40) for k in (7, 3))), {})
    places = [(node.x, node.y) for node in found.nodes]
    assert len(set(places)) == len(places)
    for x in {x for x, _ in places}:
        heights = sorted(y for at, y in places if at == x)
        assert all(b - a >= BOX_HEIGHT for a, b in pairwise(heights))
    assert max(y for _, y in places) + BOX_HEIGHT <= found.height


def test_a_large_picture_says_how_many_parts_are_left_out() -> None:
    found = lineage(reads(*(("t", f"g{n:03}") for n in range(100))), {}, most=60)
    assert found.left_out == 41 and len(found.edges) == 59


def test_a_reader_stands_beside_its_topics() -> None:
    found = lineage(reads(("z", "a-last"), ("a", "z-first")), {})
    heights = {node.name: node.y for node in found.nodes}
    assert heights["z-first"] == heights["a"] != heights["z"] == heights["a-last"]

"""Every order of both data centers is billed once, wherever."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Cell, Feed, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Two data centers, an aggregate, one is lost, clients go over."
USES_SPARK = True
# The generator fills the topics of the data centers, which are other clusters.
GENERATES_ELSEWHERE = True
INPUTS = {"journal": compacted()}
OUTPUTS = {"bills": kept(7), "east.orders": kept(7, 2), "west.orders": kept(7, 2)}


def expected(inputs: Contents) -> Result:
    journal = inputs.latest("journal")
    return {f"{region}|order-{n}": 1 for region in journal for n in range(1, journal[region]["orders"] + 1)}


def found(outputs: Contents) -> Result:
    rows = list(outputs.rows("bills"))
    _places.clear()
    _places.update((row["region"], row["place"]) for row in rows)
    return dict(Counter(f"{row['region']}|{row['order']}" for row in rows))


# Where the orders of a region were billed. It depends on the moment of the loss, so it belongs to the picture only.
_places: Counter[tuple[str, str]] = Counter()


def picture(found: Result, rows: int) -> Picture:
    twice = sum(1 for number in found.values() if number > 1)
    table: list[list[Cell]] = [[region, place, number] for (region, place), number in sorted(_places.items())]
    return panels(
        Figures("", {"orders billed": len(found), "billed twice": twice}),
        Table("bills", ("orders of", "billed in", "number"), table, bar="number"),
        Feed("latest", [key.replace("|", ": ") for key in list(found)[-rows // 2 :][::-1]]),
    )

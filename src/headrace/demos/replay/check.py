"""The revenue before and after the repair. Exactly the products with refunds have changed."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted

TITLE = "A bug found, code mended, state rebuilt from offset 0."
OUTPUTS = {"revenue": compacted(2)}


def expected(inputs: Contents) -> Result:
    sold: Counter[str] = Counter()
    refunded: Counter[str] = Counter()
    for row in inputs.rows("sales"):
        (refunded if row["kind"] == "refund" else sold)[row["product"]] += row["cents"]
    return {
        product: [sold[product] + refunded[product], sold[product] - refunded[product]]
        for product in {*sold, *refunded}
    }


def found(outputs: Contents) -> Result:
    """The last value of either version. The topic is compacted; a reader of later days sees version 2 only."""
    result: Result = {}
    for record, row in zip(outputs.records["revenue"], outputs.rows("revenue"), strict=True):
        result.setdefault((record.key or b"").decode(), [0, 0])[row["version"] - 1] = row["cents"]
    return result


def picture(found: Result, rows: int) -> Picture:
    changed = [name for name, (before, after) in found.items() if before != after]
    order = sorted(found, key=lambda name: found[name][1] - found[name][0])
    table = [[name, *(cents / 100 for cents in found[name]), (found[name][1] - found[name][0]) / 100] for name in order]
    return panels(
        Figures("", {"products": len(found), "changed by the repair": len(changed)}),
        Table("revenue", ("product", "version 1", "version 2", "difference"), table[:rows]),
    )

"""The figures of both campaigns without Spark, the uplift with its confidence interval, and the picture."""

from __future__ import annotations

import math
from typing import Final

from headrace.demos.picture import Chart, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Two campaigns compared: clicks, conversions and uplift."
OUTPUTS = {"campaign-events": kept(7), "campaign-figures": compacted()}
_WITHIN_MS: Final = 30 * 60 * 1000
_Z95: Final = 1.96


def expected(inputs: Contents) -> Result:
    shown = {row["impression"]: row for row in inputs.rows("impressions")}
    clicks = list(inputs.rows("clicks"))
    figures = {name: {"impressions": 0, "clicks": 0, "conversions": 0, "amount": 0.0} for name in ("A", "B")}
    for row in shown.values():
        figures[row["campaign"]]["impressions"] += 1
    for click in clicks:
        impression = shown.get(click["impression"])
        if impression is not None and 0 <= click["at"] - impression["at"] <= _WITHIN_MS:
            figures[impression["campaign"]]["clicks"] += 1
    unique = {click["click"]: click for click in clicks}
    for conversion in inputs.rows("conversions"):
        # A click that is late can arrive after its conversion. Until then the conversion does not count.
        clicked = unique.get(conversion["click"])
        if clicked is not None and 0 <= conversion["at"] - clicked["at"] <= _WITHIN_MS:
            figures[clicked["campaign"]]["conversions"] += 1
            figures[clicked["campaign"]]["amount"] += conversion["amount"]
    return {name: {**each, "amount": round(each["amount"], 2)} for name, each in figures.items()}


def found(outputs: Contents) -> Result:
    return dict(outputs.latest("campaign-figures"))


def uplift(a: Result, b: Result) -> tuple[float, float, float]:
    """By how much more of B's impressions lead to a click than A's, with the 95 % confidence interval (both shares)."""
    shares, variances = [], []
    for each in (a, b):
        number = max(each["impressions"], 1)
        share = each["clicks"] / number
        shares.append(share)
        variances.append(max(share * (1 - share), 0.0) / number)
    difference, error = shares[1] - shares[0], _Z95 * math.sqrt(sum(variances))
    return difference, difference - error, difference + error


def picture(found: Result, rows: int) -> Picture:
    figures: Result = {name: found[name] for name in sorted(found)}
    lines = [
        [
            name, each["impressions"], each["clicks"], round(100 * each["clicks"] / max(each["impressions"], 1), 1),
            each["conversions"], each["amount"],
        ]
        for name, each in figures.items()
    ]  # fmt: skip
    columns = ("campaign", "impressions", "clicks", "per 100", "conversions", "revenue")
    table = Table("campaigns", columns, lines)
    if set(figures) < {"A", "B"}:
        return panels(table)
    difference, low, high = uplift(figures["A"], figures["B"])
    verdict = "B is better" if low > 0 else "A is better" if high < 0 else "no clear difference"
    interval = {
        "clicks of 100 impressions, B more than A": f"{100 * difference:+.1f}",
        "95 % interval": f"{100 * low:+.1f} to {100 * high:+.1f}",
        "verdict": verdict,
    }
    return panels(table, Figures("", interval))


def trend(found: Result) -> Chart:
    """Clicks per hundred impressions of both campaigns; the run keeps its history."""
    shares = {name: 100 * each["clicks"] / max(each["impressions"], 1) for name, each in sorted(found.items())}
    return Chart("clicks per hundred impressions", "%", {name: [(0.0, share)] for name, share in shares.items()})

"""Totals and activity of posts without Spark, and the picture."""

from __future__ import annotations

from collections import Counter
from typing import Final

from headrace.demos.picture import Chart, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Live likes and comments per post, and trending posts."
# Compacted: the topics always have the latest totals of every post and window.
OUTPUTS = {"post-totals": compacted(2), "post-activity": kept(7, 2, compact=True)}
WINDOW_MS: Final = 10_000
HALF_LIFE_MS: Final = 60_000
_TOTALS: Final = "total"
_WINDOW: Final = "window"


def expected(inputs: Contents) -> Result:
    totals: dict[str, Counter[str]] = {}
    windows: Counter[tuple[str, int]] = Counter()
    for topic in ("likes", "comments"):
        for row in inputs.rows(topic):
            totals.setdefault(row["post"], Counter())[topic] += 1
            windows[row["post"], row["at"] // WINDOW_MS * WINDOW_MS] += 1
    result: Result = {f"{_TOTALS}|{post}": (n["likes"], n["comments"]) for post, n in totals.items()}
    return result | {f"{_WINDOW}|{post}|{start}": number for (post, start), number in windows.items()}


def found(outputs: Contents) -> Result:
    result: Result = {
        f"{_TOTALS}|{post}": (totals["likes"], totals["comments"])
        for post, totals in outputs.latest("post-totals").items()
    }
    return result | {f"{_WINDOW}|{key}": window["reactions"] for key, window in outputs.latest("post-activity").items()}


def heat(found: Result) -> dict[str, float]:
    """The decayed number of reactions of every post at the time of the latest window."""
    windows = [(*key.split("|")[1:], number) for key, number in found.items() if key.startswith(_WINDOW)]
    latest = max((int(start) for _, start, _ in windows), default=0)
    scores: dict[str, float] = {}
    for post, start, number in windows:
        decayed = number * 0.5 ** ((latest - int(start)) / HALF_LIFE_MS)
        scores[post] = scores.get(post, 0.0) + decayed
    return scores


def picture(found: Result, rows: int) -> Picture:
    scores = heat(found)
    totals = {key.split("|")[1]: value for key, value in found.items() if key.startswith(_TOTALS)}
    ranked = sorted(scores, key=lambda post: -scores[post])[:rows]
    trending = [[post, *totals.get(post, (0, 0)), round(scores[post], 1)] for post in ranked]
    return panels(
        Table(f"trending among {len(totals):,} posts", ("post", "likes", "comments", "heat"), trending, bar="heat"),
        Chart("reactions, ten seconds a mark", "reactions", {"all posts": _reactions(found)}),
    )


def _reactions(found: Result) -> list[tuple[float, float]]:
    """The burst of the first day, as it arrives in the result."""
    sums: Counter[int] = Counter()
    for key, number in found.items():
        if not key.startswith(_TOTALS):
            sums[int(key.split("|")[-1])] += number
    return [(start, sums[start]) for start in sorted(sums)]

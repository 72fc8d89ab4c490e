"""Sessions and views per page without Spark, and the picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from headrace.demos.picture import Cell, Chart, Feed, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted

TITLE = "Website tracking: sessions of visitors, views per page."
OUTPUTS = {"sessions": compacted(3), "page-counts": compacted()}
_GAP_MS: Final = 1000


def expected(inputs: Contents) -> Result:
    views: Counter[str] = Counter()
    shares: Counter[str] = Counter()
    by_visitor: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in inputs.rows("page-views"):
        views[row["page"]] += 1
        shares[row["page"]] += row["action"] == "share"
        by_visitor[row["visitor"]].append((row["at"], row["page"]))
    result: Result = {f"page|{page}": [views[page], shares[page]] for page in views}
    for visitor, visits in by_visitor.items():
        visits.sort()
        first = 0
        for at in range(1, len(visits) + 1):
            if at == len(visits) or visits[at][0] - visits[at - 1][0] > _GAP_MS:
                session = visits[first:at]
                result[f"session|{visitor}|{session[0][0]}"] = [
                    session[-1][0],
                    len(session),
                    session[0][1],
                    session[-1][1],
                ]
                first = at
    return result


def found(outputs: Contents) -> Result:
    result: Result = {
        f"page|{page}": [each["views"], each["shares"]] for page, each in outputs.latest("page-counts").items()
    }
    return result | {
        f"session|{key}": [each["last"], each["views"], each["landing"], each["exit"]]
        for key, each in outputs.latest("sessions").items()
    }


def picture(found: Result, rows: int) -> Picture:
    sessions = {key: value for key, value in found.items() if key.startswith("session|")}
    lengths = [value[1] for value in sessions.values()]
    pages: list[list[Cell]] = [[key[5:], *value] for key, value in found.items() if key.startswith("page|")]
    pages.sort(key=lambda row: -(row[1] if isinstance(row[1], int) else 0))
    longest = sorted(sessions.items(), key=lambda item: -item[1][1])[: rows // 2]
    lines = [f"{key.split('|')[1]}: {views} views, {landing} → {exit_}" for key, (_, views, landing, exit_) in longest]
    mean = round(sum(lengths) / len(lengths), 1) if lengths else None
    return panels(
        Figures("", {"sessions": len(sessions), "views per session": mean}),
        Table("pages", ("page", "views", "shares"), pages[:rows], bar="views"),
        Feed("longest sessions", lines),
    )


def trend(found: Result) -> Chart:
    total = sum(value[0] for key, value in found.items() if key.startswith("page|"))
    return Chart("views so far", "views", {"all pages": [(0.0, total)]})

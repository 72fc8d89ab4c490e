"""Positions, profiles and pairs of titles without Spark, and the picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from headrace.demos.picture import Cell, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Resume a film, live user profiles, the next film to watch."
OUTPUTS = {
    "watch-positions": compacted(3),
    "user-profiles": compacted(3),
    "watched-together": kept(7, 3),
    "recommendations": compacted(),
}
_NEAR_MS: Final = 10_000
_GENRES: Final = ("drama", "comedy", "crime")


def expected(inputs: Contents) -> Result:
    last: dict[tuple[str, str], tuple[int, int, str]] = {}
    profiles: dict[str, Counter[str]] = defaultdict(Counter)
    rows = list(inputs.rows("watch-events"))
    for row in rows:
        at = (row["user"], row["title"])
        last[at] = max(last.get(at, (0, 0, "")), (row["at"], row["second"], row["device"]))
        profiles[row["user"]].update(["reports", row["genre"]])
    started = defaultdict(list)
    for row in inputs.rows("viewings"):
        started[row["user"]].append(row)
    pairs = Counter(
        (one["title"], two["title"])
        for viewings in started.values()
        for one in viewings
        for two in viewings
        if one["title"] != two["title"] and abs(one["at"] - two["at"]) <= _NEAR_MS
    )
    result: Result = {"rows for analytics": len(rows)}
    result |= {f"position|{user}|{title}": [second, on, at] for (user, title), (at, second, on) in last.items()}
    result |= {
        f"profile|{user}": [each["reports"], *(each[genre] for genre in _GENRES)] for user, each in profiles.items()
    }
    return result | {f"next|{title}|{following}": number for (title, following), number in pairs.items()}


def found(outputs: Contents) -> Result:
    result: Result = {"rows for analytics": outputs.lake.size("watched")}
    result |= {
        f"position|{key}": [each["second"], each["device"], each["at"]]
        for key, each in outputs.latest("watch-positions").items()
    }
    profiles = outputs.latest("user-profiles")
    result |= {f"profile|{user}": [each["reports"], *(each[g] for g in _GENRES)] for user, each in profiles.items()}
    return result | {f"next|{key}": each["count"] for key, each in outputs.latest("recommendations").items()}


def picture(found: Result, rows: int) -> Picture:
    following: dict[str, tuple[int, str]] = {}
    current: dict[str, tuple[int, str, int, str]] = {}
    for key, value in found.items():
        kind, _, rest = key.partition("|")
        if kind == "next":
            title, after = rest.split("|")
            following[title] = max(following.get(title, (0, "")), (value, after))
        elif kind == "position":
            user, title = rest.split("|")
            second, device, at = value
            current[user] = max(current.get(user, (0, "", 0, "")), (at, title, second, device))
    latest = sorted(current.items(), key=lambda item: -item[1][0])[:rows]
    resume: list[list[Cell]] = []
    for user, (_, title, second, device) in latest:
        _, *likes = found.get(f"profile|{user}", [0, 0, 0, 0])
        favourite = _GENRES[likes.index(max(likes))] if any(likes) else None
        resume.append([user, title, _clock(second), device, favourite, following.get(title, (0, None))[1]])
    best = sorted(following.items(), key=lambda item: -item[1][0])[:rows]
    columns = ("user", "watches", "left at", "on", "likes", "watch next")
    return panels(
        Figures("", {"users": len(current), "rows in the analytics table": found["rows for analytics"]}),
        Table("users, as their next device sees them", columns, resume),
        Table(
            "often watched together",
            ("film", "and then", "times"),
            [[t, then, n] for t, (n, then) in best],
            bar="times",
        ),
    )


def _clock(second: int) -> str:
    return f"{second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}"

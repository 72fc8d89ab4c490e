"""Positions, profiles and pairs of titles without Spark, and the picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from headrace.demos.picture import Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept, table_size

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
    rows = list(inputs.rows("watch-events"))
    last: dict[tuple[str, str], tuple[int, int, str]] = {}
    profiles: dict[str, Counter[str]] = defaultdict(Counter)
    by_user = defaultdict(list)
    for row in rows:
        at = (row["user"], row["title"])
        last[at] = max(last.get(at, (0, 0, "")), (row["at"], row["second"], row["device"]))
        profiles[row["user"]].update(["reports", row["genre"]])
        by_user[row["user"]].append(row)
    pairs = Counter(
        (one["title"], two["title"])
        for events in by_user.values()
        for one in events
        for two in events
        if one["title"] != two["title"] and abs(one["at"] - two["at"]) <= _NEAR_MS
    )
    result: Result = {"rows for analytics": len(rows)}
    result |= {f"position|{user}|{title}": second for (user, title), (_, second, _) in last.items()}
    result |= {
        f"profile|{user}": [each["reports"], *(each[genre] for genre in _GENRES)] for user, each in profiles.items()
    }
    return result | {f"next|{title}|{following}": number for (title, following), number in pairs.items()}


def found(outputs: Contents) -> Result:
    assert outputs.tables is not None
    result: Result = {"rows for analytics": table_size(outputs.tables / "watched")}
    result |= {f"position|{key}": each["second"] for key, each in outputs.latest("watch-positions").items()}
    profiles = outputs.latest("user-profiles")
    result |= {f"profile|{user}": [each["reports"], *(each[g] for g in _GENRES)] for user, each in profiles.items()}
    return result | {f"next|{key}": each["count"] for key, each in outputs.latest("recommendations").items()}


def picture(found: Result, rows: int) -> Picture:
    positions = [(*key.split("|")[1:], second) for key, second in sorted(found.items()) if key.startswith("position")]
    resume = [[user, title, _clock(second)] for user, title, second in positions[:rows]]
    best: dict[str, tuple[int, str]] = {}
    for key, number in found.items():
        if key.startswith("next|"):
            _, title, after = key.split("|")
            best[title] = max(best.get(title, (0, "")), (number, after))
    following = sorted(best.items(), key=lambda item: -item[1][0])[:rows]
    likes = [
        [key.removeprefix("profile|"), _GENRES[max(range(3), key=lambda at: value[1 + at])], value[0]]
        for key, value in sorted(found.items())
        if key.startswith("profile|")
    ]
    return panels(
        Figures("", {"rows in the analytics table": found["rows for analytics"]}),
        Table("resume", ("user", "title", "at"), resume),
        Table("profiles", ("user", "likes most", "reports"), likes[:rows]),
        Table(
            "watch next", ("after", "watch", "together"), [[t, after, n] for t, (n, after) in following], bar="together"
        ),
    )


def _clock(second: int) -> str:
    return f"{second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}"

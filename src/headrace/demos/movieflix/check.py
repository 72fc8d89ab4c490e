"""Positions, profiles and pairs of titles without Spark, and the picture."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.table import Table

from headrace.demos.topics import Contents, Result

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "Resume a film, live user profiles, the next film to watch."
OUTPUTS = {
    "watch-positions": {"cleanup.policy": "compact"},
    "user-profiles": {"cleanup.policy": "compact"},
    "watched-together": {"retention.ms": "604800000"},
    "recommendations": {"cleanup.policy": "compact"},
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
    result: Result = {f"position|{user}|{title}": second for (user, title), (_, second, _) in last.items()}
    result |= {
        f"profile|{user}": [each["reports"], *(each[genre] for genre in _GENRES)] for user, each in profiles.items()
    }
    return result | {f"next|{title}|{following}": number for (title, following), number in pairs.items()}


def found(outputs: Contents) -> Result:
    result: Result = {f"position|{key}": each["second"] for key, each in outputs.latest("watch-positions").items()}
    profiles = outputs.latest("user-profiles")
    result |= {f"profile|{user}": [each["reports"], *(each[g] for g in _GENRES)] for user, each in profiles.items()}
    return result | {f"next|{key}": each["count"] for key, each in outputs.latest("recommendations").items()}


def picture(found: Result, rows: int) -> RenderableType:
    resume = Table(title="resume", title_justify="left")
    for name in ("user", "title", "at"):
        resume.add_column(name, justify="right" if name == "at" else "left")
    positions = [(*key.split("|")[1:], second) for key, second in sorted(found.items()) if key.startswith("position")]
    for user, title, second in positions[:rows]:
        resume.add_row(user, title, f"{second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}")
    following = Table(title="watch next", title_justify="left")
    for name in ("after", "watch", "together"):
        following.add_column(name, justify="right" if name == "together" else "left")
    best: dict[str, tuple[int, str]] = {}
    for key, number in found.items():
        if key.startswith("next|"):
            _, title, after = key.split("|")
            best[title] = max(best.get(title, (0, "")), (number, after))
    for title, (number, after) in sorted(best.items(), key=lambda item: -item[1][0])[:rows]:
        following.add_row(title, after, f"{number:,}")
    return Columns([resume, following])

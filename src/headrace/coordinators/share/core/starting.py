"""Start offset of a new share partition: `share.auto.offset.reset`."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class StartingPoint(IntEnum):
    LATEST = -1
    EARLIEST = -2


_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?", re.ASCII
)


def starting_point(reset: str) -> StartingPoint | int:
    """A starting point, or how many milliseconds back from now (`by_duration:PT1H`)."""
    text = reset.strip()
    if text.lower() == "earliest":
        return StartingPoint.EARLIEST
    if text.lower().startswith("by_duration:"):
        found = _DURATION.fullmatch(text.split(":", 1)[1].strip().upper())
        if found is not None:
            parts = {name: float(value or 0) for name, value in found.groupdict().items()}
            seconds = parts["days"] * 86_400 + parts["hours"] * 3_600 + parts["minutes"] * 60 + parts["seconds"]
            return int(seconds * 1_000)
    return StartingPoint.LATEST

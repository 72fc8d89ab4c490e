"""The blocks of the README's tour, for the tests that run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
TOUR = README.split("## A two-minute tour")[1].split("\n## ")[0]


@dataclass(frozen=True)
class Step:
    command: str
    prints: str


def steps() -> list[Step]:
    """Every shell block of the tour, with the text block that follows it."""
    found = re.findall(r"```sh\n(.*?)```\n(?:```text\n(.*?)```)?", TOUR, re.DOTALL)
    return [Step(command, prints) for command, prints in found]


def python_block(words: str) -> str:
    """The Python block that contains these words."""
    [found] = [block for block in re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL) if words in block]
    return str(found)


def moved(text: str, address: str) -> str:
    """The same with the address of a test's broker."""
    assert "localhost:9092" in text
    return text.replace("localhost:9092", address)

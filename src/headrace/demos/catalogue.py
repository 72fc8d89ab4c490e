"""The demos: their directories and what each shows."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from headrace.datagen.plan import Plan, load

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.demos.topics import Contents, Result

_HERE: Final = Path(__file__).parent


class Check(Protocol):
    """What `check.py` of a demo has to offer."""

    TITLE: str
    """One line: what the demo shows."""
    OUTPUTS: dict[str, dict[str, str]]
    """The topics that the pipeline writes, with their configurations."""

    def expected(self, inputs: Contents) -> Result:
        """The result, computed from the input topics without Spark."""

    def found(self, outputs: Contents) -> Result:
        """The result that the pipeline wrote."""

    def picture(self, found: Result, rows: int) -> RenderableType: ...


@dataclass(frozen=True)
class Demo:
    name: str
    directory: Path

    @property
    def plan(self) -> Plan:
        return load(self.directory / "data.yml")

    @property
    def check(self) -> Check:
        return cast("Check", importlib.import_module(f"headrace.demos.{self.name}.check"))


def demos() -> dict[str, Demo]:
    """The demos that consist of a directory. The word count has its own program."""
    return {path.parent.name: Demo(path.parent.name, path.parent) for path in sorted(_HERE.glob("*/data.yml"))}

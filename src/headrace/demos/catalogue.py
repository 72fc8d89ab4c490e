"""The demos: their directories and what each shows."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol, cast

from headrace.datagen.plan import Plan, load

if TYPE_CHECKING:
    from headrace.demos.picture import Chart, Picture
    from headrace.demos.stage import Stage
    from headrace.demos.topics import Contents, Result, TopicSettings

_HERE: Final = Path(__file__).parent


class Check(Protocol):
    """What `check.py` of a demo has to offer."""

    TITLE: str
    """One line: what the demo shows."""
    OUTPUTS: Mapping[str, TopicSettings]
    """The topics that the demo writes."""

    def expected(self, inputs: Contents) -> Result:
        """The result, computed from the input topics in plain Python."""

    def found(self, outputs: Contents) -> Result:
        """The result that the pipeline or the services wrote."""

    def picture(self, found: Result, rows: int) -> Picture: ...


class Story(Protocol):
    """What `story.py` of a demo has to offer, if more happens than records that arrive."""

    def run(self, stage: Stage) -> None:
        """Sends records, starts services, kills them. Returns when everything has happened.

        The module may also have `resources(data)`: a context manager that starts what the pipeline needs, such as a
        database, and yields settings of the pipeline. `GOES_ON = True` says that a second run may use the same data.
        """


@dataclass(frozen=True)
class Demo:
    name: str
    directory: Path

    @property
    def plan(self) -> Plan:
        return load(self.directory / "data.yml")

    @property
    def has_pipeline(self) -> bool:
        return (self.directory / "spark-pipeline.yml").is_file()

    @property
    def uses_spark(self) -> bool:
        return self.has_pipeline or bool(getattr(self.check, "USES_SPARK", False))

    @property
    def check(self) -> Check:
        return cast("Check", self._module("check"))

    @property
    def story(self) -> Story | None:
        return cast("Story", self._module("story")) if (self.directory / "story.py").is_file() else None

    @property
    def trend(self) -> Callable[[Result], Chart] | None:
        """A chart whose history the run keeps, from its latest values."""
        return getattr(self.check, "trend", None)

    @property
    def inputs(self) -> Mapping[str, TopicSettings]:
        """Topics that no generator fills and the check reads."""
        return getattr(self.check, "INPUTS", {})

    @property
    def broker_settings(self) -> Mapping[str, str]:
        """What a broker of the demo needs; a cluster of the user has its own."""
        return getattr(self.check, "BROKER_SETTINGS", {})

    @property
    def brokers(self) -> int:
        """Number of brokers that the demo needs to show what it is about."""
        return int(getattr(self.check, "BROKERS", 1))

    def _module(self, name: str) -> ModuleType:
        """From the directory itself, so that a copy runs its own code."""
        file = self.directory / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"headrace_demo_{self.name}_{name}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up there
        spec.loader.exec_module(module)
        return module


def demos() -> dict[str, Demo]:
    """The demos that consist of a directory. The word count has its own program."""
    return {path.parent.name: Demo(path.parent.name, path.parent) for path in sorted(_HERE.glob("*/data.yml"))}


def without_java() -> str:
    """What a person can try who has no Java."""
    names = ", ".join(name for name, demo in demos().items() if not demo.uses_spark)
    return f"These demos need no Java on one broker: {names}."


def copied(directory: Path) -> Demo | None:
    """A demo in a directory of its own, usually a copy."""
    if not (directory / "check.py").is_file() or not (directory / "data.yml").is_file():
        return None
    return Demo(directory.resolve().name, directory.resolve())

"""`spark-pipeline.yml`: the specification of a pipeline directory, in the format of Spark Declarative Pipelines.

This module reads it because PySpark's reader needs Spark Connect and its dependencies. The rules for fields and globs
are the same, so the stock `spark-pipelines` command also loads the directory.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import yaml

from headrace.pipelines.errors import OptionError, PipelineError, nearest

FILE_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
BOOTSTRAP: Final = "headrace.bootstrap.servers"
# auto, python or jvm. Definition files get the choice as the format that reads topics.
BACKEND: Final = "headrace.backend"
FORMAT: Final = "headrace.format"
# Interval of checkpoints in real-time mode. Setting it turns this mode on.
REALTIME: Final = "headrace.trigger.realtime"


@dataclass(frozen=True)
class PipelineSpec:
    directory: Path
    name: str
    storage: str
    database: str | None
    configuration: Mapping[str, str]
    globs: tuple[str, ...]

    @property
    def is_local(self) -> bool:
        """Whether the storage is a local directory."""
        return urlsplit(self.storage).scheme in ("", "file")

    @property
    def storage_path(self) -> Path:
        """The storage root as a local path. A relative path starts at the pipeline's directory."""
        parts = urlsplit(self.storage)
        if not self.is_local:
            raise PipelineError(f"storage {self.storage!r} is not on this machine: this verb needs a file path")
        path = Path(unquote(parts.path) if parts.scheme else self.storage)
        return path if path.is_absolute() else self.directory / path

    def storage_uri(self, *parts: str) -> str:
        """A place below the storage root as a URI for Spark."""
        if not self.is_local:
            return "/".join([self.storage.rstrip("/"), *parts])
        return str(self.storage_path.joinpath(*parts))

    @property
    def bootstrap(self) -> str | None:
        return self.configuration.get(BOOTSTRAP)

    def with_settings(self, settings: Mapping[str, str], storage: str | None = None) -> PipelineSpec:
        return replace(self, configuration={**self.configuration, **settings}, storage=storage or self.storage)

    def files(self) -> list[Path]:
        """The definition files, sorted so that the loading order does not depend on the file system."""
        found = {
            file
            for pattern in self.globs
            for file in self.directory.glob(pattern + "/*" if pattern.endswith("/**") else pattern)
            if file.is_file() and "__pycache__" not in file.parts
        }
        return sorted(found)


def find_spec(directory: Path) -> Path:
    """The specification file of this directory, or `path` itself if it is a file."""
    if directory.is_file():
        return directory
    found = [directory / name for name in FILE_NAMES if (directory / name).is_file()]
    if len(found) == 1:
        return found[0]
    if found:
        raise PipelineError(f"{directory} holds both {FILE_NAMES[0]} and {FILE_NAMES[1]}: keep one")
    raise PipelineError(f"{directory} holds no {FILE_NAMES[0]}: make a pipeline with 'headrace pipeline init'")


def load_spec(directory: Path) -> PipelineSpec:
    file = find_spec(directory)
    try:
        data = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise OptionError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise OptionError(f"{file}: must be a mapping with name, storage and libraries")
    return _checked(file, data)


def _checked(file: Path, data: dict[str, object]) -> PipelineSpec:
    if unknown := next((key for key in data if key not in _FIELDS), None):
        raise OptionError(f"{file}: field {unknown!r} is unknown{nearest(str(unknown), _FIELDS)}")
    if missing := next((key for key in ("name", "storage") if not data.get(key)), None):
        raise OptionError(f"{file}: field {missing!r} is missing")
    configuration = data.get("configuration") or {}
    if not isinstance(configuration, dict) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in configuration.items()
    ):
        raise OptionError(f"{file}: configuration must map names to quoted strings")
    libraries, database = data.get("libraries") or [], data.get("database", data.get("schema"))
    if database is not None and not isinstance(database, str):
        raise OptionError(f"{file}: database {database!r} must be a name")
    if not isinstance(libraries, list):
        raise OptionError(f"{file}: libraries must be a list")
    globs = []
    for entry in libraries:
        pattern = _glob_of(entry)
        if pattern is None:
            raise OptionError(f"{file}: each library must be written as - glob: {{include: transformations/**}}")
        if glob.has_magic(pattern) and (not pattern.endswith("/**") or glob.has_magic(pattern[:-3])):
            raise OptionError(f"{file}: glob {pattern!r} must be a file, or a folder ending with /**")
        globs.append(pattern)
    return PipelineSpec(
        directory=file.parent.resolve(),
        name=str(data["name"]),
        storage=os.path.expandvars(str(data["storage"])),
        database=database,
        configuration=configuration,
        globs=tuple(globs),
    )


def _glob_of(library: object) -> str | None:
    pattern = library.get("glob") if isinstance(library, dict) else None
    include = pattern.get("include") if isinstance(pattern, dict) else None
    return include if isinstance(include, str) else None

"""Libraries of the extra `connectors`, imported when a connector needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from headrace.pipelines.errors import PipelineError


def library(module: str, place: str) -> ModuleType:
    """The module. If it is not installed, the error names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise PipelineError(
            f"{place}: the library {error.name!r} is not installed: pip install 'headrace[connectors]'"
        ) from error

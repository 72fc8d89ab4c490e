"""The structure that the code keeps: no untyped request, every figure measured by tools/code_figures.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("code_figures", ROOT / "tools" / "code_figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["code_figures"] = module
    spec.loader.exec_module(module)
    return module


def test_handlers_name_the_types_of_their_requests_and_answers() -> None:
    assert _tool().figures(ROOT)["Any in handlers/"] == 0

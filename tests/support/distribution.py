"""Builds the wheel and the source distribution, as `make dist` does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Distribution:
    wheel: Path
    source: Path


def build(tree: Path, target: Path) -> Distribution:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return Distribution(wheel, source)

"""Builds the wheel and the source distribution once, and installs the wheel into a virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.distribution import Distribution, build

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel and the dependencies of this environment, but not its headrace."""

    directory: Path

    def environment(self, home: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE", "PYTHON", "XDG"))}
        return {**kept, "HOME": str(home), "PATH": f"{self.directory}/bin:{os.environ['PATH']}"}

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(self.directory / "bin" / words[0]), *words[1:]]
        return subprocess.run(
            command, env=self.environment(cwd), cwd=cwd, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", directory], check=True, timeout=120)
    python = directory / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, str(distribution.wheel)], check=True, timeout=120)  # type: ignore[list-item]
    # Python does not read .pth files in a directory added by a .pth file, so an editable headrace is not visible.
    own = next((directory / "lib").glob("python*/site-packages"))
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(directory)

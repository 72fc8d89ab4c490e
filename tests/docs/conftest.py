"""Environment of pages that install the package: the wheel in `dist/`, and pip without an index."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.page import ROOT, PageRun
from tests.support.distribution import Distribution, build
from tests.support.pytest_plugin import plugin_environment

Follow = Callable[[str], None]


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return build(ROOT, tmp_path_factory.mktemp("built") / "dist")


@pytest.fixture(scope="session")
def environment_for_installing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Python, pip without an index, and the dependencies of this environment, but no headrace."""
    directory = tmp_path_factory.mktemp("without-headrace")
    (directory / "bin").mkdir()
    (directory / "bin/python3").symlink_to(sys.executable)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "headrace" not in entry.name:
            (directory / "lib" / entry.name).parent.mkdir(exist_ok=True)
            (directory / "lib" / entry.name).symlink_to(entry)
    elsewhere = [place for place in os.environ["PATH"].split(":") if not (Path(place) / "headrace").exists()]
    return {
        "PATH": ":".join([str(directory / "bin"), *elsewhere]),
        "PYTHONPATH": str(directory / "lib"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
    }


@pytest.fixture
def follow(tmp_path: Path, request: pytest.FixtureRequest) -> Follow:
    """Runs the commands of a page in docs/."""

    def followed(name: str) -> None:
        page = ROOT / "docs" / name
        installs = "--find-links dist" in page.read_text()
        environment = plugin_environment()
        if installs:
            built: Distribution = request.getfixturevalue("distribution")
            (tmp_path / "dist").symlink_to(built.wheel.parent)
            environment = request.getfixturevalue("environment_for_installing")
        with PageRun(page, tmp_path, environment) as reading:
            reading.read()
            reading.write()
        assert bool(list(tmp_path.glob("*/lib/*/site-packages/headrace/__init__.py"))) == installs

    return followed

"""What pages that install the package find: the wheel in `dist/`, and pip without an index."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.page import ROOT, PageRun
from tests.support.distribution import Distribution, build

Follow = Callable[[str], None]


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return build(ROOT, tmp_path_factory.mktemp("built") / "dist")


@pytest.fixture
def follow(tmp_path: Path, request: pytest.FixtureRequest) -> Follow:
    """Reads a page of docs/ and does what it says."""

    def followed(name: str) -> None:
        page = ROOT / "docs" / name
        environment = {}
        if "--find-links dist" in page.read_text():
            built: Distribution = request.getfixturevalue("distribution")
            (tmp_path / "dist").symlink_to(built.wheel.parent)
            # The dependencies come from this environment, headrace itself from the wheel.
            environment = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PYTHONPATH": sysconfig.get_path("purelib")}
        with PageRun(page, tmp_path, environment) as reading:
            reading.read()
            reading.write()

    return followed

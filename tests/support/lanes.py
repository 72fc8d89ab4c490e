"""Which tests `make test` runs in parallel (`pytest -n 3`), and in which order.

Most of a run is waiting: for sessions to end, brokers to return, JVMs to start. So three processes run tests on two
cores. Tests that share a costly set-up (a Spark session, an Apache Kafka) run in one process. The other files go to the
process that is free, the long files first, so that all processes end together.
"""

from __future__ import annotations

from typing import Any

import pytest

# Spark uses the processors and fault tests mostly wait. So they run well in parallel, and both take minutes.
_ORDER = (
    "tests/pipelines/",
    "tests/cluster/",
    "tests/tables/",
    "tests/demos/",
    "tests/console/",
    "tests/docs/",
    "tests/conformance/",
    "tests/differential/",
    "tests/simulation/",
    "tests/packaging/",
    "tests/cli/",
    "tests/unit/",
)
_TOGETHER = ("tests/pipelines/", "tests/tables/", "tests/differential/")


def scope(nodeid: str) -> str:
    """Unit that runs in one process: a folder of `_TOGETHER`, or a file."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in _TOGETHER if file.startswith(folder)), file)


def slow_first(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((n for n, folder in enumerate(_ORDER) if item.nodeid.startswith(folder)), len(_ORDER))

    items.sort(key=place)  # stable: within a folder, in collection order


def scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    # the default would put files with many tests first, and those are the fast ones
    config.option.loadscopereorder = False
    return Lanes(config, log)

"""Which tests `make test` runs side by side (`pytest -n 2`), and in which order.

Much of a run is waiting: for sessions to end, brokers to come back, JVMs to start. Two processes wait at once. What
shares a costly set-up (a Spark session, an Apache Kafka) stays in one of them; the rest goes file by file to whichever
is free, the long files first, so that both end together.
"""

from __future__ import annotations

from typing import Any

import pytest

# Spark fills the processors and faults are mostly waited for: they go well together, and both take minutes.
_ORDER = (
    "tests/pipelines/",
    "tests/cluster/",
    "tests/docs/",
    "tests/conformance/",
    "tests/differential/",
    "tests/simulation/",
    "tests/packaging/",
    "tests/cli/",
    "tests/unit/",
)
_TOGETHER = ("tests/pipelines/", "tests/differential/")


def scope(nodeid: str) -> str:
    """What runs in one process: a folder of `_TOGETHER`, or a file."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in _TOGETHER if file.startswith(folder)), file)


def slow_first(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((n for n, folder in enumerate(_ORDER) if item.nodeid.startswith(folder)), len(_ORDER))

    items.sort(key=place)  # stable: within a folder, as collected


def scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False  # it would put files with many tests first, and those are the quick ones
    return Lanes(config, log)

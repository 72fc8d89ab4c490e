"""Types and functions that every other package uses: `ids`, `errors` (the error table), `isolation`, `checksum`,
`clock`, `dataclass`, `plurals`, `json_values`, `parent_process` (a process that ends with the one that started it),
`internal_topics` (topics that hold the state of brokers and tools).

When hypothesis is installed, kio imports it to register test strategies. That costs a tenth of a second at the start of
every command on a developer's machine, and Headrace does not use them. This module hides hypothesis while kio loads.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast


def _load_kio_alone() -> None:
    if "hypothesis" in sys.modules:
        return
    # Python raises ModuleNotFoundError for a module that is None in sys.modules.
    sys.modules["hypothesis"] = cast("ModuleType", None)
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]


_load_kio_alone()

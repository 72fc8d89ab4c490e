"""What everything stands on: `ids`, `errors` (the error table), `isolation`, `checksum`, `dataclass`,
`plurals`, `json_values`.

kio loads hypothesis when it is installed, to register test strategies. That costs a tenth of a second at the start of
every command on a developer's machine and serves nobody here, so it is kept from seeing it while it loads.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast


def _load_kio_alone() -> None:
    if "hypothesis" in sys.modules:
        return
    # None in sys.modules is Python's own way to say "not to be found".
    sys.modules["hypothesis"] = cast("ModuleType", None)
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]


_load_kio_alone()

"""CRC-32C, the checksum of record batches and of Headrace's own small files.

It imports only the native part of the `crc32c` package. The package itself reads its version from the metadata of
installed packages, which imports zipfile, email and argparse: a twentieth of the time until a broker serves.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol


class Checksum(Protocol):
    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
        """The checksum of `data`, continuing from `value`, the checksum of the bytes before it."""


def _native() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    found = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations) if package is not None else None
    if found is None or found.loader is None:
        import crc32c as package_itself

        whole: Checksum = package_itself.crc32c
        return whole
    module = module_from_spec(found)
    found.loader.exec_module(module)
    native: Checksum = module.crc32c
    return native


crc32c: Final = _native()

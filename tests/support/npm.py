"""Packages of npm that tests need, fetched once into .cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

_CACHE = Path(__file__).resolve().parents[2] / ".cache"
# SHA-256 of the archives.
_HASHES = {
    "axe-core@4.14.0": "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af",
}


def npm_package(name: str, version: str) -> Path:
    """The directory with the files of the package."""
    place = _CACHE / f"{name}-{version}"
    if not place.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as directory:
            subprocess.run(
                ["npm", "pack", "--silent", f"{name}@{version}"], cwd=directory, check=True, timeout=180,
                capture_output=True,
            )  # fmt: skip
            (archive,) = Path(directory).glob("*.tgz")
            assert hashlib.sha256(archive.read_bytes()).hexdigest() == _HASHES[f"{name}@{version}"]
            with tarfile.open(archive) as packed:
                packed.extractall(directory, filter="data")
            try:
                (Path(directory) / "package").rename(place)
            except OSError:  # another process was faster
                assert place.exists()
    return place


def npm_project(source: Path) -> Path:
    """A directory with the files of `source` and the packages of its package-lock.json.

    Install scripts do not run: no package may need a compiler.
    """
    place = _CACHE / source.name.replace("_", "-")
    place.mkdir(parents=True, exist_ok=True)
    lock = (source / "package-lock.json").read_bytes()
    for file in source.iterdir():
        shutil.copy(file, place / file.name)
    stamp = place / ".installed"
    if not stamp.exists() or stamp.read_bytes() != lock:
        install = ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(install, cwd=place, check=True, timeout=280)
        stamp.write_bytes(lock)
    return place

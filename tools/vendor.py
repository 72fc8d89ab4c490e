"""Fetches the browser files of the web console from npm into src/headrace/console/static/vendor.

`make vendor` needs npm. Installing Headrace does not: the files are part of the repository and of the wheel. The
manifest beside them has the version, the licence and the SHA-256 of each file; a unit test compares them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

VENDOR: Final = Path(__file__).parent.parent / "src/headrace/console/static/vendor"
# Package → version, licence, and which files of the package become which file here.
PACKAGES: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "htmx.org": ("2.0.11", "0BSD", {"dist/htmx.min.js": "htmx.js", "LICENSE": "htmx.LICENSE"}),
    "htmx-ext-sse": ("2.2.4", "0BSD", {"dist/sse.min.js": "htmx-sse.js", "LICENSE": "htmx-sse.LICENSE"}),
    "uplot": (
        "1.6.32",
        "MIT",
        {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css", "LICENSE": "uplot.LICENSE"},
    ),
}


def fetch(package: str, version: str, licence: str, files: dict[str, str]) -> dict[str, object]:
    """Copies the files of one package. Returns its entry in the manifest."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=directory, check=True)
        (archive,) = Path(directory).glob("*.tgz")
        hashes = {}
        with tarfile.open(archive) as packed:

            def content(name: str) -> bytes:
                found = packed.extractfile(f"package/{name}")
                assert found is not None, f"{package}@{version} has no file {name}"
                return found.read()

            for source, target in files.items():
                data = content(source)
                (VENDOR / target).write_bytes(data)
                hashes[target] = hashlib.sha256(data).hexdigest()
    return {"package": package, "version": version, "licence": licence, "sha256": hashes}


def main() -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    manifest = [fetch(package, *pinned) for package, pinned in PACKAGES.items()]
    (VENDOR / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    for entry in manifest:
        print(f"{entry['package']} {entry['version']} ({entry['licence']})")


if __name__ == "__main__":
    main()

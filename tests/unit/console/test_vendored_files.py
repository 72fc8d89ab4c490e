"""The browser files in the wheel are the ones that the manifest names."""

from __future__ import annotations

import hashlib
import json
from importlib import resources


def test_every_vendored_file_has_the_hash_version_and_licence_of_the_manifest() -> None:
    folder = resources.files("headrace.console").joinpath("static", "vendor")
    manifest = json.loads(folder.joinpath("manifest.json").read_text())
    hashes = {name: digest for entry in manifest for name, digest in entry["sha256"].items()}
    files = {file.name for file in folder.iterdir()} - {"manifest.json"}
    assert files == hashes.keys()
    for name, digest in hashes.items():
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest
    assert all(entry["version"] and entry["licence"] for entry in manifest)

"""Fetches the browser files of the web console from npm into src/headrace/console/static/vendor.

`make vendor` needs npm. Installing Headrace does not: the files are part of the repository and of the wheel. The
manifest beside them has the version, the licence and the SHA-256 of each file; a unit test compares them.

CodeMirror comes as many small packages, so esbuild joins the parts that the editor uses into one file.
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

CODEMIRROR: Final = {
    "@codemirror/state": "6.7.6", "@codemirror/view": "6.43.15", "@codemirror/commands": "6.11.1",
    "@codemirror/language": "6.13.1", "@codemirror/autocomplete": "6.20.4", "@codemirror/lang-sql": "6.10.0",
    "@codemirror/lang-json": "6.0.2", "@lezer/common": "1.5.5", "@lezer/highlight": "1.2.5", "@lezer/json": "1.0.3",
    "@lezer/lr": "1.4.12", "style-mod": "4.1.4", "w3c-keyname": "2.2.8", "crelt": "1.0.7",
    "@marijn/find-cluster-break": "1.0.4",
}  # fmt: skip
BUNDLER: Final = "esbuild@0.25.12"
# What `static/editor.js` uses.
EXPORTS: Final = {
    "@codemirror/state": "Compartment",
    "@codemirror/view": "EditorView, keymap, placeholder",
    "@codemirror/commands": "defaultKeymap, history, historyKeymap",
    "@codemirror/language": "HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting",
    "@codemirror/autocomplete": "autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap",
    "@codemirror/lang-sql": "PostgreSQL, sql",
    "@codemirror/lang-json": "json",
    "@lezer/highlight": "tags",
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


def bundle_codemirror() -> dict[str, object]:
    """Builds `codemirror.js`, which defines `codemirror`. Returns its entry in the manifest."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        pinned = [f"{package}@{version}" for package, version in CODEMIRROR.items()]
        subprocess.run(["npm", "init", "-y"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["npm", "install", "--silent", "--save-exact", *pinned, BUNDLER], cwd=folder, check=True)
        entry = "".join(f'export {{ {names} }} from "{package}";\n' for package, names in EXPORTS.items())
        (folder / "entry.js").write_text(entry)
        options = ["--bundle", "--minify", "--format=iife", "--global-name=codemirror", "--legal-comments=none"]
        subprocess.run(["npx", "esbuild", "entry.js", *options, "--outfile=codemirror.js"], cwd=folder, check=True)
        licences = [(package, folder / "node_modules" / package / "LICENSE") for package in CODEMIRROR]
        texts = "\n".join(f"{package} {CODEMIRROR[package]}\n\n{file.read_text()}" for package, file in licences)
        files = {"codemirror.js": (folder / "codemirror.js").read_bytes(), "codemirror.LICENSE": texts.encode()}
    for name, data in files.items():
        (VENDOR / name).write_bytes(data)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return {"package": "codemirror", "version": CODEMIRROR["@codemirror/view"], "licence": "MIT",
            "parts": CODEMIRROR, "sha256": hashes}  # fmt: skip


def main() -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    manifest = [fetch(package, *pinned) for package, pinned in PACKAGES.items()]
    manifest.append(bundle_codemirror())
    (VENDOR / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    for entry in manifest:
        print(f"{entry['package']} {entry['version']} ({entry['licence']})")


if __name__ == "__main__":
    main()

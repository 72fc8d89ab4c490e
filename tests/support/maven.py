"""Jars from Maven's repositories, kept in `.cache`. Tests that use them need `mvn`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>{name}</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<classifier>{}</classifier></dependency>"
)


def jar(group: str, artifact: str, version: str) -> Path:
    """One jar without what it depends on; downloads it once."""
    file = CACHE / "jars" / f"{artifact}-{version}.jar"
    if not file.exists():
        _maven("dependency:copy", f"-Dartifact={group}:{artifact}:{version}", f"-DoutputDirectory={file.parent}")
    return file


def jars(name: str, *artifacts: tuple[str, str, str, str]) -> str:
    """The class path of artifacts (group, name, version, classifier) and everything that they depend on."""
    folder = CACHE / name
    if not (folder / "pom.xml").exists():
        fresh = CACHE / f"{name}.pom.xml"
        fresh.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(_DEPENDENCY.format(*artifact) for artifact in artifacts)
        fresh.write_text(_POM.format(name=name, dependencies=text))
        _maven("-f", str(fresh), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        # The last step: a download that was interrupted begins again.
        fresh.replace(folder / "pom.xml")
    return f"{folder}/*"


def _maven(*arguments: str) -> None:
    maven = shutil.which("mvn")
    assert maven is not None
    CACHE.mkdir(exist_ok=True)
    subprocess.run([maven, "-q", "-B", *arguments], check=True, timeout=600, cwd=CACHE)

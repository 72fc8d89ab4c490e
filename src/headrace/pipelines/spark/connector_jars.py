"""Spark's own Kafka connector: downloads its jars once and adds them to a session. The setting `backend` chooses it.

    backend=python   format("headrace"), no jar
    backend=jvm      format("kafka"), the connector's jars; required for real-time mode
    backend=auto     jvm for real-time mode, python otherwise

Jars in the cache do not change the backend of a pipeline: the two backends store offsets differently, so neither can
use the other's checkpoint.

The four jars are listed one by one and downloaded without dependencies, which Spark already has. The connector has the
version of PySpark. If the repository lacks that version, the newest one that was tested with it is used.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.spec import REALTIME
from headrace.pipelines.spark.java import cache_dir

_KAFKA_CLIENTS: Final = "org.apache.kafka:kafka-clients:3.9.2"
_POOL: Final = "org.apache.commons:commons-pool2:2.13.1"
BACKENDS: Final = ("auto", "python", "jvm")


@dataclass(frozen=True)
class JarSet:
    connector: str
    token_provider: str

    def coordinates(self) -> list[str]:
        return [
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{self.connector}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{self.token_provider}",
            _KAFKA_CLIENTS,
            _POOL,
        ]

    def files(self, folder: Path) -> list[Path]:
        return [
            folder / f"{artifact}-{version}.jar" for _, artifact, version in (c.split(":") for c in self.coordinates())
        ]


def _jar_sets() -> list[JarSet]:
    """Sets of jars in order of preference: PySpark's own version, then versions that work with it."""
    import pyspark

    return [JarSet(pyspark.__version__, pyspark.__version__), JarSet("4.2.0", "4.2.0"), JarSet("4.2.0", "4.0.0")]


def _folder() -> Path:
    return cache_dir() / "kafka-connector"


def cached_jars() -> list[Path]:
    """The connector's jars in the cache; empty if they were never downloaded."""
    for jars in _jar_sets():
        files = jars.files(_folder())
        if all(file.exists() for file in files):
            return files
    return []


def fetch_jars(report: Callable[[str], None] = print) -> list[Path]:
    """Downloads the first set that the repository has. Raises PipelineError with Maven's last message."""
    if found := cached_jars():
        return found
    maven = shutil.which("mvn")
    if maven is None:
        raise PipelineError(
            "Maven (mvn) is not on the PATH: install it, or put the connector's jars into " + str(_folder())
        )
    _folder().mkdir(parents=True, exist_ok=True)
    words = ""
    for jars in _jar_sets():
        report(f"fetching Spark's Kafka connector {jars.connector} (token provider {jars.token_provider})")
        for coordinates in jars.coordinates():
            words = _fetch(maven, coordinates)
            if words:
                break
        else:
            return jars.files(_folder())
    raise PipelineError(f"Maven could not fetch the connector: {words}")


def _fetch(maven: str, coordinates: str) -> str:
    """Returns Maven's error; empty on success."""
    _, artifact, version = coordinates.split(":")
    if (_folder() / f"{artifact}-{version}.jar").exists():
        return ""
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={_folder()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return (
        ""
        if done.returncode == 0
        else next((line for line in done.stdout.splitlines() if "ERROR" in line), "no word")[:300]
    )


@dataclass(frozen=True)
class Backend:
    name: str
    format: str
    jars: tuple[Path, ...]

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Adds this backend's jars to a session's settings."""
        jars = [*filter(None, given.get("spark.jars", "").split(",")), *map(str, self.jars)]
        return {**given, "spark.jars": ",".join(jars)} if jars else dict(given)

    def __str__(self) -> str:
        return f'backend {self.name}: format("{self.format}")' + (
            f" from {self.jars[0].name}" if self.jars else ", no jar"
        )


def choose_backend(wish: str = "auto", *, realtime: bool = False) -> Backend:
    """The backend that reads a pipeline's topics. Raises PipelineError if it is not available."""
    if wish not in BACKENDS:
        raise OptionError(f'backend={wish!r}: must be "auto", "python" or "jvm"')
    if wish == "python" and realtime:
        raise OptionError(f"backend=python cannot run in real time: leave {REALTIME} out, or choose backend=jvm")
    if wish == "python" or (wish == "auto" and not realtime):
        return Backend("python", "headrace", ())
    jars = tuple(cached_jars())
    if not jars:
        why = "real-time mode" if wish == "auto" else "backend=jvm"
        raise PipelineError(f"{why}: the connector's jars are not in the cache: run 'headrace pipeline jars' first")
    return Backend("jvm", "kafka", jars)

"""Spark's own Kafka connector: fetched once, offered to a session, chosen by `backend`.

    backend=python   format("headrace"), no jar
    backend=jvm      format("kafka"), the connector's jars; the only way to real-time mode
    backend=auto     jvm for real-time mode, python otherwise

Jars in the cache alone do not switch a pipeline to them: the two write their offsets differently, and a checkpoint of
one is refused by the other.

The four jars are named one by one and fetched without their dependencies, which Spark has already. The connector's
version follows pyspark's; where the repository does not hold that one, the newest that was measured to work with it.
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
    """In order of preference: pyspark's own version, then what works with it."""
    import pyspark

    return [JarSet(pyspark.__version__, pyspark.__version__), JarSet("4.2.0", "4.2.0"), JarSet("4.2.0", "4.0.0")]


def _folder() -> Path:
    return cache_dir() / "kafka-connector"


def cached_jars() -> list[Path]:
    """The connector's jars, or nothing when they were never fetched."""
    for jars in _jar_sets():
        files = jars.files(_folder())
        if all(file.exists() for file in files):
            return files
    return []


def fetch_jars(report: Callable[[str], None] = print) -> list[Path]:
    """Fetches the first set that the repository holds. Raises PipelineError with Maven's last words."""
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
    """Nothing on success, Maven's complaint otherwise."""
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
        """A session's settings with this backend's jars among them."""
        jars = [*filter(None, given.get("spark.jars", "").split(",")), *map(str, self.jars)]
        return {**given, "spark.jars": ",".join(jars)} if jars else dict(given)

    def __str__(self) -> str:
        return f'backend {self.name}: format("{self.format}")' + (
            f" from {self.jars[0].name}" if self.jars else ", no jar"
        )


def choose_backend(wish: str = "auto", *, realtime: bool = False) -> Backend:
    """What a pipeline's topics are read with. Raises PipelineError when it cannot be had."""
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

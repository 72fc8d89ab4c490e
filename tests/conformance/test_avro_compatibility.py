"""Headrace and Apache Avro (Java) agree on compatibility and canonical form of thousands of random schema pairs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from headrace.registry.core.avro.parsed import ParsedAvro
from headrace.registry.core.errors import InvalidSchema
from tests.support.avro_schemas import AvroSchemas
from tests.support.effort import rounds
from tests.support.java_client import SOURCES

_JARS = ("avro-1*.jar", "jackson-core-2*.jar", "jackson-databind-2*.jar", "jackson-annotations-2*.jar")
_OTHERS = (
    "slf4j-api-*.jar",
    "commons-lang3-*.jar",
    "commons-compress-*.jar",
    "commons-io-2*.jar",
    "commons-codec-*.jar",
)


def class_path() -> str:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs pyspark: Apache Avro's jar is on Spark's class path")
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    return ":".join(str(jar) for pattern in (*_JARS, *_OTHERS) for jar in sorted(jars.glob(pattern)))


def judged(lines: list[str], classes: Path) -> list[list[str]]:
    path = class_path()
    done = subprocess.run(
        ["javac", "-nowarn", "-cp", path, "-d", str(classes), str(SOURCES / "AvroJudge.java")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Xss4m"]
    answer = subprocess.run(
        ["java", *quick, "-cp", f"{classes}:{path}", "AvroJudge"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return [line.split("\t") for line in answer.stdout.split("\n")[:-1]]


def ours(reader: str, writer: str) -> list[str]:
    try:
        first, second = ParsedAvro.parse(reader, {}), ParsedAvro.parse(writer, {})
    except InvalidSchema:
        return ["invalid", "", ""]
    found = first.incompatibilities(second, lenient=False)
    return ["INCOMPATIBLE" if found else "COMPATIBLE", first.canonical(), second.canonical()]


@pytest.mark.needs("java")
def test_compatibility_and_canonical_form_equal_apache_avro(tmp_path: Path) -> None:
    count = rounds(short=4_000, long=100_000)
    random = AvroSchemas(seed=17)
    lines = ["\t".join(json.dumps(each) for each in random.pair()) for _ in range(count)]
    theirs = judged(lines, tmp_path)
    assert len(theirs) == count
    differing = [
        (line, expected, found)
        for line, expected in zip(lines, theirs, strict=True)
        if (found := ours(*line.split("\t"))) != expected
    ]
    assert not differing, "\n".join(map(str, differing[:3])) + f"\n{len(differing)} of {count} differ"
    kinds = Counter(expected[0] for expected in theirs)
    assert min(kinds["COMPATIBLE"], kinds["INCOMPATIBLE"]) > count / 20, kinds

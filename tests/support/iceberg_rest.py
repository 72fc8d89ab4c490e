"""Iceberg's own REST catalog server (the test fixture of the Iceberg project), with a SQLite file behind it."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from headrace.net.free_ports import free_port
from headrace.pipelines.spark.java import find_java
from tests.support.clock import wait_for
from tests.support.maven import jars

_ICEBERG, _JETTY = "1.11.0", "12.1.1"
_SERVER = "org.apache.iceberg.rest.RESTCatalogServer"


@contextmanager
def rest_catalog(directory: Path) -> Iterator[str]:
    """The address of a running catalog."""
    path = jars(
        "iceberg-rest",
        ("org.apache.iceberg", "iceberg-open-api", _ICEBERG, "test-fixtures"),
        ("org.apache.iceberg", "iceberg-core", _ICEBERG, ""),
        ("org.apache.iceberg", "iceberg-core", _ICEBERG, "tests"),
        ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", _JETTY, ""),
        ("org.eclipse.jetty.compression", "jetty-compression-server", _JETTY, ""),
        ("org.eclipse.jetty.compression", "jetty-compression-gzip", _JETTY, ""),
        ("org.xerial", "sqlite-jdbc", "3.50.3.0", ""),
    )
    # The server needs Hadoop's client, which Spark brings along.
    spark_jars = Path(pyspark.__file__).parent / "jars"
    hadoop = [str(file) for name in ("hadoop-client-*", "commons-logging-*") for file in spark_jars.glob(f"{name}.jar")]
    port, java = free_port(), find_java().home / "bin" / "java"
    quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [str(java), *quick, "-cp", ":".join([path, *hadoop]), _SERVER]
    settings = {
        "CATALOG_URI": f"jdbc:sqlite:{directory}/rest.db",
        "CATALOG_WAREHOUSE": f"file://{directory}/warehouse",
        "CATALOG_REST_PORT": str(port),
    }
    address, log = f"http://127.0.0.1:{port}", directory / "rest.log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=settings) as process:
        try:
            wait_for(lambda: _answers(address), lambda: log.read_text()[-3000:])
            yield address
        finally:
            process.kill()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/v1/config", timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:
        return False

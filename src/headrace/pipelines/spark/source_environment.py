"""The environment of the Python processes of `format("headrace")`, complete before several streams start together.

Spark keeps one map of environment variables for each Python data source. Every stream that starts adds the same four
variables to this map, in its own thread and without a lock (`PythonStreamingSourceRunner`, Spark 4.3.0). If two streams
add a new variable at the same moment, the map counts it twice. After that no task of any stream can be serialized:
"Task not serializable: Illegal size 5 of collection, expected 6", until the JVM ends.

A variable that is already in the map is only replaced, which changes no count. So the runner adds the four first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE: Final = "headrace"
# Every stream replaces these values by its own when it starts.
VARIABLES: Final = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}


def complete_source_environment(spark: SparkSession) -> None:
    """Call it before the first stream starts."""
    environment = source_environment(spark)
    for name, value in VARIABLES.items():
        environment.putIfAbsent(name, value)


def source_environment(spark: SparkSession) -> Any:
    """The map of the JVM, which all streams of this data source share."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    return manager.lookupDataSource(SOURCE).dataSourceCls().envVars()

"""Hadoop's own client for files in HDFS, run in a JVM.

The client inside `deltalake` speaks HDFS without Java, and reads well: it goes on with another replica if a DataNode is
dead. It cannot write then: it asks the NameNode for a new block once, without a list of nodes to leave out, so every
write fails with "connection refused" until the NameNode declares the DataNode dead (10.5 minutes by default). Hadoop's
client asks again without the dead node and repairs the pipeline of a block. It also knows Kerberos, high availability
and `viewfs`. Spark brings it along, so writes go through it:

- In a Spark driver, the JVM of the session does the work. Every other process (a Python worker of an executor, a
  command) starts a small JVM at its first write, which ends with the process.
- Bytes do not pass through the bridge between Python and Java: a file is written to a local temporary file, and the JVM
  copies it. It gets its name when it is whole, by a rename, which HDFS executes atomically.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import uuid
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler

from headrace.pipelines.errors import PipelineError

_HEAP: Final = "512m"


class HadoopFiles:
    """Files of one file system of Hadoop. Paths begin at its root, with or without a slash."""

    def __init__(self, root: str) -> None:
        self._root = root

    def put(self, local: Path, path: str) -> None:
        """Copies a local file; replaces the file of this name."""
        with self._uploaded(local, path) as (system, fresh, target):
            system.delete(target, False)
            if not system.rename(fresh, target):
                raise OSError(f"{self._root}{path}: the file could not get its name")

    def put_new(self, local: Path, path: str) -> bool:
        """Copies a local file, or returns False if a file of this name exists. Of two writers one succeeds."""
        with self._uploaded(local, path) as (system, fresh, target):
            return bool(system.rename(fresh, target))

    def delete(self, path: str) -> None:
        with _as_os_error(self._root, path):
            system = _file_system(self._root, os.getpid())
            system.delete(self._path(path), False)

    @contextlib.contextmanager
    def _uploaded(self, local: Path, path: str) -> Any:
        with _as_os_error(self._root, path):
            system = _file_system(self._root, os.getpid())
            folder, _, name = f"/{path.lstrip('/')}".rpartition("/")
            fresh, target = self._path(f"{folder}/.{name}.{uuid.uuid4()}.tmp"), self._path(path)
            try:
                system.copyFromLocalFile(False, True, _jvm(os.getpid()).org.apache.hadoop.fs.Path(str(local)), fresh)
                yield system, fresh, target
            finally:
                system.delete(fresh, False)

    def _path(self, path: str) -> Any:
        return _jvm(os.getpid()).org.apache.hadoop.fs.Path(f"/{path.lstrip('/')}")


@contextlib.contextmanager
def _as_os_error(root: str, path: str) -> Any:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        # The first line names the cause; the rest is a stack trace of Java.
        first = str(error.java_exception.toString()).splitlines()[0]
        raise OSError(f"{root}{path.lstrip('/')}: {first}") from error
    except Py4JError as error:
        raise OSError(f"{root}{path.lstrip('/')}: Hadoop's client ended: {error}") from error


# By process: a forked Python worker must not use the connection of its parent.
@cache
def _file_system(root: str, process: int) -> Any:
    jvm = _jvm(process)
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    return jvm.org.apache.hadoop.fs.FileSystem.newInstance(jvm.java.net.URI.create(root), configuration)


@cache
def _jvm(process: int) -> Any:
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from pyspark import SparkContext
    except ImportError as error:
        raise PipelineError("writes to HDFS need Hadoop's client: pip install 'headrace[spark]'") from error
    if SparkContext._gateway is not None:
        return SparkContext._gateway.jvm
    from headrace.pipelines.spark.java import find_java

    jars = _spark_jars()
    settings = [os.environ[name] for name in ("HADOOP_CONF_DIR",) if os.environ.get(name)]
    port, token = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([*settings, f"{jars}/*"]),
        javaopts=[f"-Xmx{_HEAP}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        java_path=str(find_java().home / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token)).jvm


def _spark_jars() -> Path:
    """In an executor of a cluster PySpark comes from a zip, and only SPARK_HOME names the jars."""
    import pyspark

    homes = [Path(os.environ["SPARK_HOME"])] if "SPARK_HOME" in os.environ else []
    for home in (*homes, Path(pyspark.__file__).parent):
        if any((home / "jars").glob("py4j-*.jar")):
            return home / "jars"
    raise PipelineError("writes to HDFS need the jars of Spark: set SPARK_HOME, or pip install 'headrace[spark]'")


class HadoopHandler(DeltaStorageHandler):  # type: ignore[misc]
    """A file system for Arrow: the client of deltalake reads and lists, Hadoop's client writes and deletes."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._written = HadoopFiles(root)

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Upload(self._written, path), mode="w")

    def delete_file(self, path: str) -> None:
        self._written.delete(path)


class _Upload(io.FileIO):
    """A local temporary file that is copied into HDFS when it is closed."""

    def __init__(self, files: HadoopFiles, path: str) -> None:
        handle, name = tempfile.mkstemp(prefix="headrace-")
        super().__init__(handle, "wb")
        self._files, self._local, self._path = files, Path(name), path

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._files.put(self._local, self._path)
        finally:
            self._local.unlink(missing_ok=True)

"""Creates a Spark session that starts fast on a laptop and runs unchanged on a cluster.

`local[*]` gets settings that made a measured difference: few shuffle partitions, only the C1 compiler (a short job
never warms up C2), a checkpoint file manager without the double rename (trigger 225 → 127 ms), Unix sockets to Python
workers, the driver bound to loopback, a shared class archive, PySpark not from a zip (`spark_home`). A cluster
(`spark://`, `yarn`, `k8s://`) gets none of these, but its driver has the deep stacks, too. The caller's settings take
precedence.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.spark.connector_jars import choose_backend
from headrace.pipelines.spark.java import cache_dir, find_java
from headrace.pipelines.spark.jvm_process import jvm_without_sigterm
from headrace.pipelines.spark.spark_home import unzipped_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.streaming.stopTimeout": "60s",
    # What Spark hides in its web UI and logs by default, and the settings that hold logins here.
    "spark.redaction.regex": "(?i)secret|password|passphrase|access[.]?key|token|jaas|user[.]info",
    # Adaptive execution may merge shuffle tasks depending on the available cores. A batch that is repeated after an
    # executor was lost would then have other tasks, and the exactly-once ledger depends on the tasks.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "headrace.pipelines.spark.worker_daemon",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# A local session runs short jobs. A long, heavy job needs the full compiler. With one compiler Java reserves 48 MB for
# code instead of 240. Spark compiles code for each plan, and a JVM whose space for code is full ends.
_QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xshare:auto"
# When a query with foreachBatch stops or fails, Spark searches the Python traceback with a pattern that recurses for
# every character. A stack of 1 MB overflows at 2,000 characters, and StackOverflowError hides the reason. 16 MB are
# enough for 20,000. The memory is only reserved, not used.
_DEEP_STACKS: Final = "-Xss16m"
# Spark names its sockets ".<uuid>.sock" in this directory. Socket paths are limited to 107 bytes, on some systems 103.
_LONGEST_SOCKET_FOLDER: Final = 103 - len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
_QUIET_LOGGERS: Final = """status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.resolver.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.resolver.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""


def is_local(master: str) -> bool:
    return master.startswith("local")


def settings_for(
    master: str, settings: Mapping[str, str] | None = None, *, ui: bool = False, quick_start: bool = True
) -> dict[str, str]:
    chosen = {**_EVERYWHERE, "spark.driver.extraJavaOptions": _DEEP_STACKS}
    if is_local(master):
        chosen |= _LOCAL
        # Our tables have explicit paths. Without this Spark creates an empty warehouse directory in the working
        # directory.
        chosen["spark.sql.warehouse.dir"] = str(cache_dir() / "warehouse")
        chosen["spark.driver.extraJavaOptions"] = f"{_QUICK_JVM if quick_start else '-Xshare:auto'} {_DEEP_STACKS}"
        chosen["spark.ui.enabled"] = str(ui).lower()
        if archive := _class_archive():
            chosen["spark.driver.extraJavaOptions"] += f" {archive}"
    for name, value in (settings or {}).items():
        if name == "spark.driver.extraJavaOptions" and name in chosen:
            value = f"{chosen[name]} {value}"
        chosen[name] = value
    return chosen


def _unix_sockets() -> dict[str, str]:
    """Spark sends a task to a worker in several small writes with Nagle's algorithm on. Over TCP the second write waits
    40 ms for the acknowledgement of the first, in every micro-batch. A Unix socket does not wait. Spark requires no
    secret on it, so only this user may open the directory."""
    if os.name != "posix" or len(os.fsencode(folder := _socket_folder())) > _LONGEST_SOCKET_FOLDER:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


@functools.cache
def _socket_folder() -> str:
    folder, owner = tempfile.mkdtemp(prefix="headrace-"), os.getpid()

    def remove() -> None:
        # Not when a forked child process ends.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _class_archive() -> str:
    """JVM flags for a shared class archive (session start 6.5 → 2.8 s). The first session writes it, later ones use
    it."""
    directory = cache_dir()
    java = find_java()
    if java.version < 19:
        # It would write the archive at the end of a session, for up to a minute on a busy machine. The JVM holds the
        # output of the command until then, and a pipe behind it would wait.
        return ""
    directory.mkdir(parents=True, exist_ok=True)
    return f"-XX:+AutoCreateSharedArchive -XX:SharedArchiveFile={directory / f'spark-classes-{java.version}.jsa'}"


def _log_settings(level: str) -> Path:
    file = cache_dir() / f"log4j2-{level}.properties"
    text = _QUIET_LOGGERS.format(level=level)
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return file


def spark_session(
    name: str = "headrace",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    ui: bool = False,
    log_level: str = "error",
    quick_start: bool = True,
    backend: str = "python",
    output: Path | None = None,
) -> SparkSession:
    """A classic session (no Spark Connect). `master` is local[*] unless given here or by SPARK_MASTER; `backend="jvm"`
    adds Spark's own connector (see `connector_jars`). Spark's processes write to the file `output` if it is
    given, else to the terminal."""
    master = master or os.environ.get("SPARK_MASTER") or "local[*]"
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    # Workers must use the same Python and the same Headrace as the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.pop("SPARK_REMOTE", None)
    settings = choose_backend(backend).settings(settings or {})
    if is_local(master):
        settings = {**_unix_sockets(), **settings}
    chosen = settings_for(master, settings, ui=ui, quick_start=quick_start)
    log_flag = f"-Dlog4j2.configurationFile={_log_settings(log_level).as_uri()}"
    chosen["spark.driver.extraJavaOptions"] = f"{chosen.get('spark.driver.extraJavaOptions', '')} {log_flag}".strip()
    # PySpark also logs every analysis error as one long JSON line, in addition to the exception.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    from pyspark.errors import PySparkRuntimeError

    with jvm_without_sigterm(output), unzipped_home() if is_local(master) else nullcontext():
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as failed:
            if failed.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            said = "in the lines above" if output is None else f"in {output}"
            raise PipelineError(
                f"the JVM of Spark ended before it was ready (Java of {java.home}); what it said is {said}"
            ) from None

"""A real HDFS: a NameNode and DataNodes as processes of their own, from the jar `hadoop-client-minicluster`."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyspark

from headrace.net.free_ports import free_port
from headrace.pipelines.spark.java import find_java
from tests.support.clock import wait_for
from tests.support.maven import jar

_NODES = "org.apache.hadoop.hdfs.server"
_REGISTERED = "successfully registered with NN"
# The programs would log nothing: Spark's log4j has no configuration for them.
_LOGGING = """rootLogger.level = info
rootLogger.appenderRef.a.ref = a
appender.a.type = Console
appender.a.name = a
appender.a.target = SYSTEM_ERR
appender.a.layout.type = PatternLayout
appender.a.layout.pattern = %d %p %c{1}: %m%n
"""
_SETTINGS = """<configuration>
{}
</configuration>
"""
_PROPERTY = "  <property><name>{}</name><value>{}</value></property>"


class Hdfs:
    """A NameNode and two DataNodes, replication 2. `kill_a_data_node` is kill -9. The NameNode counts a DataNode as
    dead only after ten minutes, so it goes on naming the killed one for new blocks."""

    def __init__(self, directory: Path, data_nodes: int = 2) -> None:
        self._directory, self._count = directory, data_nodes
        self._port, self._stack = free_port(), ExitStack()
        self._data_nodes: list[subprocess.Popen[bytes]] = []
        spark_jars = Path(pyspark.__file__).parent / "jars" / "*"
        self._jars = f"{jar('org.apache.hadoop', 'hadoop-client-minicluster', '3.5.0')}:{spark_jars}"

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self._port}"

    def __enter__(self) -> Hdfs:
        with ExitStack() as undo:
            undo.callback(self._stop)
            self._start("name", "namenode.NameNode", "-format", "-force").wait(120)
            self._start("name", "namenode.NameNode")
            self._data_nodes = [self._start(f"data{n}", "datanode.DataNode") for n in range(self._count)]
            for number in range(self._count):
                log = self._directory / f"data{number}.log"
                wait_for(lambda log=log: _REGISTERED in log.read_text(), lambda log=log: log.read_text()[-3000:])
            undo.pop_all()
        return self

    def _start(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        folder = self._directory / name
        folder.mkdir(exist_ok=True)
        local = {f"dfs.datanode.{kind}": "127.0.0.1:0" for kind in ("address", "http.address", "ipc.address")}
        settings = {
            **local,
            "fs.defaultFS": self.url,
            "dfs.namenode.http-address": "127.0.0.1:0",
            "dfs.namenode.name.dir": f"file://{folder}/names",
            "dfs.datanode.data.dir": f"file://{folder}/blocks",
            "dfs.permissions.enabled": "false",
            "dfs.replication": "2",
        }
        text = _SETTINGS.format("\n".join(_PROPERTY.format(*item) for item in settings.items()))
        for site in ("core-site.xml", "hdfs-site.xml"):
            (folder / site).write_text(text)
        java = str(find_java().home / "bin" / "java")
        quick = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        logging = folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        command = [java, *quick, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{folder}:{self._jars}"]
        log = self._stack.enter_context((self._directory / f"{name}.log").open("ab"))
        process = subprocess.Popen([*command, f"{_NODES}.{program}", *arguments], stdout=log, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def kill_a_data_node(self) -> None:
        """One of the DataNodes stays alive, however often this is called."""
        if len(self._data_nodes) > 1:
            dead = self._data_nodes.pop()
            dead.kill()
            dead.wait()

    def _stop(self) -> None:
        self._stack.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

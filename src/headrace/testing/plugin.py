"""The pytest plugin. pytest finds it by its entry point: nothing to import, nothing to configure.

Imports nothing of Headrace before a test asks for a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, overload

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    import pluggy

    from headrace.testing.in_process import RunningBroker
    from headrace.testing.in_process_cluster import InProcessCluster
    from headrace.testing.process_cluster import ProcessCluster
    from headrace.testing.registry import RunningRegistry
    from headrace.testing.secured import SecuredBroker

# A test may turn the clock, so retention runs as in Kafka. Without that, the first check comes after five minutes.
_SETTINGS = {"log.initial.task.delay.ms": "300000", "log.retention.check.interval.ms": "300000"}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    _import_as_installed(pluginmanager)
    group = parser.getgroup("headrace")
    group.addoption(
        "--headrace-target",
        choices=("headrace", "kafka"),
        default="headrace",
        help="Run against brokers of the test process (headrace), or against a cluster that is already there (kafka).",
    )
    group.addoption("--kafka-bootstrap", default="", help="Address of that cluster: HOST:PORT.")


def _import_as_installed(pluginmanager: pytest.PytestPluginManager) -> None:
    """Lets Python import Headrace from the bytecode of its installation.

    pytest rewrites the assertions of every package that has a plugin: for five hundred modules of a broker this takes
    seconds in the first run, which in CI is every run. Headrace's own assertions explain themselves. pytest has no
    public way to say so; with a pytest that keeps its list elsewhere nothing changes but the time.
    """
    marked = getattr(getattr(pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("headrace")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'headrace(settings={"name": "value"}, version="2.8", snapshot="orders.snapshot"): settings of the broker of '
        "this test, the release of Kafka that it emulates, and a snapshot of its data",
    )


@pytest.fixture
def headrace_settings() -> Mapping[str, str]:
    """Settings of every broker in the scope of this fixture. Override it in a conftest.py or a test module."""
    return {}


def _marked(request: pytest.FixtureRequest) -> tuple[Mapping[str, str], str | None, Path | None]:
    """Settings, version and snapshot of the marker `headrace`. Raises UsageError."""
    marker = request.node.get_closest_marker("headrace")
    if marker is None:
        return {}, None, None
    unknown = set(marker.kwargs) - {"settings", "version", "snapshot"}
    if marker.args or unknown:
        named = ", ".join([*map(repr, marker.args), *sorted(unknown)])
        raise pytest.UsageError(f"pytest.mark.headrace takes settings=, version= and snapshot=, not {named}")
    snapshot = marker.kwargs.get("snapshot")
    # A relative name is searched beside the test.
    file = None if snapshot is None else request.path.parent / snapshot
    return marker.kwargs.get("settings", {}), marker.kwargs.get("version"), file


@pytest.fixture
def headrace(request: pytest.FixtureRequest, headrace_settings: Mapping[str, str]) -> Iterator[RunningBroker]:
    """A broker for this test, in this process: `.bootstrap`, `.clock`, `.fail(…)`."""
    from headrace.testing.in_process import broker

    marked, version, snapshot = _marked(request)
    with broker({**_SETTINGS, **headrace_settings, **marked}, version=version, snapshot=snapshot) as running:
        yield running


@pytest.fixture
def headrace_broker(headrace: RunningBroker) -> RunningBroker:
    """The earlier name of the fixture `headrace`."""
    return headrace


@pytest.fixture
def headrace_topic(request: pytest.FixtureRequest, headrace: RunningBroker) -> str:
    """Name of a topic with one partition, created for this test and named after it."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")[:200] or "topic"
    headrace.create_topic(name)
    return name


class ClusterFactory:
    """What the fixture `headrace_cluster` gives. The clusters end with the test."""

    def __init__(self, running: ExitStack, settings: Mapping[str, str]) -> None:
        self._running = running
        self._settings = {**_SETTINGS, **settings}

    @overload
    def __call__(
        self, brokers: int = 3, settings: Mapping[str, str] | None = None, *, processes: Literal[False] = False
    ) -> InProcessCluster: ...
    @overload
    def __call__(
        self, brokers: int = 3, settings: Mapping[str, str] | None = None, *, processes: Literal[True]
    ) -> ProcessCluster: ...

    def __call__(
        self, brokers: int = 3, settings: Mapping[str, str] | None = None, *, processes: bool = False
    ) -> InProcessCluster | ProcessCluster:
        """Starts a cluster in this process, or one of broker processes."""
        merged = {**self._settings, **(settings or {})}
        if processes:
            from headrace.testing.process_cluster import process_cluster

            return self._running.enter_context(process_cluster(brokers, merged))
        from headrace.testing.in_process_cluster import cluster

        return self._running.enter_context(cluster(brokers, merged))


@pytest.fixture
def headrace_cluster(headrace_settings: Mapping[str, str]) -> Iterator[ClusterFactory]:
    """A factory: `headrace_cluster(brokers=3)` starts a cluster in this process, with `processes=True` in processes."""
    with ExitStack() as running:
        yield ClusterFactory(running, headrace_settings)


@pytest.fixture(scope="session")
def _headrace_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for all secured brokers of the run: making them takes longer than starting a broker."""
    from headrace.testing.secured import make_certificates

    directory = tmp_path_factory.mktemp("headrace") / "certificates"
    make_certificates(directory)
    return directory


@pytest.fixture
def secured_headrace(_headrace_authority: Path, headrace_settings: Mapping[str, str]) -> Iterator[SecuredBroker]:
    """A broker with TLS, SCRAM logins and an authorizer: `.client("admin")` gives a client's settings."""
    from headrace.testing.secured import secured_broker

    with secured_broker(_headrace_authority, {**_SETTINGS, **headrace_settings}) as running:
        yield running


@pytest.fixture
def headrace_registry(headrace: RunningBroker) -> Iterator[RunningRegistry]:
    """A schema registry on the broker of this test: `.url`."""
    from headrace.testing.registry import registry

    with registry(headrace.bootstrap) as running:
        yield running


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Adds what the brokers of a failed test saw to its report."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed or report.when != "call":
        return
    for name, value in getattr(item, "funcargs", {}).items():
        # By method, not by class: to import the class would load the broker in every failing test of any project. A
        # project may have a fixture of the same name, which knows nothing of accounts.
        account = getattr(value, "account", None) if name in ("headrace", "secured_headrace") else None
        if callable(account):
            report.sections.append((f"what the broker of {name} saw", str(account())))

"""Use cases without Spark: each demo's services give the result of a separate computation, and a broken one is noticed.

The demos mostly wait: for groups, locks and time-outs. So they run at the same time, each with its own topics.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from rich.console import Console

from headrace.client.blocking.client import BlockingClient
from headrace.demos.catalogue import Demo, demos
from headrace.demos.processes import OneBroker, running_brokers
from headrace.demos.run import DemoRun
from headrace.demos.topics import Contents
from headrace.net.free_ports import free_port
from tests.demos.running import mutated, run_once
from tests.support.effort import is_long

# One change that breaks each demo: (file, text, what replaces it).
MUTATIONS = {
    "queue": ("service.py", "delivery.release()", "delivery.ack()"),
    "commitlog": ("service.py", "restored(self.bootstrap, partition)", "{}"),
    "cqrs": ("service.py", "amount > balances[account]", "amount > 2 * balances[account]"),
    "notifications": ("service.py", "attempts < MOST_ATTEMPTS", "attempts < 1"),
    "recovery": ("service.py", "reader.done(record)", "pass"),
    "replay": ("service.py", "-cents if", "cents if"),
}
ENDLESS = """def run(stage: Stage) -> None:
    stage.stopping.wait()
"""
# Longer than the second that the demo runs.
SLOW_START = """import threading
from contextlib import contextmanager


@contextmanager
def resources(data):
    threading.Event().wait(1.5)
    yield {}


def run(stage: Stage) -> None:
    stage.stopping.wait()
"""
RECORDS = 300
Outcomes = dict[str, Future[tuple[bool, str]]]


def settings() -> dict[str, str]:
    return dict(demos()["queue"].broker_settings)


def run_on_own_broker(demo: Demo, data: Path, *, patience_s: float = 180, settled_s: float = 30) -> tuple[bool, str]:
    with running_brokers(data / "broker", port=0, settings=settings()) as brokers:
        return run_once(
            demo, brokers.bootstrap, data, records=RECORDS, brokers=brokers, patience_s=patience_s, settled_s=settled_s
        )  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path_factory.mktemp("demos") / "broker", free_port(), settings())
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def outcomes(shared: OneBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    with ThreadPoolExecutor(len(MUTATIONS)) as pool:
        yield {
            # `recovery` kills its broker.
            name: pool.submit(run_on_own_broker, demos()[name], tmp_path_factory.mktemp(name))
            if name == "recovery"
            else pool.submit(run_once, demos()[name], shared.bootstrap, tmp_path_factory.mktemp(name), records=RECORDS)
            for name in MUTATIONS
        }


@pytest.mark.parametrize("name", MUTATIONS)
def test_result_equals_a_computation_in_plain_python(name: str, outcomes: Outcomes) -> None:
    right, screen = outcomes[name].result()
    assert right, screen
    assert "equal a computation in plain Python" in screen


def test_every_demo_publishes_its_picture_for_the_console(outcomes: Outcomes, shared: OneBroker) -> None:
    from headrace.console.pages.demos import read_demos

    names = set(MUTATIONS) - {"recovery"}
    for name in names:
        outcomes[name].result()
    with BlockingClient(shared.bootstrap) as client:
        found = read_demos(client)
    assert names <= found.keys()
    assert all(found[name].state == "equal" and found[name].panels for name in names)


def test_every_use_case_has_a_mutation() -> None:
    with_services = {name for name, demo in demos().items() if (demo.directory / "service.py").is_file()}
    assert with_services - {"datacenters"} == set(MUTATIONS)
    for name, (file, text, _) in MUTATIONS.items():
        assert text in (demos()[name].directory / file).read_text()


@pytest.mark.skipif(not is_long(), reason="one broken service per demo: HEADRACE_EFFORT=long")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_service_is_noticed(name: str, tmp_path: Path) -> None:
    broken = mutated(name, *MUTATIONS[name], tmp_path / "demo")
    right, screen = run_on_own_broker(broken, tmp_path / "data", patience_s=80, settled_s=5)
    assert not right and ("results differ" in screen or "waited" in screen), screen


@pytest.mark.skipif(not is_long(), reason="a cluster with ZooKeeper: HEADRACE_EFFORT=long")
def test_recovery_on_three_brokers_loses_nothing(tmp_path: Path) -> None:
    with running_brokers(tmp_path / "broker", 3, port=0) as brokers:
        right, screen = run_once(
            demos()["recovery"], brokers.bootstrap, tmp_path, records=3000, brokers=brokers
        )  # fmt: skip
    assert right, screen
    assert "the others take over" in screen


def test_a_topic_may_become_visible_a_moment_later(shared: OneBroker) -> None:
    """Another broker of a cluster hears of a new topic after the one that created it."""
    reader, creator = BlockingClient(shared.bootstrap), BlockingClient(shared.bootstrap)
    with reader, creator, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(Contents, reader, ["visible-later"])
        assert not wait([reading], timeout=0.2).done
        creator.create_topic("visible-later", 1)
        assert reading.result().read_new() == 0


def test_a_story_begins_with_empty_topics(outcomes: Outcomes, shared: OneBroker, tmp_path: Path) -> None:
    outcomes["replay"].result()
    from headrace.demos.errors import DemoFailed

    with pytest.raises(DemoFailed, match="topic 'sales' has records of an earlier run"):
        run_once(demos()["replay"], shared.bootstrap, tmp_path, records=10)


def test_a_demo_that_does_not_end_is_neither_equal_nor_different(tmp_path: Path) -> None:
    endless = mutated("replay", "story.py", "def run(stage: Stage) -> None:\n", ENDLESS, tmp_path / "demo")
    with running_brokers(tmp_path / "broker", port=0) as brokers:
        right, screen = run_once(endless, brokers.bootstrap, tmp_path / "data", records=10, patience_s=1)
    assert not right and "the demo did not end within 1 s: its story goes on" in screen, screen


def test_the_start_does_not_count_as_time_of_the_demo(tmp_path: Path) -> None:
    slow = mutated("replay", "story.py", "def run(stage: Stage) -> None:\n", SLOW_START, tmp_path / "demo")
    screen = io.StringIO()
    (tmp_path / "data").mkdir()
    with running_brokers(tmp_path / "broker", port=0) as brokers:
        run = DemoRun(slow, brokers.bootstrap, tmp_path / "data", Console(file=screen, width=120))
        run.prepare()
        try:
            assert run.show_until_stopped(1.0)
        finally:
            run.close()
    assert f"replay  broker {brokers.bootstrap}" in screen.getvalue()

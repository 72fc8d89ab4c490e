"""No timer of the broker is missing in `broker_timers`, and each has a test that turns it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from headrace.config.effect import Outcome
from tests.unit.testing.broker_timers import OTHERS, PLACES, SETTINGS, TIMERS

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "headrace"
BROKER_SIDE = (
    *("broker", "handlers", "controller", "coordinators", "replication", "cluster", "storage", "coordination", "net"),
    *("telemetry", "quota", "security", "records"),
)
FILES = [file for folder in BROKER_SIDE for file in sorted((SOURCE / folder).rglob("*.py"))]
# The server of `headrace up` is not part of a broker.
NOT_A_BROKER = {"coordination.zookeeper_server"}
MACHINE_CLOCK = {("time", name) for name in ("monotonic", "monotonic_ns", "time", "time_ns", "sleep")} | {
    ("datetime.datetime", "now"),
    ("datetime.datetime", "utcnow"),
}
LOOP = {"call_later", "call_at"}
ASYNCIO = {"sleep", "timeout", "timeout_at", "wait_for"}
# Timers of coordinators: `effects.arm(key, delay, fire)`, `Timer(key, delay, fire)`. Without a delay it is cancelled.
COORDINATOR = {"arm", "Timer"}
# To look at the rest only where it may matter.
NAMES = {*LOOP, *ASYNCIO, *COORDINATOR, "wait", *(name for _, name in MACHINE_CLOCK)}


def starts_a_timer(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in NAMES and (ast.unparse(node.value), node.attr) in MACHINE_CLOCK
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in COORDINATOR and len(node.args) > 1
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in NAMES:
        return False
    owner, name = ast.unparse(node.func.value), node.func.attr
    if owner == "asyncio" and name in ASYNCIO:
        return not (name == "sleep" and ast.unparse(node.args[0]) == "0")
    timed_wait = owner == "asyncio" and name == "wait" and any(one.arg == "timeout" for one in node.keywords)
    return name in LOOP or name in COORDINATOR or timed_wait


def functions_with_timers(tree: ast.AST, names: tuple[str, ...] = ()) -> Iterator[str]:
    for child in ast.iter_child_nodes(tree):
        is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = (*names, child.name) if is_named else names  # type: ignore[attr-defined]
        if starts_a_timer(child):
            yield ".".join(inner)
        yield from functions_with_timers(child, inner)


def places(file: Path) -> set[str]:
    module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    if module in NOT_A_BROKER:
        return set()
    return {f"{module}:{name}" for name in functions_with_timers(ast.parse(file.read_text()))}


def test_every_place_that_starts_a_timer_is_in_the_table() -> None:
    found = set().union(*map(places, FILES))
    assert sorted(found - set(PLACES)) == [], "add each to PLACES, with its timer or the reason why it needs none"
    assert sorted(set(PLACES) - found) == [], "remove each from PLACES: no timer is there any more"


def test_every_setting_with_a_time_is_in_the_table() -> None:
    keys = [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]
    honoured = {one.name for one in keys if one.effect.outcome is Outcome.HONOURED}
    timed = {name for name in honoured if re.search(r"\.(ms|seconds|minutes|hours)$", name)}
    listed = [name for names in SETTINGS.values() for name in names]
    assert sorted(timed - set(listed)) == [], "add each to SETTINGS, with its timer or the reason why it needs none"
    assert sorted(set(listed) - timed) == [], "remove each from SETTINGS"
    assert len(listed) == len(set(listed))


def test_every_row_is_a_timer_or_a_reason() -> None:
    assert {*PLACES.values(), *SETTINGS} - {*TIMERS, *OTHERS} == set()


def test_every_timer_has_a_test_that_turns_it() -> None:
    tests: dict[str, str] = {}
    for file in ("test_clock.py", "test_clock_of_connections.py", "test_clock_of_groups.py"):
        tree = ast.parse(Path(__file__).with_name(file).read_text())
        tests |= {one.name: ast.unparse(one) for one in tree.body if isinstance(one, ast.FunctionDef)}
    assert all(timer.tests for timer in TIMERS.values())
    still = [test for timer in TIMERS.values() for test in timer.tests if "clock.advance" not in tests[test]]
    assert still == [], "these do not turn the clock"


def test_the_guide_has_the_same_table() -> None:
    text = (ROOT / "docs" / "testing.md").read_text().partition("## Turn the clock")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.*?) ?\|$", text, re.MULTILINE))
    listed = {name: tuple(re.findall(r"`([^`]+)`", settings)) for name, settings in rows.items()}
    assert {name: row.settings for name, row in TIMERS.items()} == {
        name: settings for name, settings in listed.items() if name not in ("timer", "---")
    }


def test_the_walk_finds_each_kind_of_timer() -> None:
    source = "class A:\n def b(self):\n  {}\n"
    kinds = ["loop.call_later(1, f)", "self._loop.call_at(1, f)", "asyncio.sleep(1)", "asyncio.timeout(1)"]
    kinds += ["time.monotonic()", "x = time.monotonic", "asyncio.wait(x, timeout=1)", "datetime.datetime.now()"]
    kinds += ["effects.arm(key, 5, f)", "Timer(key, 5, f)"]
    for kind in kinds:
        assert list(functions_with_timers(ast.parse(source.format(kind)))) == ["A.b"], kind
    for other in [
        "asyncio.sleep(0)",
        "asyncio.wait(x)",
        "effects.disarm(key)",
        "Timer(key)",
        "self._clock.wall_ms()",
        "time.perf_counter()",
    ]:
        assert list(functions_with_timers(ast.parse(source.format(other)))) == [], other

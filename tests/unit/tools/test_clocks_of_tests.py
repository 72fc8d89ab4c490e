"""Tests read the time through `tests/support/clock.py` only, which knows the clocks' grain and waits long enough. They
give programs enough time, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import METADATA_S

TESTS = Path(__file__).resolve().parents[2]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
# Where another clock is meant.
ALLOWED = {
    "support/clock.py": "it is that clock",
    "support/group_watch.py": "moments that members in other processes tell are put in order",
    "conformance/confluent_member.py": "such a member",
    "pipelines/test_stream_reader.py": "the clock of the reader under test is replaced",
    "simulation/test_unit_store.py": "virtual time, which is exact",
    "unit/controller/test_controller_turnover.py": "virtual time, which is exact",
    "unit/coordination/test_ensemble.py": "a lease ends at a moment of the store's own clock",
    "unit/coordination/test_store_contract.py": "a lease ends at a moment of the store's own clock",
}


def findings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield f"line {node.lineno}: use wait_for or Stopwatch, not time.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "time" and {name.name for name in node.names} & CLOCKS:
            yield f"line {node.lineno}: use wait_for or Stopwatch"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "time":
            whose = ast.unparse(node.func.value)
            if whose.endswith(("loop", "loop()")):
                yield f"line {node.lineno}: use Stopwatch, not {whose}.time()"
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.Attribute) and side.attr == "seconds":
                    yield f"line {node.lineno}: use at_least, at_most or has_run, not {ast.unparse(node)}"
            sides = (node.left, *node.comparators)
            is_order = any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)
            if is_order and any(map(_is_duration, sides)) and any(map(_is_bound, sides)):
                yield f"line {node.lineno}: use took_at_most, not {ast.unparse(node)}"


def _is_duration(side: ast.expr) -> bool:
    return bool(re.search(r"_s$|took|elapsed", ast.unparse(side))) and not isinstance(side, ast.Constant)


def _is_bound(side: ast.expr) -> bool:
    return isinstance(side, ast.Constant) and isinstance(side.value, int | float) and side.value > 0


# `--timeout-ms 1000`, `"--timeout-ms", "1000"`, `"timeout-ms": 1000`
_TIME_OUT = re.compile(r"timeout-ms\W{1,5}(\d+)")
SHORT_TIME_OUTS = {
    "cli/test_console_tools.py": "no record is left; the topic is empty",
    "cli/test_wrong_addresses.py": "the address or the topic is wrong",
}


def short_time_outs(source: str) -> list[str]:
    return [found.group(0) for found in _TIME_OUT.finditer(source) if int(found.group(1)) < METADATA_S * 1000]


def test_programs_have_time_for_metadata_unless_they_must_fail() -> None:
    found = {
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__) and short_time_outs(path.read_text())
    }
    assert found == SHORT_TIME_OUTS.keys()


@pytest.mark.parametrize("source", ["--timeout-ms 1000", '"--timeout-ms", "4999"', "'timeout-ms': 20"])
def test_forms_of_time_outs_that_are_found(source: str) -> None:
    assert short_time_outs(source)


def test_tests_compare_no_time_by_themselves() -> None:
    found = {
        str(path.relative_to(TESTS)): lines
        for path in sorted(TESTS.rglob("*.py"))
        if (lines := list(findings(path.read_text())))
    }
    new = [f"tests/{file} {line}" for file, lines in found.items() if file not in ALLOWED for line in lines]
    assert not new, "\n".join(new)
    assert found.keys() == ALLOWED.keys(), "a file that is allowed another clock does not use one any more"


@pytest.mark.parametrize(
    "source",
    [
        "deadline = time.monotonic() + 5",
        "began = asyncio.get_running_loop().time()",
        "took = loop.time() - began",
        "assert watch.seconds >= 0.1",
        "assert 0.1 < watch.seconds",
        "from time import perf_counter",
        "assert load.longest_gap_s < 10",
        "assert took['call'] < 3",
    ],
)
def test_forms_that_are_found(source: str) -> None:
    assert list(findings(source))


@pytest.mark.parametrize("source", ["watch.at_least(0.1)", "print(f'{watch.seconds:.1f}')", "now = time.time()"])
def test_forms_that_are_fine(source: str) -> None:
    assert not list(findings(source))

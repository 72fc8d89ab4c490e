"""The tables "What may delete data" in docs/durability.md name every call that deletes, and a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.destructive_calls import Call, destructive_calls

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "durability.md").read_text()
SECTION = PAGE.split("\n## What may delete data\n", 1)[1].split("\n## ", 1)[0]
ROWS = [line for line in SECTION.splitlines() if re.search(r"`\w+\.py`: ", line)]
# A file, or a function with its calls, in the order of the line.
_PLACE = re.compile(r"`(?P<file>\w+\.py)`: |`(?P<function>[\w.]+)` \((?P<calls>[\w., ]+)\)")
_TEST = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<name>\w+)`")


def named_calls(row: str) -> list[Call]:
    found, file = [], ""
    for part in _PLACE.finditer(row):
        file = part["file"] or file
        if part["function"]:
            found += [(file, part["function"], call) for call in part["calls"].split(", ")]
    return found


def test_every_call_that_deletes_is_in_the_table() -> None:
    missing = destructive_calls() - {call for row in ROWS for call in named_calls(row)}
    assert not missing, f"say in docs/durability.md what triggers these, and what is checked before: {sorted(missing)}"


def test_the_table_names_no_call_that_is_not_in_the_code() -> None:
    outdated = {call for row in ROWS for call in named_calls(row)} - destructive_calls()
    assert not outdated, f"remove these from docs/durability.md: {sorted(outdated)}"


def test_no_call_is_in_the_table_twice() -> None:
    named = [call for row in ROWS for call in named_calls(row)]
    assert sorted(named) == sorted(set(named))


def test_every_row_names_a_test_that_exists() -> None:
    for row in ROWS:
        tests = list(_TEST.finditer(row))
        assert tests, f"no test for {row}"
        for test in tests:
            path = ROOT / "tests" / test["file"]
            assert path.exists() and f"def {test['name']}(" in path.read_text(), f"{test[0]} does not exist"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("os.unlink(p)", "unlink"),
        ("p.unlink()", "unlink"),
        ("shutil.rmtree(p)", "rmtree"),
        ("rmtree(p)", "rmtree"),
        ("p.rename(q)", "rename"),
        ("p.replace(q)", "replace"),
        ("os.replace(p, q)", "replace"),
        ("shutil.copyfile(p, q)", "copyfile"),
        ("shutil.copytree(p, q)", "copytree"),
        ("os.write(fd, data)", "write"),
        ("os.ftruncate(fd, 0)", "ftruncate"),
        ("os.open(p, os.O_WRONLY | os.O_TRUNC)", "open"),
        ("p.open('wb')", "open"),
        ("p.write_text(t)", "write_text"),
        ("run(shutil.rmtree, p)", "rmtree"),
        ("Delete(path)", "Delete"),
        ("self._store.delete(path)", "store.delete"),
        ("log.truncate_to(5)", "truncate_to"),
    ],
)
def test_a_new_call_is_noticed(source: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("storage", "cli"):
        (tmp_path / package).mkdir()
    (tmp_path / "storage" / "new.py").write_text(f"class A:\n    def b(self):\n        {source}\n")
    monkeypatch.setattr("tools.destructive_calls.SOURCE", tmp_path)
    monkeypatch.setattr("tools.destructive_calls.COMMANDS", ())
    monkeypatch.setattr("tools.destructive_calls.IGNORED", {})
    assert destructive_calls() == {("new.py", "A.b", name)}


@pytest.mark.parametrize("source", ["text.replace('a', 'b')", "replace(row, a=1)", "names.remove(x)", "p.open('rb')"])
def test_what_deletes_nothing_is_no_call(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "new.py").write_text(source)
    monkeypatch.setattr("tools.destructive_calls.SOURCE", tmp_path)
    monkeypatch.setattr("tools.destructive_calls.COMMANDS", ())
    monkeypatch.setattr("tools.destructive_calls.IGNORED", {})
    assert destructive_calls() == set()

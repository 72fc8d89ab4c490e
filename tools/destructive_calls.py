"""Lists every call in a broker's code that deletes, cuts, renames or overwrites a file or a node of the coordination
store.

`docs/durability.md` lists them under "What may delete data", and `tests/unit/tools/test_destructive_calls.py` compares
the two. Run this file to see the calls in the code.

A call counts by its name, whatever its receiver is, so that a new one cannot hide behind a variable. Appending and
creating do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "headrace"
# Code that may touch a log directory or the store. Other commands and pipelines use the wire only.
PACKAGES = (
    "storage", "coordination", "cluster", "replication", "controller", "coordinators", "handlers", "broker", "unit",
    "cli/kafka_tools", "cli/security",
)  # fmt: skip
COMMANDS = (
    "cli/log/command.py",
    "cli/log/skip.py",
    "cli/log/standalone.py",
    "cli/log/strays.py",
    "cli/log/copies.py",
    "cli/up.py",
    "cli/support/development_cluster.py",
)
# (file, function, call) → why it does not count.
IGNORED = {
    ("copies.py", "copies", "copytree"): "copies into a temporary directory",
    ("alter_client_quotas.py", "AlterClientQuotas._alter", "remove"): "is a field of the request",
    ("compatibility.py", "main", "write_text"): "writes a page of the documentation",
    ("rights_page.py", "main", "write_text"): "writes a page of the documentation",
    ("parts.py", "wire", "replace"): "replaces quotas in memory",
}

_REMOVING = ("unlink", "remove", "rmdir", "removedirs", "rmtree", "move", "rename", "renames")
_OVERWRITING = ("truncate", "ftruncate", "pwrite", "write_bytes", "write_text")
_OF_FILES = frozenset({*_REMOVING, *_OVERWRITING})
# Our functions, and those of the ZooKeeper client, that end in one of these calls: the caller decides.
_OF_SMALL_FILES = ("write_small_file", "replace_file", "write_fully", "change_suffix", "take_due")
_OF_LOGS = (
    "truncate_to",
    "truncate_fully_and_start_at",
    "cut_end",
    "cut_all",
    "cut_start",
    "swap",
    "set_aside",
    "remove_stray",
    "remove_unreadable",
)
_OF_RECORDS = ("advance_log_start", "delete_records_before")
_OF_CLIENT = ("set_async", "delete_async")
_OURS = frozenset({*_OF_SMALL_FILES, *_OF_LOGS, *_OF_RECORDS, *_OF_CLIENT})
_OF_NODES = frozenset({"Delete", "Set"})
# Methods with common names count by their receiver.
_ON_OWNERS = frozenset(
    {"store.delete", "store.set", "transaction.delete", "transaction.set_data", "logs.delete", "deletions.put"}
)

Call = tuple[str, str, str]


def destructive_calls() -> set[Call]:
    """(file name, function with its class, name of the call)"""
    files = [path for package in PACKAGES for path in (SOURCE / package).rglob("*.py")]
    files += [SOURCE / command for command in COMMANDS]
    found: set[Call] = set()
    for path in files:
        visitor = _Visitor(path.name)
        visitor.visit(ast.parse(path.read_text()))
        found |= visitor.found
    unknown = IGNORED.keys() - found
    assert not unknown, f"{unknown} are no longer in the code"
    return found - IGNORED.keys()


class _Visitor(ast.NodeVisitor):
    def __init__(self, file: str) -> None:
        self.file = file
        self.found: set[Call] = set()
        self._scope: list[str] = []

    def _within(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _within  # noqa: N815 (names of ast's)

    def visit_Call(self, node: ast.Call) -> None:
        for name in (*_called(node), *_handed_on(node)):
            self.found.add((self.file, ".".join(self._scope) or "module", name))
        self.generic_visit(node)


def _called(node: ast.Call) -> Iterator[str]:
    function = node.func
    if isinstance(function, ast.Name):
        if function.id in _OF_NODES | _OURS or function.id in _OF_FILES:
            yield function.id
    elif isinstance(function, ast.Attribute):
        name, on = function.attr, ast.unparse(function.value)
        owner = on.rpartition(".")[2].lstrip("_")
        in_memory = name == "remove" and node.args and on not in ("os", "shutil")  # of a list or a set
        if name in _OF_FILES | _OURS and not in_memory:
            yield name
        elif name == "replace" and not node.keywords and (len(node.args) == 1 or on == "os"):
            yield name  # of a path: `str.replace` has two arguments, `dataclasses.replace` keywords
        elif (on == "shutil" and name.startswith("copy")) or (on == "os" and name == "write"):
            yield name  # over what is there
        elif f"{owner}.{name}" in _ON_OWNERS:
            yield f"{owner}.{name}"
    if any("O_TRUNC" in ast.unparse(argument) for argument in node.args) or _opens_for_writing(node):
        yield "open"


def _handed_on(node: ast.Call) -> Iterator[str]:
    """Functions that are passed to another function as callbacks."""
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        if isinstance(argument, ast.Name) and argument.id in _OURS | _OF_FILES:
            yield argument.id
        elif isinstance(argument, ast.Attribute) and argument.attr in _OURS | _OF_FILES:
            yield argument.attr


def _opens_for_writing(node: ast.Call) -> bool:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    modes = (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode"))
    return name == "open" and any(isinstance(one, ast.Constant) and one.value in _WRITING for one in modes)


_WRITING = frozenset({"w", "wb", "w+", "w+b", "wt", "r+", "r+b", "rb+"})

if __name__ == "__main__":
    for call in sorted(destructive_calls()):
        print("\t".join(call))

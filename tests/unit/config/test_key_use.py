"""The broker reads every key that it honours, and no key that it declares without effect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, Key
from headrace.config.effect import Outcome
from headrace.config.keys import CLIENT_METRICS_KEYS
from headrace.storage.log_config import LogConfig

SOURCE = Path(__file__).resolve().parents[3] / "src" / "headrace"
BROKER_SIDE = (
    *("broker", "handlers", "controller", "coordinators", "replication", "cluster", "storage", "coordination", "net"),
    *("telemetry", "quota", "security", "unit"),
)
# Modules of the configuration that use keys themselves.
IN_CONFIG = ("broker_config.py", "listener_security.py", "listeners.py", "topic_config.py")
# Names of file properties and features, which code reads the same way.
OTHERS = {"cluster.id", "directory.id", "transaction.version"}

FILES = [file for folder in BROKER_SIDE for file in (SOURCE / folder).rglob("*.py")]
TREES = [ast.parse(file.read_text()) for file in FILES]
CONFIG_TREES = [ast.parse((SOURCE / "config" / name).read_text()) for name in IN_CONFIG]
ALL_KEYS = [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]


def _constants(tree: ast.AST) -> Iterator[str]:
    """Every string in the code. Docstrings do not count: they are expressions that no code uses."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                yield child.value


def _looked_up(tree: ast.AST) -> Iterator[str]:
    """Keys in `config["name"]` and `config.get("name")`. A list that only compares keys does not count."""
    for node in ast.walk(tree):
        found = [node.slice] if isinstance(node, ast.Subscript) else node.args if isinstance(node, ast.Call) else []
        yield from (one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str))


READ = {name for tree in TREES for name in _constants(tree)} | {name for t in CONFIG_TREES for name in _looked_up(t)}
ATTRIBUTES = {
    node.attr for tree in [*TREES, *CONFIG_TREES] for node in ast.walk(tree) if isinstance(node, ast.Attribute)
}


def _is_read(key: Key) -> bool:
    if key.name in READ:
        return True
    field = key.name.replace(".", "_")
    if key.name in BROKER_KEYS and field in ATTRIBUTES:
        return True
    if key.name in TOPIC_KEYS and field in LogConfig.__dataclass_fields__:
        return field in ATTRIBUTES  # the log reads its topic's keys as fields of LogConfig
    bound = re.match(r"group\.(?P<kind>consumer|share|streams)\.(min|max)\.(?P<rest>.+)", key.name)
    if bound is not None and not {f"{bound['kind']}.{word}{bound['rest']}" for word in ("", "num.")}.isdisjoint(
        GROUP_KEYS
    ):
        return True  # topic_config builds the names of the bounds from the name of the group's key
    return any(
        synonym.name == key.name and _is_read(heir)
        for heir in (*TOPIC_KEYS.values(), *GROUP_KEYS.values())
        for synonym in heir.synonyms
    )


def test_every_key_that_the_broker_reads_is_declared() -> None:
    """An undeclared key would fail when the code reads it, perhaps hours after the start."""
    known = {*BROKER_KEYS, *TOPIC_KEYS, *GROUP_KEYS, *CLIENT_METRICS_KEYS, *OTHERS}
    unknown = {
        (str(file.relative_to(SOURCE)), name)
        for file in FILES
        for name in re.findall(r'(?:\[|\()"([a-z]+(?:\.[a-z0-9]+)+)"[\])]', file.read_text())
        if name not in known and not name.startswith("headrace.")
    }
    assert unknown == set()


def test_the_broker_reads_every_key_that_it_honours() -> None:
    """A setting must not silently do nothing."""
    honoured = [key for key in ALL_KEYS if key.effect.outcome is Outcome.HONOURED]
    assert [key.name for key in honoured if not _is_read(key)] == []


def test_the_broker_does_not_read_a_key_that_it_declares_without_effect() -> None:
    without_effect = [key for key in ALL_KEYS if key.effect.outcome in (Outcome.HARMLESS, Outcome.WARNED)]
    read = READ | {name.replace("_", ".") for name in ATTRIBUTES}
    assert [key.name for key in without_effect if key.name in read] == []


def test_the_check_notices_a_key_that_no_code_reads() -> None:
    assert not _is_read(Key("num.turbines", BROKER_KEYS["num.partitions"].type, 1, "Not read by any code."))

"""Finds the topics that a pipeline reads and writes in its files, without running it.

A connector and a mirror name their topics in YAML. In a Python definition a topic is a string that is passed to the
option `subscribe` of a reader or the option `topic` of a sink, directly or through a parameter of a function in the
same file. `NAME*` stands for every topic with this prefix.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.kernel.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.pipelines.connectors.connector import ConnectorSpec
    from headrace.pipelines.connectors.mirror import MirrorSpec
    from headrace.pipelines.connectors.settings import End

_READS: Final = ("subscribe", "assign")
_WRITES: Final = ("topic",)
_PREFIXES: Final = ("transactionalIdPrefix",)
# Prefix of the transactional ids of a sink without the option transactionalIdPrefix.
_DEFAULT_PREFIX: Final = "spark-"
_DEAD_LETTERS: Final = "dead_letters"
# One alternative of a pattern: a name, and perhaps every ending.
_NAME_IN_PATTERN: Final = re.compile(r"((?:[\w.-]|\\[.-])*?)(\.[*+])?")


@dataclass(frozen=True, slots=True)
class PipelineTopics:
    """`id_prefixes`: of its transactional ids; empty if it uses no transactions."""

    name: str
    reads: frozenset[str]
    writes: frozenset[str]
    id_prefixes: frozenset[str]
    writes_dead_letters: bool


class UnclearPattern(ValueError):
    """ACLs cannot express the pattern."""


def names_of_pattern(pattern: str) -> frozenset[str]:
    """The names and prefixes (`orders-*`) of a pattern over topic names. Raises UnclearPattern."""
    found = [_NAME_IN_PATTERN.fullmatch(part) for part in pattern.split("|")]
    names = {match[1].replace("\\", "") + ("*" if match[2] else "") for match in found if match is not None}
    if None in found or "" in names:
        raise UnclearPattern(
            f"ACLs cannot express the pattern {pattern!r}, only names and prefixes such as orders|clicks-.*: "
            "name the topics with --reads"
        )
    return frozenset(names)


def is_mirror(path: Path) -> bool:
    import yaml

    from headrace.pipelines.connectors.connector import is_connector

    if not is_connector(path):
        return False
    try:
        data = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, OSError, UnicodeDecodeError):
        return False
    return isinstance(data, dict) and "source" in data and "target" in data


def topics_of_mirror(file: Path, reads: frozenset[str]) -> tuple[MirrorSpec, PipelineTopics]:
    """`reads`: the topics, instead of the pattern in the file. Raises UnclearPattern."""
    from headrace.pipelines.connectors.mirror import load_mirror

    spec = load_mirror(file)
    names = reads or names_of_pattern(spec.topics)
    # After a prefix, the rest of the name is unknown.
    written = {re.sub(r"\*.*", "*", spec.renamed(name)) for name in names}
    return spec, PipelineTopics(
        spec.name,
        reads=names,
        writes=frozenset(written),
        id_prefixes=frozenset({f"mirror-{spec.name}-"}),
        writes_dead_letters=False,
    )


def topics_of_pipeline(directory: Path) -> PipelineTopics:
    """Raises UnclearPattern."""
    from headrace.pipelines.connectors.connector import is_connector, load_connector
    from headrace.pipelines.flows.spec import load_spec

    if is_connector(directory):
        return _topics_of_connector(load_connector(directory))
    pipeline = load_spec(directory)
    reads: set[str] = set()
    writes: set[str] = set()
    prefixes: set[str] = set()
    has_dead_letters = False
    for file in pipeline.files():
        if file.suffix == ".py":
            tree = ast.parse(file.read_text(), str(file))
            reads |= _values_of_options(tree, _READS)
            writes |= _values_of_options(tree, _WRITES)
            prefixes |= {f"{prefix}-" for prefix in _values_of_options(tree, _PREFIXES)}
            has_dead_letters |= any(isinstance(n, ast.Name) and n.id == _DEAD_LETTERS for n in ast.walk(tree))
    # The runner names the ids of aggregations after the pipeline and its flow.
    ids = prefixes or {_DEFAULT_PREFIX, f"{pipeline.name}."}
    return PipelineTopics(pipeline.name, frozenset(reads), frozenset(writes - reads), frozenset(ids), has_dead_letters)


def _topics_of_connector(spec: ConnectorSpec) -> PipelineTopics:
    options = spec.target.options() if spec.target.kind == "topic" else {}
    prefix = f"{options[_PREFIXES[0]]}-" if _PREFIXES[0] in options else _DEFAULT_PREFIX
    decodes = spec.source.kind == "topic" and bool({"schema", "decode"} & set(spec.source.settings))
    # Dead letters have a sink of their own, without the options of the target.
    is_plain = options.get("mode", "").lower() == "at-least-once"
    ids = set() if is_plain else {prefix}
    if decodes:
        ids.add(_DEFAULT_PREFIX)
    return PipelineTopics(spec.name, _topics_of_end(spec.source), _topics_of_end(spec.target), frozenset(ids), decodes)


def _topics_of_end(end: End) -> frozenset[str]:
    if end.kind != "topic":
        return frozenset()
    return names_of_pattern(end.text("pattern")) if "pattern" in end.settings else frozenset(end.names("name"))


def _values_of_options(tree: ast.Module, options: tuple[str, ...]) -> set[str]:
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    through: dict[str, str] = {}  # function → its parameter that is passed to the option
    found: set[str] = set()

    def take(value: ast.expr, function: ast.FunctionDef | None) -> None:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.update(name.strip() for name in value.value.split(","))
        elif isinstance(value, ast.Name) and isinstance(constants.get(value.id), str):
            found.add(str(constants[value.id]))
        elif isinstance(value, ast.Name) and function is not None:
            through[function.name] = value.id

    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node): function for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        for value in _option_values(node, options):
            take(value, inside.get(id(node)))
    for function in functions:
        if function.name in through:
            for value in _arguments(tree, function, through[function.name]):
                take(value, None)
    return found


def _option_values(node: ast.AST, options: tuple[str, ...]) -> list[ast.expr]:
    """Values in `.option("subscribe", …)`, `.options(subscribe=…)` and `{"subscribe": …}`."""
    if isinstance(node, ast.Dict):
        return [
            v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant) and k.value in options
        ]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if node.func.attr == "option" and len(node.args) == 2:
        name, value = node.args
        return [value] if isinstance(name, ast.Constant) and name.value in options else []
    if node.func.attr == "options":
        return [keyword.value for keyword in node.keywords if keyword.arg in options]
    return []


def _arguments(tree: ast.Module, function: ast.FunctionDef, parameter: str) -> list[ast.expr]:
    """The arguments for this parameter in calls of the function."""
    names = [argument.arg for argument in function.args.args]
    at = names.index(parameter) if parameter in names else -1
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name:
            found += node.args[at : at + 1] if at >= 0 else []
            found += [keyword.value for keyword in node.keywords if keyword.arg == parameter]
    return found

"""Finds the topics that a pipeline reads and writes in its files, without running it.

A connector names its topics in YAML. In a Python definition a topic is a string that is passed to the option
`subscribe` of a reader or the option `topic` of a sink, directly or through a parameter of a function in the same file.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.kernel.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.pipelines.connectors.settings import End

_READS: Final = ("subscribe", "assign")
_WRITES: Final = ("topic",)


@dataclass(frozen=True, slots=True)
class PipelineTopics:
    name: str
    reads: frozenset[str]
    writes: frozenset[str]


def topics_of_pipeline(directory: Path) -> PipelineTopics:
    from headrace.pipelines.connectors.connector import is_connector, load_connector
    from headrace.pipelines.flows.spec import load_spec

    if is_connector(directory):
        spec = load_connector(directory)
        return PipelineTopics(spec.name, _topics_of_end(spec.source), _topics_of_end(spec.target))
    pipeline = load_spec(directory)
    reads: set[str] = set()
    writes: set[str] = set()
    for file in pipeline.files():
        if file.suffix == ".py":
            tree = ast.parse(file.read_text(), str(file))
            reads |= _values_of_options(tree, _READS)
            writes |= _values_of_options(tree, _WRITES)
    return PipelineTopics(pipeline.name, frozenset(reads), frozenset(writes - reads))


def _topics_of_end(end: End) -> frozenset[str]:
    return frozenset(end.names("name")) if end.kind == "topic" else frozenset()


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

"""Figures about the structure of the code, to compare before and after a change.

    python tools/code_figures.py [ROOT]      ROOT is a checkout; the current one by default

Generated modules (`wire/messages`, `config/attributes.py`) are left out of the counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_GENERATED = ("wire/messages/", "config/attributes.py")
# Words of sentences that do not say who acts, and metaphors instead of Kafka's nouns.
_RIDDLES = re.compile(
    r"\b(nobody|no one|whoever|whichever|whatever|whom|somebody|someone|everybody"
    r"|(?:is|are|was|were|be|been) told|those (?:that|who|which)|such a one|that which"
    r"|anew|st(?:ands?|ood|anding) (?:alone|still)|takes? (?:\w+ ){0,3}leave|sign of life|parted from|mended"
    r"|of the first;|what (?:is|was) (?:there|told|given|left)|an existing one is|look again|three corners)(?!\w)",
    re.IGNORECASE,
)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.Assert)


def modules(source: Path) -> list[Path]:
    found = sorted(source.rglob("*.py"))
    return [path for path in found if not any(part in path.as_posix() for part in _GENERATED)]


def complexity(function: ast.AST) -> int:
    """McCabe's number: one more than the number of branches. Boolean operators count by their operands."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def broad_excepts(tree: ast.AST) -> int:
    return sum(
        isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
        for node in ast.walk(tree)
    )


def unexplained_excepts(text: str) -> list[int]:
    """Lines of broad excepts without a comment that names the boundary and what must not cross it."""
    lines = text.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ExceptHandler)
        and broad_excepts(ast.Module([ast.Try([], [node], [], [])], []))
        and not any("#" in line for line in lines[node.lineno - 1 : node.body[0].lineno])
    ]


def uses_of_any(tree: ast.AST) -> int:
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))


def unmapped(source: Path) -> list[str]:
    """Modules and packages that the `__init__` of their package does not name."""
    missing: list[str] = []
    for init in source.rglob("__init__.py"):
        if any(part in init.as_posix() for part in _GENERATED):
            continue
        words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(init.read_text())) or ""))
        inside = [p.stem for p in init.parent.glob("*.py") if p.stem not in ("__init__", "__main__")]
        inside += [p.name for p in init.parent.iterdir() if (p / "__init__.py").exists()]
        missing += [f"{init.parent.relative_to(source)}/{name}" for name in inside if name not in words]
    return sorted(missing)


def riddles(text: str) -> list[str]:
    """Unclear words in a text, also across a line break."""
    return [found.group() for found in _RIDDLES.finditer(re.sub(r"\s+", " ", text))]


def riddles_in_documentation(root: Path) -> list[str]:
    """`page: word` for each unclear word."""
    pages = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])
    return [f"{page.relative_to(root)}: {word}" for page in pages for word in riddles(page.read_text())]


def _docstrings(tree: ast.AST) -> set[int]:
    """Docstrings of modules, classes, functions and fields."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def riddles_in_messages(source: Path) -> list[str]:
    """`file:line: word` in strings that are not docstrings. Sample texts of demonstrations are exempt."""
    found: list[str] = []
    for path in modules(source):
        if "demos" in path.relative_to(source).parts:
            continue
        tree = ast.parse(path.read_text())
        apart = _docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
                found += [f"{path.relative_to(source)}:{node.lineno}: {word}" for word in riddles(node.value)]
    return found


def large_folders(source: Path) -> dict[str, int]:
    folders = Counter(str(path.parent.relative_to(source)) for path in modules(source) if path.name != "__init__.py")
    return {name: count for name, count in folders.items() if count > 20}


def figures(root: Path) -> dict[str, object]:
    source = root / "src" / "headrace"
    paths = modules(source)
    texts = {path: path.read_text() for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = sum(text.count("\n") for text in texts.values())
    any_count = {path: uses_of_any(tree) for path, tree in trees.items()}
    every = [function for tree in trees.values() for function in functions(tree)]
    constructors = [f for f in every if f.name == "__init__"]
    return {
        "lines of code": lines,
        "Any per thousand lines": round(1000 * sum(any_count.values()) / lines, 1),
        "Any in handlers/": sum(n for path, n in any_count.items() if "/handlers/" in path.as_posix()),
        "broad excepts": sum(broad_excepts(tree) for tree in trees.values()),
        "constructors with more than 7 arguments": sum(
            len(f.args.args) + len(f.args.kwonlyargs) - 1 > 7 for f in constructors
        ),
        "functions with complexity above 10": sum(complexity(f) > 10 for f in every),
        "files above 400 lines": sum(text.count("\n") > 400 for text in texts.values()),
        "folders above 20 files": large_folders(source),
        "modules that no package docstring names": len(unmapped(source)),
        "unclear words in documentation": len(riddles_in_documentation(root)),
        "unclear words in messages and help texts": len(riddles_in_messages(source)),
    }


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    for name, value in figures(root).items():
        print(f"{name:<42} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The structure that the code keeps, measured by tools/code_figures.py: types, maps, sizes of folders."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "headrace"
# A folder above 20 files hides its shape, so each one needs a reason.
LARGE_FOLDERS = {
    "cli/kafka_tools": "one file per tool of Kafka, named by the scripts in bin/; its map groups them",
}

# They handle schemas and the values of records, which are JSON of any shape.
UNTYPED = {"registry", "serialization", "datagen"}


@cache
def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("code_figures", ROOT / "tools" / "code_figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["code_figures"] = module
    spec.loader.exec_module(module)
    return module


def _uses_of_any(path: Path) -> int:
    uses: int = _tool().uses_of_any(ast.parse(path.read_text()))
    return uses


def test_the_figures_count(tmp_path: Path) -> None:
    (package := tmp_path / "src" / "headrace" / "handlers").mkdir(parents=True)
    (package / "topics.py").write_text("def create(x: Any) -> Any:\n    return x\n")
    (tmp_path / "README.md").write_text("Nobody is told.\n")
    figures = _tool().figures(tmp_path)
    assert (figures["lines of code"], figures["Any in handlers/"]) == (2, 2)
    assert figures["unclear words in documentation"] == 2


def test_handlers_name_the_types_of_their_requests_and_answers() -> None:
    handlers = [path for path in _tool().modules(SOURCE) if "handlers" in path.parts]
    assert handlers and [str(path) for path in handlers if _uses_of_any(path)] == []


def test_every_module_is_on_the_map_of_its_package() -> None:
    assert _tool().unmapped(SOURCE) == []


def test_a_module_that_no_map_names_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""`first`, then `second`."""')
    for name in ("first", "second", "third"):
        (tmp_path / f"{name}.py").touch()
    assert [Path(found).name for found in _tool().unmapped(tmp_path)] == ["third"]


def test_folders_above_twenty_files_have_a_reason() -> None:
    assert _tool().large_folders(SOURCE).keys() <= LARGE_FOLDERS.keys()


def test_headings_are_plain_comments() -> None:
    """A line of dashes says nothing; a file that needs several headings may hold several nouns."""
    folders = (ROOT / name for name in ("src", "tests", "benchmarks", "tools"))
    files = (path for folder in folders for path in folder.rglob("*.py"))
    assert [str(path) for path in files if re.search(r"^\s*# ?[-=]{3}", path.read_text(), re.MULTILINE)] == []


def test_unit_tests_are_in_the_folders_of_what_they_test() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")} - {Path("tools")}
    assert sorted(str(folder) for folder in folders if not (SOURCE / folder).is_dir()) == []


def test_documents_messages_and_help_texts_say_who_acts() -> None:
    assert _tool().riddles_in_documentation(ROOT) == []
    assert _tool().riddles_in_messages(SOURCE) == []


def test_riddles_are_found_in_messages_and_not_in_docstrings(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text('"""Nobody."""\n\nMESSAGE = f"the leader {1} is told"\n')
    assert _tool().riddles_in_messages(tmp_path) == ["module.py:3: is told"]


def test_riddles_are_found_also_across_a_line_break() -> None:
    assert _tool().riddles("Of those\nthat wait nobody is told.") == ["those that", "nobody", "is told"]
    assert _tool().riddles("The leader rejects the fetch because its epoch is older.") == []


def test_a_broad_except_says_which_boundary_it_is() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := _tool().unexplained_excepts(path.read_text()))
    }
    assert not found


def test_a_broad_except_without_a_comment_is_found() -> None:
    text = "try:\n    go()\nexcept Exception:{}\n    stop()\n"
    assert _tool().unexplained_excepts(text.format("")) == [3]
    assert _tool().unexplained_excepts(text.format("  # the boundary of a round")) == []
    assert _tool().unexplained_excepts(text.format("").replace("Exception", "OSError")) == []


def test_code_has_types() -> None:
    """At most one `Any` in a thousand lines, and three in all code, where some values are JSON of any shape."""
    uses, lines = Counter[bool](), Counter[bool]()
    for path in _tool().modules(SOURCE):
        is_typed = path.relative_to(SOURCE).parts[0] not in UNTYPED
        uses[is_typed] += _uses_of_any(path)
        lines[is_typed] += path.read_text().count("\n")
    assert 1000 * uses[True] / lines[True] <= 1.0
    assert 1000 * uses.total() / lines.total() <= 3.0

"""Every command of the tutorial, the how-to guides and the pages for Python works and prints what the page shows."""

from __future__ import annotations

import pytest

from tests.docs.conftest import Follow
from tests.docs.page import ROOT, STAYS, Block, blocks, steps
from tests.support.effort import is_long

DOCS = ROOT / "docs"
PAGES = [
    "tutorial.md",
    "pipelines-tutorial.md",
    "python.md",
    "testing.md",
    *sorted(f"how-to/{page.name}" for page in (DOCS / "how-to").glob("*.md")),
]


def needs_spark(name: str) -> bool:
    return "headrace[spark]" in (DOCS / name).read_text() and name != "how-to/install.md"


def needs_zookeeper(name: str) -> bool:
    return "headrace up" in (DOCS / name).read_text()


def is_slow(name: str) -> bool:
    """Spark takes a minute a page, and pip half a minute (tests/packaging installs the wheel in every run)."""
    return needs_spark(name) or name == "how-to/install.md"


def marked(name: str) -> object:
    marks: list[pytest.MarkDecorator] = []
    if needs_spark(name):
        marks.append(pytest.mark.needs("java"))
    if needs_zookeeper(name):
        marks.append(pytest.mark.needs("zookeeper"))
    if is_slow(name):
        marks.append(pytest.mark.skipif(not is_long(), reason="long: `make pages` runs it"))
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in PAGES if "```sh" in (DOCS / name).read_text()])
def test_page(name: str, follow: Follow) -> None:
    follow(name)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_a_command_its_output_or_a_file_that_a_command_names(name: str) -> None:
    text = (DOCS / name).read_text()
    commands = "".join(block.text for block in blocks(text) if block.language == "sh")
    assert text.count("\n```") == 2 * len(blocks(text)), "a fence without a language, or indented"
    outputs = {step.prints for step in steps(text) if not isinstance(step, Block)}
    for block in blocks(text):
        if block.language == "text":
            assert block in outputs, f"no command prints {block.text!r}"
        elif block.language == "sh":
            assert block.title in (None, STAYS), block.title
        else:
            assert block.title is not None, f"a block of {block.language} without a title: {block.text!r}"
            assert block.title in commands, f"no command names {block.title}"


def test_every_how_to_page_is_in_the_index() -> None:
    index = (DOCS / "how-to/index.md").read_text()
    missing = [page.name for page in (DOCS / "how-to").glob("*.md") if f"]({page.name}" not in index]
    assert missing == ["index.md"]

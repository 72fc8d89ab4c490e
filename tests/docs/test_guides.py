"""The guides about pipelines name commands in their text. Each exists with its options, and a test runs it: on a
page, or as an example of its help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.cli.support.reference import commands
from tests.docs.page import blocks
from tests.docs.test_pages import DOCS, PAGES
from tests.pipelines.test_help_examples import EXAMPLES

if TYPE_CHECKING:
    from typer._click.core import Command

GUIDES = ("pipelines.md", "connectors.md")
# The commands of these areas are what the guides are about.
AREAS = ("pipeline", "mirror", "connect")
_INLINE = re.compile(r"`(headrace [a-z][^`]*)`")


def known() -> dict[str, Command]:
    return dict(commands())


def named(line: str, among: dict[str, Command]) -> str | None:
    """The command that a line runs: the longest one whose words it begins with."""
    words = line.split()
    names = (" ".join(words[1:end]) for end in range(len(words), 1, -1))
    return next((name for name in names if name in among), None)


def lines(guide: str) -> Iterator[str]:
    text = (DOCS / guide).read_text()
    yield from (" ".join(found.split()) for found in _INLINE.findall(text))
    for block in blocks(text):
        yield from (line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ headrace "))


@pytest.mark.parametrize("guide", GUIDES)
def test_commands_of_a_guide_exist_with_their_options(guide: str) -> None:
    among = known()
    groups = {" ".join(name.split()[:end]) for name in among for end in (1, 2)}
    found = list(lines(guide))
    assert found
    for line in found:
        name = named(line, among)
        if name is None:
            # The name of a group of commands.
            assert line.removeprefix("headrace ") in groups, f"{guide}: {line} is no command"
            continue
        options = {word for parameter in among[name].params for word in (*parameter.opts, *parameter.secondary_opts)}
        given = {word.strip("[]").partition("=")[0] for word in shlex.split(line) if word.strip("[").startswith("--")}
        assert given <= options, f"{guide}: {line}"


def test_commands_of_the_guides_are_run_by_pages() -> None:
    among = known()
    run = {
        named(found, among)
        for page in PAGES
        for block in blocks((DOCS / page).read_text())
        if block.language == "sh" and block.reason is None
        for found in re.findall(r"headrace [a-z][^\n|&]*", block.text)
    }
    told = {name for guide in GUIDES for line in lines(guide) if (name := named(line, among))}
    wanted = {name for name in told if name.split()[0] in AREAS}
    assert len(wanted) > 15
    # Some start Spark for one line of output: the examples of their help run instead.
    assert wanted - run - set(EXAMPLES) == set()
    assert {"pipeline run", "pipeline dlq edit", "pipeline reset", "pipeline stop", "connect serve"} <= run

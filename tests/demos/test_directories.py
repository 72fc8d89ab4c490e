"""Each demo is a directory that can be copied and run."""

from __future__ import annotations

import json
import re
import shlex
from itertools import islice
from pathlib import Path
from shutil import copytree

import pytest
import typer
from fastavro import parse_schema
from fastavro.validation import validate
from typer.core import TyperGroup

from headrace.cli.app import app
from headrace.datagen.generator import Generator
from headrace.demos.catalogue import Demo, copied, demos
from headrace.demos.wordcount.screen import INPUT_TOPIC, OUTPUT_TOPIC

SECTIONS = ("**The problem.**", "**Topics.**", "**What to try.**")


@pytest.fixture(params=demos().values(), ids=lambda demo: demo.name)
def demo(request: pytest.FixtureRequest) -> Demo:
    found: Demo = request.param
    return found


def test_it_has_what_a_reader_needs(demo: Demo) -> None:
    names = ["README.md", "data.yml", "check.py"]
    if demo.has_pipeline:
        names += ["spark-pipeline.yml", f"transformations/{demo.name}.py"]
    else:
        names += ["service.py", "story.py"]
    assert [name for name in names if not (demo.directory / name).is_file()] == []
    readme = (demo.directory / "README.md").read_text()
    assert [section for section in SECTIONS if section not in readme] == []
    assert f"headrace demo {demo.name}" in readme
    for topic in (*(each.name for each in demo.plan.topics), *demo.check.OUTPUTS):
        assert f"`{topic}`" in readme, f"README.md of {demo.name} does not explain topic {topic}"


def test_the_word_count_is_explained_too() -> None:
    """It has a program of its own, and its pipeline is a template of `headrace pipeline init`."""
    readme = (demos()["taxi"].directory.parent / "wordcount" / "README.md").read_text()
    assert [section for section in SECTIONS if section not in readme] == []
    for topic in (INPUT_TOPIC, OUTPUT_TOPIC):
        assert f"`{topic}`" in readme
    for command in re.findall(r"`(headrace [^`]+)`", readme):
        _parse(shlex.split(command)[1:])


def test_every_generated_topic_has_a_schema_that_its_records_fit(demo: Demo) -> None:
    plan = demo.plan
    schemas = {
        topic.name: parse_schema(json.loads(topic.schema or "null")) for topic in plan.topics if topic.form != "text"
    }
    checked = 0
    for record in islice(Generator(plan, start_ms=1_700_000_000_000), 300):
        if record.topic not in schemas:
            checked += 1  # a line of text, which has no schema
            continue
        try:
            value = json.loads(record.value or b"")
        except ValueError:
            continue  # a share of the records is malformed on purpose
        validate(value, schemas[record.topic])
        checked += 1
    assert checked > 250


def test_a_copy_is_a_demo_and_other_directories_are_none(demo: Demo, tmp_path: Path) -> None:
    assert copied(tmp_path) is None
    copy = copied(copytree(demo.directory, tmp_path / "mine"))
    assert copy is not None and copy.check.TITLE == demo.check.TITLE and copy.directory == tmp_path / "mine"


def test_the_commands_of_a_readme_exist(demo: Demo) -> None:
    text = (demo.directory / "README.md").read_text()
    blocks = re.findall(r"^headrace [^#\n]+", text, re.MULTILINE)
    for command in (*re.findall(r"`(headrace [^`]+)`", text), *blocks):
        _parse(shlex.split(command)[1:])


def _parse(arguments: list[str]) -> None:
    """Raises an error of usage for an unknown command or option."""
    command = typer.main.get_command(app)
    context: typer.Context | None = None
    while isinstance(command, TyperGroup):
        context = typer.Context(command, parent=context)
        _, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command = found
    command.make_context(command.name, arguments, parent=context)

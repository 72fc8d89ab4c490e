"""`headrace pipeline reset` and `replay`: other offsets for a flow, or a past range again."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from headrace.cli.support.change_report import Row, report, report_one
from headrace.cli.support.connection import Bootstrap, Output
from headrace.cli.support.output import Format
from headrace.cli.support.pipeline_options import (
    BackendName,
    CommandConfig,
    Directory,
    Master,
    Settings,
    one_sentence,
    pipeline_spec,
    say,
)
from headrace.kernel.plurals import counted


def reset(
    directory: Directory,
    to: Annotated[str, typer.Option(help='earliest, latest, a time, or offsets like {"topic":{"0":5}}.')],
    flow: Annotated[str | None, typer.Option(help="Reset only this flow.")] = None,
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Move a stopped pipeline to other offsets.

    $ headrace pipeline reset shout --to earliest
    """
    with one_sentence():
        from headrace.pipelines.flows.reset import reset as move

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        moved = move(spec, to, flow=flow, bootstrap=spec.bootstrap)
    report([{"flow": name, "offsets": offsets, "done": True} for name, offsets in moved.items()], output, _moved)


def _moved(row: Row) -> str:
    if row["offsets"] is None:
        return f"{row['flow']}: forgotten; it begins at its own startingOffsets"
    return f"{row['flow']}: now at {json.dumps(row['offsets'])}"


def replay(
    directory: Directory,
    flow: Annotated[str, typer.Option(help="Flow to run again.")],
    begin: Annotated[str, typer.Option("--from", help="Start: a time, earliest, or offsets as JSON.")],
    end: Annotated[str, typer.Option("--to", help="End: a time, latest, or offsets as JSON.")],
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    master: Master = None,
    backend: BackendName = None,
    output: Output = Format.TABLE,
) -> None:
    """Run one flow again over a past range. Its offsets do not change.

    $ headrace pipeline replay shout --flow shouted --from earliest --to latest
    """
    with one_sentence():
        from headrace.pipelines.flows.replay import replay as run_again
        from headrace.pipelines.flows.reset import check_place, flow_checkpoints
        from headrace.pipelines.flows.session import pipeline_session

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        # Report errors before Spark starts, which takes seconds.
        flow_checkpoints(spec, flow)
        for place in (begin, end):
            check_place(place)
        spec, spark = pipeline_session(spec, backend, master, say)
        try:
            rows = run_again(spec, spark, flow=flow, begin=begin, end=end, bootstrap=spec.bootstrap, report=say)
        finally:
            spark.stop()
    report_one({"flow": flow, "rows": rows, "done": True}, output, f"{flow}: {counted(rows, 'row')} replayed")

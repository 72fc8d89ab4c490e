"""`headrace pipeline rename` and `forget`: checkpoints of flows that were renamed or removed."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.support.change_report import report_one
from headrace.cli.support.connection import Bootstrap, Output
from headrace.cli.support.output import Format
from headrace.cli.support.pipeline_options import (
    CommandConfig,
    Directory,
    Settings,
    one_sentence,
    pipeline_spec,
)


def rename(
    directory: Directory,
    old: Annotated[str, typer.Argument(help="Name that the flow had when it made its checkpoint.", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="Name of the flow in the definition files now.", metavar="NEW")],
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Give the checkpoint of a renamed flow to its new name, so that it continues where it stopped.

    $ headrace pipeline rename shout shouted loud
    """
    with one_sentence():
        from headrace.pipelines.flows.flow_names import rename as move

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        move(spec, old, new)
    report_one({"flow": new, "was": old, "done": True}, output, f"{old} is now {new}: it continues where it stopped")


def forget(
    directory: Directory,
    flow: Annotated[str, typer.Argument(help="Flow whose checkpoint is deleted.", metavar="FLOW")],
    settings: Settings = None,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    output: Output = Format.TABLE,
) -> None:
    """Delete the checkpoint and the progress of a flow that was removed. Its target stays as it is.

    $ headrace pipeline forget shout loud
    """
    with one_sentence():
        from headrace.pipelines.flows.flow_names import forget as drop

        spec = pipeline_spec(directory, settings, bootstrap, command_config)
        drop(spec, flow)
    report_one({"flow": flow, "done": True}, output, f"{flow}: checkpoint and progress deleted")

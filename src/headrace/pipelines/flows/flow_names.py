"""Flows that were removed or renamed: their checkpoints, which no flow of the pipeline uses any more.

The checkpoint of a flow has the flow's name. After a rename the flow finds no checkpoint, so it would read everything
again and write everything twice. The runner therefore stores the names of a pipeline's flows at each start, refuses a
new flow that looks like a removed one, and names every checkpoint without a flow. `rename` gives the checkpoint to the
flow with the new name, `forget` deletes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from headrace.pipelines.brokers import client_of
from headrace.pipelines.errors import PipelineError, nearest
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.progress import remove_progress
from headrace.pipelines.flows.run_lock import CHECKPOINTS, RunLock
from headrace.pipelines.flows.spec import PipelineSpec
from headrace.pipelines.spark.plan_guard import store_shape, stored_shape

FILE_NAME: Final = "headrace-flows.json"
# Parts of a flow's shape that a rename does not change.
_SAME: Final = ("stateful", "sink", "sources", "below")


def store_flows(spec: PipelineSpec, names: Iterable[str]) -> None:
    """Stores the flows of this start."""
    if spec.is_local:
        _root(spec).mkdir(parents=True, exist_ok=True)
        (_root(spec) / FILE_NAME).write_text(json.dumps(sorted(names)))


def stored_flows(spec: PipelineSpec) -> set[str] | None:
    """The flows of the last start; None if an earlier version made it."""
    file = _root(spec) / FILE_NAME
    return set(json.loads(file.read_text())) if file.exists() else None


def checkpoints(spec: PipelineSpec) -> dict[str, Checkpoint]:
    return {folder.name: Checkpoint(folder) for folder in sorted(_root(spec).glob("*")) if folder.is_dir()}


def check_removed_flows(spec: PipelineSpec, shapes: Mapping[str, dict[str, object]]) -> list[str]:
    """Sentences about checkpoints without a flow. Raises PipelineError if a new flow looks like a removed one."""
    if not spec.is_local:
        return []
    found = checkpoints(spec)
    removed = [name for name, checkpoint in found.items() if name not in shapes and checkpoint.exists()]
    new = [name for name in shapes if name not in found or not found[name].exists()]
    for name in new:
        for old in removed:
            before = stored_shape(found[old].path)
            if before is not None and all(before.get(part) == shapes[name].get(part) for part in _SAME):
                raise PipelineError(
                    f"flow {name!r} has no checkpoint and looks like the removed flow {old!r}: it would read "
                    f"everything again. If you renamed the flow, run 'headrace pipeline rename DIR {old} {name}'; if "
                    f"not, drop the old checkpoint with 'headrace pipeline forget DIR {old}'"
                )
    return [
        f"flow {old!r} was removed and its checkpoint remains: drop it with 'headrace pipeline forget DIR {old}', or "
        f"give it to another flow with 'headrace pipeline rename DIR {old} NEW'"
        for old in removed
    ]


def rename(spec: PipelineSpec, old: str, new: str) -> None:
    """Gives the checkpoint of `old` to the flow `new`. Ledgers stay valid: they go by the query's id."""
    found = checkpoints(spec)
    if old not in found:
        raise _unknown(old, found)
    if new in found and found[new].exists():
        raise PipelineError(f"flow {new!r} has a checkpoint already: forget it first if the old one shall replace it")
    shape = stored_shape(found[old].path)
    if (spec.storage_path / "tables" / old).exists():
        raise PipelineError(
            f"flow {old!r} writes the table {old!r}, whose log has the paths of its files: keep the name of the table"
        )
    with RunLock(spec):
        if new in found:
            found[new].forget()
        found[old].path.rename(_root(spec) / new)
        if shape is not None:
            store_shape(_root(spec) / new, {"flow": old, **shape})
        _replace_in_list(spec, old, new)
        _remove_progress(spec, old)


def forget(spec: PipelineSpec, flow: str) -> None:
    """Deletes the checkpoint and the progress of a flow."""
    found = checkpoints(spec)
    if flow not in found:
        raise _unknown(flow, found)
    with RunLock(spec):
        found[flow].forget()
        _replace_in_list(spec, flow, None)
        _remove_progress(spec, flow)


def _unknown(flow: str, found: Mapping[str, Checkpoint]) -> PipelineError:
    return PipelineError(
        f"flow {flow!r} has no checkpoint{nearest(flow, found)}; there are {', '.join(found) or 'none'}"
    )


def _replace_in_list(spec: PipelineSpec, old: str, new: str | None) -> None:
    names = stored_flows(spec)
    if names is not None:
        store_flows(spec, (names - {old}) | ({new} if new else set()))


def _remove_progress(spec: PipelineSpec, flow: str) -> None:
    """Removes the record in `__pipelines` and the consumer group of the flow, which nothing updates any more."""
    if spec.bootstrap is None:
        return
    with client_of(spec) as client:
        remove_progress(client, f"{spec.name}.{flow}")


def _root(spec: PipelineSpec) -> Path:
    return spec.storage_path / CHECKPOINTS

"""Moves flows to other offsets: `headrace pipeline reset`, and the offsets of a replay."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection

from headrace.client.blocking.client import EARLIEST, LATEST, READ_COMMITTED, BlockingClient, TopicPartitionPair
from headrace.pipelines.brokers import client_of, isolation_of
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.flow_names import checkpoints, stored_flows
from headrace.pipelines.flows.run_lock import CHECKPOINTS, RunLock
from headrace.pipelines.flows.spec import PipelineSpec
from headrace.pipelines.source.offsets import offsets_from_json, offsets_to_json, parse_partition_numbers
from headrace.pipelines.source.planning import topic_ids
from headrace.pipelines.source.stream_state import StreamNotes


def parse_when(text: str) -> int:
    """Milliseconds since 1970 of an ISO time or a plain number of milliseconds."""
    if re.fullmatch(r"\d{12,}", text):
        return int(text)
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{text!r} is not a time: write 2026-01-31T12:00:00+00:00 or milliseconds since 1970"
        ) from None
    return int(when.astimezone(datetime.UTC).timestamp() * 1000)


def check_place(to: str) -> None:
    """Raises OptionError unless `to` is earliest, latest, a time, or offsets."""
    if _named(to) is None and to not in ("earliest", "latest"):
        parse_when(to)


def _named(to: str) -> dict[TopicPartitionPair, int] | None:
    """The partitions that `to` names, with their offsets. None if it is a place in all partitions."""
    return parse_partition_numbers(to, "--to") if to.lstrip().startswith("{") else None


def flow_checkpoints(spec: PipelineSpec, flow: str | None) -> dict[str, Checkpoint]:
    """The checkpoints of the pipeline's flows. Checkpoints of removed flows are not among them."""
    found, names = checkpoints(spec), stored_flows(spec)
    if flow is not None and flow in found and names is not None and flow not in names:
        raise PipelineError(
            f"flow {flow!r} was removed from the pipeline: "
            f"drop its checkpoint with 'headrace pipeline forget DIR {flow}'"
        )
    found = {name: checkpoint for name, checkpoint in found.items() if names is None or name in names}
    if flow is not None and flow not in found:
        root = spec.storage_path / CHECKPOINTS
        raise PipelineError(f"flow {flow!r} has no checkpoint below {root}; known: {', '.join(found) or 'none'}")
    return {flow: found[flow]} if flow is not None else found


def reset(
    spec: PipelineSpec, to: str, *, flow: str | None, bootstrap: str | None
) -> dict[str, list[dict[str, object]] | None]:
    """Moves flows to `earliest`, `latest`, a time, or offsets as JSON. Returns the offsets of each flow's sources; None
    for a flow whose checkpoint was deleted, which then starts at its own startingOffsets."""
    check_place(to)
    chosen = flow_checkpoints(spec, flow)
    if not chosen:
        raise PipelineError(f"pipeline {spec.name!r} has never run: it begins at its own startingOffsets anyway")
    with RunLock(spec):
        for name, checkpoint in chosen.items():
            _refuse_to_skip(name, checkpoint, to)
        return {name: _move(spec, to, checkpoint, bootstrap) for name, checkpoint in chosen.items()}


def move_flow(spec: PipelineSpec, flow: str, to: str) -> list[dict[str, object]] | None:
    """Moves one flow for the process that holds the pipeline's lock. The flow must not run. Returns as `reset` does."""
    checkpoint = flow_checkpoints(spec, flow)[flow]
    _refuse_to_skip(flow, checkpoint, to)
    return _move(spec, to, checkpoint, None)


def _starts_over(checkpoint: Checkpoint, to: str) -> bool:
    return not checkpoint.exists() or (to == "earliest" and checkpoint.is_stateful())


def _refuse_to_skip(flow: str, checkpoint: Checkpoint, to: str) -> None:
    """A source that is not a topic, and a partition that is not named, keep their offset, which is the end of the last
    batch. If this batch is not finished, the move would mark it as done, and its rows would never arrive."""
    if _starts_over(checkpoint, to) or not checkpoint.is_unfinished():
        return
    sources, named = checkpoint.offsets(), _named(to)
    begun = f"flow {flow!r} has begun batch {checkpoint.last_batch()} and did not finish it. "
    if not all(_is_of_topics(source) for source in sources):
        raise PipelineError(
            f"{begun}One of its sources is not a topic and cannot be moved, so a reset would skip the rows of this "
            "batch. Let the flow run until the batch is finished (--once is enough), then reset it"
        )
    if named is not None and (left := sorted(set(_pairs_of(sources)) - named.keys())):
        raise PipelineError(
            f"{begun}A reset would skip the rows of this batch from {left[0][0]}-{left[0][1]} because --to does not "
            "name it. Name all partitions, or let the flow run until the batch is finished (--once is enough)"
        )


def _move(spec: PipelineSpec, to: str, checkpoint: Checkpoint, bootstrap: str | None) -> list[dict[str, object]] | None:
    if _starts_over(checkpoint, to):
        checkpoint.forget()
        return None
    with client_of(spec, bootstrap) as client:
        isolation = isolation_of(spec)
        sources = [moved_to(client, source, to, isolation, keeps_others=True) for source in checkpoint.offsets()]
        accept_topics(client, checkpoint, _named(to) or _pairs_of(sources))
    checkpoint.move_to(sources)
    return sources


def accept_topics(client: BlockingClient, checkpoint: Checkpoint, moved: Collection[TopicPartitionPair]) -> None:
    """Stores the current topic ids of the partitions that are moved, so that a flow continues although its topic was
    recreated."""
    query_id = checkpoint.query_id()
    if query_id is None or not moved:
        return
    ids = topic_ids(client, {topic for topic, _ in moved})
    StreamNotes(client).accept(query_id, {pair: ids[pair[0]] for pair in moved if pair[0] in ids})


def _pairs_of(sources: list[dict[str, object]]) -> list[TopicPartitionPair]:
    return [pair for source in sources if _is_of_topics(source) for pair in offsets_from_json(source)]


def _is_of_topics(source: dict[str, object]) -> bool:
    try:
        offsets_from_json(source)
    except (ValueError, TypeError):
        return False
    return True


def moved_to(
    client: BlockingClient,
    source: dict[str, object],
    to: str,
    isolation: int = READ_COMMITTED,
    *,
    keeps_others: bool = False,
) -> dict[str, object]:
    """The new offsets of this source. Sources that are not topics keep their offsets. A partition ends where a reader
    of this isolation level can read: beyond it, the flow would find its partition shorter than its offset. Partitions
    that `to` does not name keep their offsets, too, or are at their ends: a replay then has no rows of them."""
    if not _is_of_topics(source):
        return source
    before = offsets_from_json(source)
    named = _named(to)
    if named is None:
        return {**offsets_to_json(_offsets_at(client, list(before), to, isolation))}
    if unknown := next((pair for pair in named if pair not in before), None):
        raise OptionError(f"--to: {unknown[0]}-{unknown[1]} is not read by this flow")
    others = before if keeps_others else _offsets_at(client, list(before), "latest", isolation)
    return {**offsets_to_json({**others, **named})}


def _offsets_at(
    client: BlockingClient, pairs: list[TopicPartitionPair], to: str, isolation: int
) -> dict[TopicPartitionPair, int]:
    def at(timestamp: int) -> dict[TopicPartitionPair, int]:
        return client.list_offsets(dict.fromkeys(pairs, timestamp), isolation=isolation)

    if to in ("earliest", "latest"):
        return at(EARLIEST if to == "earliest" else LATEST)
    found, ends = at(parse_when(to)), at(LATEST)
    return {pair: ends[pair] if offset < 0 else offset for pair, offset in found.items()}

"""The least rights of a pipeline, connector or mirror, by the clusters that it uses."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from headrace.kernel.dataclass import dataclass
from headrace.security.acl import least_rights


class Side(StrEnum):
    """The clusters of a mirror."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class ClusterRights:
    """`side` is None if the pipeline uses one cluster."""

    rights: list[least_rights.Right]
    side: Side | None = None
    bootstrap: str = ""


def rights_of_pipeline(
    directory: Path, reads: frozenset[str], writes: frozenset[str], id_prefix: str | None = None
) -> list[ClusterRights]:
    """`reads`, `writes`: topics beside those in the files. Empty if there are none. Raises UnclearPattern."""
    from headrace.cli.facts.pipeline_topics import topics_of_pipeline

    found = topics_of_pipeline(directory)
    reads, writes = found.reads | reads, found.writes | writes
    if not reads and not writes:
        return []
    rights = least_rights.of_pipeline(
        found.name,
        sorted(reads),
        sorted(writes),
        sorted(found.id_prefixes) if id_prefix is None else [f"{id_prefix}-"],
        writes_dead_letters=found.writes_dead_letters,
    )
    return [ClusterRights(rights)]


def rights_of_mirror(file: Path, reads: frozenset[str]) -> list[ClusterRights]:
    """`reads`: the topics, instead of the pattern in the file. Raises UnclearPattern."""
    from headrace.cli.facts.pipeline_topics import topics_of_mirror

    spec, found = topics_of_mirror(file, reads)
    source = [
        *least_rights.of_source(found.name, sorted(found.reads)),
        *least_rights.of_described(sorted(found.reads)),
        *least_rights.of_progress(),
    ]
    target = least_rights.of_sink(sorted(found.writes), sorted(found.id_prefixes))
    return [
        ClusterRights(source, Side.SOURCE, spec.source_bootstrap),
        ClusterRights(target, Side.TARGET, spec.target_bootstrap),
    ]

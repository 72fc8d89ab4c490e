"""Log directories that this broker had at its last start and does not have now.

The disk is not mounted, or it failed, or an operator changed `log.dirs`. The broker registers its directories with
their ids, so the last registration tells which of them are missing. If this broker misses no log, it forgets the
directory: an operator moved the replicas away before.

If all directories are new, the broker replaces one that is lost. Then a partition that has no other replica begins
empty, as in Kafka.
"""

from __future__ import annotations

from headrace.cluster.core.image import BrokerInfo, ClusterImage
from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import TopicPartition, uuid_to_text
from headrace.kernel.plurals import counted
from headrace.replication.lost_logs import LostLogs
from headrace.storage.dirs.log_dirs import LogDirs


@dataclass(frozen=True, slots=True)
class DirectoriesAtStart:
    """`to_register`: the ids and paths for the registration of this start."""

    to_register: tuple[tuple[str, str], ...]
    lost: LostLogs


def compare_directories(
    dirs: LogDirs, image: ClusterImage, broker_id: int, registered: BrokerInfo | None
) -> DirectoriesAtStart:
    """`registered`: the last registration of this broker."""
    present = {
        uuid_to_text(one.identity.directory_id): str(one.path.absolute())
        for one in dirs.directories
        if one.is_online and one.identity is not None and one.identity.directory_id is not None
    }
    before = () if registered is None else registered.directories
    missing = tuple((directory_id, path) for directory_id, path in before if directory_id not in present)
    is_replacement = not dirs.offline and len(missing) == len(before)
    without_log = [
        TopicPartition(topic, index)
        for topic, index, info in image.partitions()
        if broker_id in info.replicas
        and dirs.log(topic, index) is None
        and not (is_replacement and len(info.replicas) == 1)
    ]
    if not without_log or not (missing or dirs.offline):
        return DirectoriesAtStart(tuple(present.items()), LostLogs())
    reason = _reason(dirs, [path for _, path in missing], without_log)
    lost = LostLogs(without_log, reason, are_offline=bool(dirs.offline))
    return DirectoriesAtStart((*present.items(), *missing), lost)


def _reason(dirs: LogDirs, missing: list[str], lost: list[TopicPartition]) -> str:
    names = ", ".join(map(str, lost[:5])) + (" …" if len(lost) > 5 else "")
    what = f"the logs of {counted(len(lost), 'partition')} ({names}) are missing"
    if dirs.offline:
        where = "; ".join(f"{one.path} is offline: {one.offline_reason}" for one in dirs.offline)
        return f"{what}, and {where}. Repair it and start again. To continue without its logs, remove it from log.dirs"
    return (
        f"{what}, and so is their log directory {' or '.join(missing)}: mount its disk, or name it in log.dirs, and "
        "start again. If its records are lost for good, elect leaders with `kafka-leader-election.sh --election-type "
        "unclean`: another replica then leads, or the partition begins empty"
    )

"""What a starting broker lacks: it compares its logs with its assigned partitions, checkpoints and last registration.

    a log is missing      and a log directory of the last start is missing or offline
                          or the checkpoint of a directory names the log
                          or the last registration says that it was missing then
                          or a directory is an old copy: the newer one may have the log
                          or this broker was unregistered while it held the log, and other replicas have its records
    a log is incomplete   it ends before the offset up to which it was on the disk (the recovery point)
                          or its directory is an old copy: an earlier registration of this broker closed it than the
                             last one that had it
                          or the last registration did not have its directory, but one that is missing now and may have
                             a newer log
                          or an earlier start found that, and it has not been in sync since

Otherwise a partition without a log is a new one. The broker registers its directories with their ids, and each
directory names them all, so the next start knows which of them are missing. If this broker misses no log, it forgets
the directory: an operator moved the replicas away before.

The only replica of a partition is never incomplete: no other has its records, so it serves the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from headrace.cluster.core.image import BrokerInfo, ClusterImage, PartitionInfo
from headrace.cluster.core.losses import NO_LOSSES, ReplicaKey
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import StorageFault
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted
from headrace.replication.lost_logs import LostLogs
from headrace.storage.dirs import incomplete_logs
from headrace.storage.dirs.log_dir import LogDir
from headrace.storage.dirs.log_dirs import LogDirs
from headrace.storage.log import Log

# Id and path.
Directory = tuple[str, str]
_ELECT = (
    "elect leaders with `kafka-leader-election.sh --election-type unclean`: another replica then leads, or the "
    "partition begins empty"
)


@dataclass(frozen=True, slots=True)
class LossesAtStart:
    """`directories` and `missing_since` are for the registration of this start. `problems`: sentences for the
    operator. `old_copies`: online directories, for `LogDirs.finish_start`."""

    directories: tuple[Directory, ...]
    missing_since: tuple[tuple[str, int], ...]
    lost: LostLogs
    problems: tuple[str, ...]
    old_copies: tuple[LogDir, ...] = ()


def losses_at_start(dirs: LogDirs, image: ClusterImage, broker_id: int, registered: BrokerInfo | None) -> LossesAtStart:
    """Finds what is lost, and marks incomplete logs. `registered`: the last registration of this broker."""
    return _Comparison(dirs, image, broker_id, registered).result()


class _Comparison:
    def __init__(self, dirs: LogDirs, image: ClusterImage, broker_id: int, registered: BrokerInfo | None) -> None:
        self._dirs = dirs
        self._image = image
        self._broker_id = broker_id
        self._before = NO_LOSSES if registered is None else registered.losses
        self._is_unregistered = registered is None
        self._present = {
            one.id_text: str(one.path.absolute())
            for one in dirs.directories
            if one.is_online and one.id_text is not None
        }
        self._registered = dict(() if registered is None else registered.directories)
        known = [*self._registered.items(), *_named_by(dirs)]
        self._gone = tuple((key, path) for key, path in dict(known).items() if key not in self._present)
        self._last_epoch = -1 if registered is None else registered.epoch
        self._missing_before = {} if registered is None else dict(registered.missing_since)
        self._missing_since = {key: self._missing_before.get(key, self._last_epoch) for key, _ in self._gone}
        self._old_copies = tuple(one for one in dirs.directories if self._is_old_copy(one))

    def result(self) -> LossesAtStart:
        missing: dict[str, list[tuple[ReplicaKey, TopicPartition]]] = {}
        incomplete: dict[str, list[tuple[ReplicaKey, TopicPartition]]] = {}
        alone: list[str] = []
        for key, name, info in self._assigned():
            log = self._own_log(key, name)
            if log is None:
                reason = self._why_missing(key, name, info)
                if reason is not None:
                    missing.setdefault(reason, []).append((key, name))
                continue
            reason = None if log.offline_reason is not None else self._why_incomplete(key, name, log, info)
            if reason is not None and len(info.replicas) == 1:
                alone.append(f"{name} lacks records: {reason}. It is the only replica, and serves the rest")
            elif reason is not None:
                incomplete.setdefault(reason, []).append((key, name))
                self._mark(log, reason)
        lost = LostLogs(
            {key: reason for reason, found in missing.items() for key, _ in found},
            [key for found in incomplete.values() for key, _ in found],
            are_offline=bool(self._dirs.offline),
        )
        problems = [f"{_logs_of(found)} missing: {reason}" for reason, found in missing.items()]
        problems += [
            f"{_logs_of(found)} incomplete: {reason}. Another replica must lead, and this broker fetches the records "
            f"from it. If no other replica has them, {_ELECT}"
            for reason, found in incomplete.items()
        ]
        directories = tuple(self._present.items()) + (self._gone if missing else ())
        return LossesAtStart(
            directories,
            tuple(self._missing_since.items()) if missing else (),
            lost,
            (*problems, *alone),
            self._old_copies,
        )

    def _was_there(self, directory: LogDir) -> bool:
        """Whether the last registration had the directory. One of an earlier release does not say."""
        key = directory.id_text or ""
        return not self._registered or (key in self._registered and key not in self._missing_before)

    def _is_old_copy(self, directory: LogDir) -> bool:
        """Whether the broker has run since with a newer copy of the directory, which may have any log. A directory that
        the last registration did not have has none of the logs of that time."""
        is_older = 0 <= directory.previous_broker_epoch < self._last_epoch
        return directory.is_online and is_older and self._was_there(directory)

    def _assigned(self) -> Iterator[tuple[ReplicaKey, TopicPartition, PartitionInfo]]:
        for topic in self._image.topics.values():
            for index, info in enumerate(topic.partitions):
                if self._broker_id in info.replicas:
                    yield (topic.id, index), TopicPartition(topic.name, index), info

    def _own_log(self, key: ReplicaKey, name: TopicPartition) -> Log | None:
        """A log with another id belongs to an older topic of that name."""
        log = self._dirs.log(name.topic, name.partition)
        return None if log is None or log.topic_id not in (None, key[0]) else log

    def _why_missing(self, key: ReplicaKey, name: TopicPartition, info: PartitionInfo) -> str | None:
        if self._dirs.offline:
            where = "; ".join(f"{one.path} is offline: {one.offline_reason}" for one in self._dirs.offline)
            return f"{where}. Repair it and start again. To continue without its logs, remove it from log.dirs"
        if self._gone:
            return f"{self._what_is_gone()}. If its records are lost for good, {_ELECT}"
        place = self._dirs.checkpointed_in(name)
        if place is not None:
            return (
                f"the checkpoint of {place.path} names it, and {place.path / str(name)} is gone. Put it back and start "
                f"again. If its records are lost for good, {_ELECT}"
            )
        if key in self._before.missing:
            return f"it was missing at an earlier start already. If its records are lost for good, {_ELECT}"
        if self._old_copies:
            where = ", ".join(str(one.path) for one in self._old_copies)
            return (
                f"{where} is an old copy, and the newer one may have it. Put that one back and start again. If its "
                f"records are lost for good, {_ELECT}"
            )
        held_it = self._broker_id in (*info.isr, *info.eligible, *info.last_known_eligible)
        if self._is_unregistered and held_it and len(info.replicas) > 1:
            return (
                f"broker {self._broker_id} held it and was unregistered. Start it with the disk of that time. If its "
                f"records are lost for good, {_ELECT}"
            )
        return None

    def _what_is_gone(self) -> str:
        said = []
        for key, path in self._gone:
            if path in self._present.values():
                said.append(
                    f"their log directory {path} had the id {key}, and the one there now is another: its disk is not "
                    "mounted, or the logs are below the mount point of one that was mounted since. Put it back"
                )
            else:
                said.append(f"their log directory {path} is missing: mount its disk, or name it in log.dirs")
        return f"{'; '.join(said)}, and start again"

    def _why_incomplete(self, key: ReplicaKey, name: TopicPartition, log: Log, info: PartitionInfo) -> str | None:
        home = self._dirs.directory_of(log)
        # A replica that lacks records leaves both sets with the registration that says so.
        was_in_sync = self._broker_id in (*info.isr, *info.eligible)
        if log.log_end_offset < home.recovery_point_at_start(name):
            return f"the checkpoint of {home.path} names later offsets, so files were removed, cut or replaced"
        if 0 <= home.previous_broker_epoch < self._last_epoch_with(home, key):
            return f"{home.path} is an old copy: the broker has run with a newer one since"
        if self._may_be_replaced(home, key):
            return f"the broker has run without {home.path}, and a directory that is missing now may have newer ones"
        if incomplete_logs.is_marked(log.directory) or (key in self._before.incomplete and not was_in_sync):
            return "an earlier start found that, and they have not been in sync since"
        return None

    def _last_epoch_with(self, home: LogDir, key: ReplicaKey) -> int:
        """The last registration of this broker that had the directory, for one of its replicas. -1 if that is not
        known. A release that did not write the epoch into the mark of a clean stop leaves -1 there, too."""
        if key not in self._before.missing:
            # The directory may have been missing, but then the broker has fetched the log again in another one.
            return self._last_epoch
        directory_id = home.id_text or ""
        if self._registered and directory_id not in self._registered and not self._gone:
            # It was offline at the first start that registered ids. A missing directory could have a newer log.
            return -1
        return self._missing_before.get(directory_id, self._last_epoch)

    def _may_be_replaced(self, home: LogDir, key: ReplicaKey) -> bool:
        """Whether the broker may have fetched the log again while its directory was away, into one that is missing now.
        After a kill or a failed disk no mark tells that. The logs in a new directory were copied by a person."""
        if home.is_new or self._was_there(home):
            return False
        gone = [one for one, _ in self._gone if one in self._registered]
        if key in self._before.missing:
            return bool(gone) and home.id_text not in self._registered
        return any(one not in self._missing_before for one in gone)

    def _mark(self, log: Log, reason: str) -> None:
        if not incomplete_logs.is_marked(log.directory):
            # On a full disk only the registration names it.
            with contextlib.suppress(StorageFault):
                self._dirs.mark_incomplete(log, reason)


def _named_by(dirs: LogDirs) -> Iterable[Directory]:
    for one in dirs.directories:
        if one.is_online and one.identity is not None:
            yield from one.identity.directories


def _logs_of(found: list[tuple[ReplicaKey, TopicPartition]]) -> str:
    names = ", ".join(str(name) for _, name in found[:5]) + (" …" if len(found) > 5 else "")
    return f"the logs of {counted(len(found), 'partition')} ({names}) are"

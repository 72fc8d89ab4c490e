"""The sticky task assignor: the target of every member of a streams group.

Active tasks go first to the members that have them already, then to members that have them as standby (they have most
of the state), then to the least loaded process. Standby tasks never go to a process that has the same task. A process
is an application instance; its members are its threads. No member takes more than its share while another has less.

The choices equal those of Kafka's StickyTaskAssignor, also among equally loaded candidates (`java_order`,
`java_queue`). Kafka 4.3 assigns no warm-up tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.coordinators.codec.streams_groups import TaskIds, Tasks
from headrace.coordinators.group.core.consumer.java_order import in_java_order
from headrace.coordinators.group.core.streams.java_queue import JavaPriorityQueue


class Task(NamedTuple):
    subtopology: str
    partition: int


class AssignedStreamsMember(NamedTuple):
    process_id: str
    active: TaskIds
    standby: TaskIds


class TaskSource(NamedTuple):
    """A subtopology, as the assignor needs it."""

    tasks: int
    is_stateful: bool


class _Member(NamedTuple):
    process_id: str
    member_id: str


class _Quota:
    """How many tasks a member takes. When a member has its share, the rest is divided among the other members."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = self._share()

    def taken(self, count: int) -> None:
        """A member has this number of tasks now."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Process:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # member → number of its tasks
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self.tasks: set[Task] = set()
        self.load = 0.0
        self._task_count = 0
        self._by_count: JavaPriorityQueue[list[str]] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def add(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self._by_count = None  # the heap cannot follow a change of one entry; it is built again when needed
        return self._add(member_id, task, is_active)

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        if len(self.counts) == 1:
            return self._add(next(iter(self.counts)), task, is_active)
        if self._by_count is None:
            # One-element lists: Kafka's heap has entry objects, which are equal only to themselves.
            entries = [[member_id] for member_id in in_java_order(self.counts)]
            self._by_count = JavaPriorityQueue(lambda entry: self.counts[entry[0]], entries)
        entry = self._by_count.poll()
        assert entry is not None, "a process has members"
        count = self._add(entry[0], task, is_active)
        self._by_count.add(entry)
        return count

    def _add(self, member_id: str, task: Task, is_active: bool) -> int:
        self._task_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        self.counts[member_id] += 1
        self.load = self._task_count / len(self.counts)
        return self.counts[member_id]


class _Assignment:
    def __init__(
        self, members: Mapping[str, AssignedStreamsMember], sources: Mapping[str, TaskSource], standby_replicas: int
    ) -> None:
        self._replicas = standby_replicas
        active = sum(source.tasks for source in sources.values())
        stateful = sum(source.tasks for source in sources.values() if source.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * standby_replicas, len(members))
        self.processes: dict[str, _Process] = {}
        self._had_active: dict[Task, _Member] = {}
        self._had_standby: dict[Task, list[_Member]] = {}
        for member_id in in_java_order(members):
            self._add_member(member_id, members[member_id])
        order = in_java_order(self.processes, capacity=len(members))
        self.processes = {process_id: self.processes[process_id] for process_id in order}

    def _add_member(self, member_id: str, about: AssignedStreamsMember) -> None:
        self.processes.setdefault(about.process_id, _Process()).add_member(member_id)
        member = _Member(about.process_id, member_id)
        for task in _tasks(about.active):
            self._had_active[task] = member
        for task in _tasks(about.standby):
            self._had_standby.setdefault(task, []).append(member)

    # Active tasks

    def assign_active(self, tasks: Iterable[Task]) -> None:
        # The former assignment pairs equal partitions of all subtopologies, so the partition comes first.
        left = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology)):
            former = self._had_active.get(task)
            if former is None or not self._takes_active(former, task):
                left.append(task)
        rest = []
        for task in left:
            former = self._least_loaded(self._had_standby.get(task, ()), None)
            if former is None or not self._takes_active(former, task):
                rest.append(task)
        queue = self._by_load()
        for task in sorted(rest):
            process = queue.poll()
            assert process is not None, "a group that gets a target has members"
            self._took_active(process.add_to_least_loaded(task, is_active=True))
            queue.add(process)

    def _takes_active(self, member: _Member, task: Task) -> bool:
        process = self.processes[member.process_id]
        if process.counts[member.member_id] >= self._active_quota.each:
            return False
        self._took_active(process.add(member.member_id, task, is_active=True))
        return True

    def _took_active(self, count: int) -> None:
        self._active_quota.taken(count)
        self._quota.taken(count)

    # Standby tasks

    def assign_standby(self, tasks: Iterable[Task]) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology), reverse=True):
            for given in range(self._replicas):
                if not self._returns_standby(task):
                    left.append((task, self._replicas - given))
                    break
        queue = self._by_load()
        for task, replicas in sorted(left, key=lambda each: each[0], reverse=True):
            for _ in range(replicas):
                if not self._standby_to_least_loaded(queue, task):
                    break  # more replicas than processes

    def _returns_standby(self, task: Task) -> bool:
        """Gives the task to a member that had it, if one of them can take it."""
        former = self._had_active.get(task)
        if former is not None and task not in self.processes[former.process_id].tasks and self._takes(former, task):
            return True
        had = self._had_standby.get(task)
        member = self._least_loaded(had, task) if had else None
        return member is not None and self._takes(member, task)

    def _takes(self, member: _Member, task: Task) -> bool:
        process = self.processes[member.process_id]
        if process.counts[member.member_id] >= self._quota.each:
            return False
        self._quota.taken(process.add(member.member_id, task, is_active=False))
        return True

    def _standby_to_least_loaded(self, queue: JavaPriorityQueue[_Process], task: Task) -> bool:
        process = queue.poll()
        if process is None:
            return False
        found = False
        if task not in process.tasks:
            self._quota.taken(process.add_to_least_loaded(task, is_active=False))
            found = True
        elif len(queue):
            found = self._standby_to_least_loaded(queue, task)
        queue.add(process)
        return found

    # Load

    def _by_load(self) -> JavaPriorityQueue[_Process]:
        return JavaPriorityQueue(lambda process: process.load, self.processes.values())

    def _least_loaded(self, members: Sequence[_Member], task: Task | None) -> _Member | None:
        """`task`: a member whose process has it does not count. As in Kafka this is checked for the first member even
        if another one is chosen.
        """
        if not members:
            return None
        first = chosen = members[0]
        process = self.processes[first.process_id]
        process_load, member_load = process.load, process.counts[first.member_id]
        for member in members[1:]:
            other = self.processes[member.process_id]
            if (
                other.load < process_load
                and (task is None or task not in other.tasks)
                and other.counts[member.member_id] < member_load
            ):
                chosen, process_load, member_load = member, other.load, other.counts[member.member_id]
        return chosen if task is None or task not in process.tasks else None


def assign_sticky(
    members: Mapping[str, AssignedStreamsMember], sources: Mapping[str, TaskSource], standby_replicas: int
) -> dict[str, Tasks]:
    assignment = _Assignment(members, sources, standby_replicas)
    assignment.assign_active(_all_tasks(sources))
    if standby_replicas > 0:
        assignment.assign_standby(_all_tasks({name: each for name, each in sources.items() if each.is_stateful}))
    found: dict[str, Tasks] = {}
    for process in assignment.processes.values():
        for member_id in process.counts:
            active, standby = process.active.get(member_id, ()), process.standby.get(member_id, ())
            found[member_id] = Tasks(_by_subtopology(active), _by_subtopology(standby), {})
    return found


def _all_tasks(sources: Mapping[str, TaskSource]) -> list[Task]:
    return [Task(name, partition) for name, source in sources.items() for partition in range(source.tasks)]


def _tasks(tasks: TaskIds) -> Iterable[Task]:
    return (Task(name, partition) for name, partitions in tasks.items() for partition in partitions)


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name, partition in tasks:
        found.setdefault(name, set()).add(partition)
    return {name: frozenset(partitions) for name, partitions in sorted(found.items())}

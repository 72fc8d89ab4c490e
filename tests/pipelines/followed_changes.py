"""Change data capture of a table with random changes, while the driver is killed repeatedly.

python -m tests.pipelines.followed_changes [--source postgres|sqlite] [--changes 10000] [--kills 10] [--seed 1]

Changes continue while the driver is down or starts. They wait in the database's log.
In the end the target must equal the source.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.pipelines.connectors.databases import Database
from headrace.testing.process import broker_process
from tests.support.clock import wait_for

ACCOUNTS: Final = "CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER)"
_ALL: Final = "SELECT * FROM accounts ORDER BY id"
_AT_ONCE: Final = 5
_START_TIMEOUT_S: Final = 120.0


@dataclass
class Accounts:
    """A table with random changes, each to exactly one row."""

    database: Database
    ids: list[int] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    table: str = "accounts"

    def change(self, count: int) -> None:
        with self.database.connect() as connection:
            for _ in range(count):
                kind = self.chance.choice(["insert", "update", "update", "delete", "move"]) if self.ids else "insert"
                assert connection.execute(*self._statement(kind)).rowcount == 1
                self.made[kind] += 1

    def _statement(self, kind: str) -> tuple[str, tuple[Any, ...]]:
        mark, fresh = self.database.mark, self.made.total()
        if kind == "insert":
            self.ids.append(fresh)
            return f"INSERT INTO {self.table} VALUES ({mark}, {mark}, 0)", (fresh, f"n{fresh}")
        at = self.chance.randrange(len(self.ids))
        if kind == "update":
            return f"UPDATE {self.table} SET amount = amount + 1, name = {mark} WHERE id = {mark}", (None, self.ids[at])
        old = self.ids.pop(at)
        if kind == "delete":
            return f"DELETE FROM {self.table} WHERE id = {mark}", (old,)
        self.ids.append(fresh)
        return f"UPDATE {self.table} SET id = {mark} WHERE id = {mark}", (fresh, old)


def equal_accounts(source: Database, target: Database) -> bool:
    """False also when there is nothing to compare."""
    with source.connect() as ours, target.connect() as theirs:
        wanted = ours.execute(_ALL).fetchall()
        return bool(wanted) and theirs.execute(_ALL).fetchall() == wanted


@dataclass
class FollowedTable:
    """The connector process, and the table that it follows."""

    source: Database
    target: Database
    directory: Path
    bootstrap: str
    chance: random.Random
    kills: int = 0

    def __post_init__(self) -> None:
        for database in (self.source, self.target):
            with database.connect() as connection:
                connection.execute("DROP TABLE IF EXISTS accounts")
                connection.execute(ACCOUNTS)
        self.accounts = Accounts(self.source, chance=self.chance)
        self.file = self.directory / "follow.yml"
        self.file.write_text(
            f"bootstrap: {self.bootstrap}\nstorage: {self.directory}/storage\n"
            f"from:\n  cdc: {{url: '{self.source.url}', tables: [accounts]}}\n"
            f"to:\n  jdbc: {{url: '{self.target.url}'}}\n"
        )

    def _start(self, how: str) -> subprocess.Popen[bytes]:
        job = str(Path(__file__).with_name("copy_job.py"))
        with (self.directory / "job.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, job, "local[2]", how, str(self.file)], stdout=log, stderr=log, start_new_session=True
            )

    def _tail(self) -> str:
        return (self.directory / "job.log").read_text(errors="replace")[-3000:]

    def _last_batch(self) -> int:
        """Number of the last batch that Spark has begun."""
        noted = (self.directory / "storage" / "checkpoints" / "follow" / "offsets").glob("*")
        return max((int(file.name) for file in noted if file.name.isdigit()), default=-1)

    def follow(self) -> None:
        """Starts the connector for the first time. From now on the database keeps its changes."""
        self._finish(self._start("connector"))

    def killed_after(self, changes: int) -> None:
        """Makes changes while the driver starts and runs, and kills it within a new batch."""
        process = self._start("follow")
        wanted = self._last_batch() + self.chance.randint(1, 3)
        try:
            for _ in range(changes // 2 // _AT_ONCE):
                self.accounts.change(_AT_ONCE)
            for _ in range(changes // 2 // _AT_ONCE):
                # Spark begins a batch only if there are new changes.
                self.accounts.change(_AT_ONCE)
                before = self._last_batch()
                goal = min(wanted, before + 1)

                def begun(goal: int = goal) -> bool:
                    assert process.poll() is None, self._tail()
                    return self._last_batch() >= goal

                wait_for(begun, lambda goal=goal: f"batch {goal}: {self._tail()}", poll=0.01)
            time.sleep(self.chance.uniform(0, 0.5))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.kills += 1

    def finish(self) -> None:
        self._finish(self._start("connector"))

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        try:
            assert process.wait(300) == 0, self._tail()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def followed_with_kills(
    url: str, directory: Path, bootstrap: str, *, changes: int, kills: int, seed: int
) -> FollowedTable:
    """Raises AssertionError if the target does not equal the source in the end."""
    target = Database(f"sqlite:///{directory}/target.db")
    table = FollowedTable(Database(url), target, directory, bootstrap, random.Random(seed))
    table.follow()
    for number in range(kills):
        rest = changes - table.accounts.made.total()
        table.killed_after(rest // (kills - number))
    table.accounts.change(changes - table.accounts.made.total())
    table.finish()
    assert equal_accounts(table.source, table.target)
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", default="postgres")
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("stopped"))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url = f"sqlite:///{directory}/source.db"
        if chosen.source == "postgres":
            from tests.pipelines.postgres import running_postgres

            url = stack.enter_context(running_postgres())
        broker = stack.enter_context(broker_process())
        table = followed_with_kills(
            url, directory, broker.bootstrap, changes=chosen.changes, kills=chosen.kills, seed=chosen.seed
        )
    print(f"{chosen.source}: {dict(table.accounts.made)}, {table.kills} kills: the target equals the source")


if __name__ == "__main__":
    main()

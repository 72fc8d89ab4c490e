"""Users choose thresholds, transactions arrive in the bank's database, and large ones are reported within a second."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.demos.errors import DemoFailed
from headrace.demos.postgres import NoPostgres, running_postgres
from headrace.demos.stage import Stage
from headrace.pipelines.connectors.cdc.change_logs import change_log
from headrace.pipelines.connectors.databases import Database

GOES_ON = True
SINGLE = 5
DATABASE = "headrace.demo.database"
# `audit` is not captured. The bank writes the threshold of the moment into it, in the transaction of the row.
TABLES = (
    "CREATE TABLE IF NOT EXISTS transactions ({id}, account TEXT, cents BIGINT, at_ms BIGINT)",
    "CREATE TABLE IF NOT EXISTS thresholds (account TEXT PRIMARY KEY, cents BIGINT)",
    "CREATE TABLE IF NOT EXISTS audit (id BIGINT PRIMARY KEY, threshold BIGINT)",
)
AUDIT = (
    "SELECT t.id, t.account, t.cents, a.threshold FROM transactions t JOIN audit a ON a.id = t.id "
    "WHERE t.cents > a.threshold ORDER BY t.id"
)


@contextmanager
def resources(data: Path) -> Iterator[Mapping[str, str]]:
    """The database: PostgreSQL if it is installed, else SQLite. HEADRACE_DEMO_DATABASE names another one."""
    with ExitStack() as stack:
        url = os.environ.get("HEADRACE_DEMO_DATABASE")
        note = f"The bank's database is {url}."
        kept = data / "bank.db"
        if url is None and kept.exists():
            url, note = f"sqlite:///{kept}", "The bank's database is the SQLite file of the earlier run."
        if url is None:
            if (data / "pipeline").exists():
                raise DemoFailed(
                    f"the bank's database of the earlier run with {data} was temporary: name another --data directory, "
                    "or a database of your own with HEADRACE_DEMO_DATABASE"
                )
            try:
                url = stack.enter_context(running_postgres())
                note = "The bank's database is PostgreSQL; changes are captured from its log."
            except NoPostgres as missing:
                url = f"sqlite:///{kept}"
                note = f"{missing}: the bank's database is SQLite; triggers capture the changes."
        database = Database(url)
        number = "INTEGER PRIMARY KEY AUTOINCREMENT" if database.is_sqlite else "BIGSERIAL PRIMARY KEY"
        with database.connect() as connection:
            for statement in TABLES:
                connection.execute(statement.format(id=f"id {number}"))
        # Change capture begins here, before the first row.
        change_log(url, ("transactions", "thresholds"), "headrace_bank").prepare()
        yield {DATABASE: url, "note": note}


class Bank:
    """The bank's own program. It knows nothing of topics."""

    def __init__(self, url: str) -> None:
        self._is_sqlite = Database(url).is_sqlite
        if self._is_sqlite:
            self._connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, check_same_thread=False)
            # Each row is a transaction: 58 rows a second instead of 5,400 if each waits for the disk. A killed program
            # loses nothing this way.
            self._connection.execute("PRAGMA synchronous=OFF")
        else:
            import psycopg

            self._connection = psycopg.connect(url)

    def _execute(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        found = self._connection.execute(text if self._is_sqlite else text.replace("?", "%s"), values)
        return [] if found.description is None else found.fetchall()

    def choose_threshold(self, account: str, cents: int) -> None:
        self._execute(
            "INSERT INTO thresholds (account, cents) VALUES (?, ?) "
            "ON CONFLICT (account) DO UPDATE SET cents = excluded.cents",
            account,
            cents,
        )
        self._connection.commit()

    def book(self, account: str, cents: int) -> int:
        """Returns the number of the transaction."""
        insert = "INSERT INTO transactions (account, cents, at_ms) VALUES (?, ?, ?) RETURNING id"
        audit = "INSERT INTO audit (id, threshold) VALUES (?, (SELECT cents FROM thresholds WHERE account = ?))"
        ((number,),) = self._execute(insert, account, cents, int(time.time() * 1000))
        self._execute(audit, number, account)
        self._connection.commit()
        return int(number)

    def large_transactions(self) -> list[tuple[Any, ...]]:
        """By one query, without streams: what had to be reported."""
        found = self._execute(AUDIT)
        self._connection.commit()
        return found

    def close(self) -> None:
        self._connection.close()


def run(stage: Stage) -> None:
    stage.say(stage.settings["note"])
    with closing(Bank(stage.settings[DATABASE])) as bank:
        _tell(stage, bank)


def _tell(stage: Stage, bank: Bank) -> None:
    _fill(stage, bank)
    _wait_for_alerts(stage, bank)
    _report_single_ones(stage, bank)
    # The bank's own answer, for the check.
    with stage.cluster() as cluster:
        audit = cluster.topic("bank-audit", dict)
        for number, account, cents, threshold in bank.large_transactions():
            audit.send({"id": number, "account": account, "cents": cents, "threshold": threshold}, key=str(number))


def _fill(stage: Stage, bank: Bank) -> None:
    began = time.monotonic()
    for number, record in enumerate(islice(stage.generator, stage.records)):
        if number == stage.records // 2:
            stage.halfway()
        if stage.stopping.is_set():
            return
        if stage.is_paced:
            stage.stopping.wait(max(0.0, began + record.at_s - time.monotonic()))
        row = json.loads(record.value or b"")
        stage.sender.sent.records[record.topic] += 1
        if record.topic == "thresholds":
            bank.choose_threshold(row["account"], row["cents"])
        else:
            bank.book(row["account"], row["cents"])


def _wait_for_alerts(stage: Stage, bank: Bank) -> None:
    stage.wait_for_records(len(bank.large_transactions()), "bank-alerts", what="the alerts of the first transactions")


def _report_single_ones(stage: Stage, bank: Bank) -> None:
    """One at a time: how long does an alert take, and does a new threshold count at once?"""
    seen = stage.contents("bank-alerts")
    times = []
    for number in range(SINGLE):
        bank.choose_threshold("account-single", 1000 * (number + 1))
        bank.book("account-single", 1000 * (number + 1))  # not above its threshold
        began = time.monotonic()
        booked = bank.book("account-single", 1000 * (number + 1) + 1)

        def is_reported(wanted: int = booked) -> bool:
            seen.read_new()
            return any(row["id"] == wanted for row in seen.rows("bank-alerts"))

        stage.wait_for(is_reported, f"the alert of transaction {booked}")
        times.append(time.monotonic() - began)
        stage.pause(1)
    times.sort()
    stage.say(
        f"alerts of {SINGLE} single transactions came after {times[0]:.2f} to {times[-1]:.2f} s, "
        f"half of them within {times[SINGLE // 2]:.2f} s"
    )

"""`python -m benchmarks.before_after CHECKOUT [--rounds N]`: a broker of this checkout beside one of another checkout.

Shows what a change costs. Both run with the Python and the packages of this checkout, in turns: each round measures the
one, then the other.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import broker
from benchmarks.servers import Headrace

_BEFORE, _AFTER = "before", "after"
_ROWS = ("large", "spread", "consume", "consume_1mb", "small", "cpu", "fine_p50", "fine_p99", "start", "idle", "loaded")


def _measure(server: Headrace) -> None:
    with server:
        broker.ROWS["start"].add(server.name, server.start_seconds)
        time.sleep(1)
        broker.ROWS["idle"].add(server.name, server.resident_bytes() / 1e6)
        broker.throughput(server)
        broker.ROWS["loaded"].add(server.name, server.resident_bytes() / 1e6)
        for row, value in zip(("fine_p50", "fine_p99"), broker.fine_latency(server, "latency"), strict=True):
            broker.ROWS[row].add(server.name, value)


def _show(rounds: int) -> None:
    table = Table("row", "unit", _BEFORE, _AFTER, "after / before", title=f"broker ({rounds} rounds, medians)")
    for name in _ROWS:
        row = broker.ROWS[name]
        before, after = row.median(_BEFORE), row.median(_AFTER)
        assert before is not None and after is not None
        table.add_row(row.name, row.unit, f"{before:,.4g}", f"{after:,.4g}", f"{after / before:.3f}")
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.before_after", description=__doc__)
    parser.add_argument("checkout", type=Path, help="The directory of the other checkout.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    checkouts = {_BEFORE: given.checkout / "src", _AFTER: Path(__file__).parent.parent / "src"}
    with tempfile.TemporaryDirectory(prefix="headrace-before-after-") as directory:
        for number in range(given.rounds):
            for name, sources in checkouts.items():
                _measure(Headrace(Path(directory) / f"{name}-{number}", name=name, sources=sources.resolve()))
    _show(given.rounds)


if __name__ == "__main__":
    main()

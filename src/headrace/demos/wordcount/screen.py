"""Output of the word count demo: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.demos import picture as demo_picture
from headrace.demos.picture import Picture
from headrace.kernel.plurals import counted

TITLE: Final = "Words of a text, counted as they arrive."
INPUT_TOPIC = "streams-plaintext-input"
OUTPUT_TOPIC = "streams-wordcount-output"
_FEWEST_ROWS: Final = 5
_MOST_ROWS: Final = 20
# Lines besides the words: title, header and frame of the table, two lines of facts, the cursor line.
_LINES_AROUND: Final = 9
# Rows of the table on the page of the web console.
_PAGE_ROWS: Final = 12


@dataclass(frozen=True)
class Snapshot:
    counts: Mapping[str, int]
    lines_sent: int
    # From the pipeline's last batch; None before the first batch has ended.
    lag: int | None
    batch_ms: int | None
    batches: int
    last_line: str


def fitting_rows(screen_lines: int, hint_lines: int) -> int:
    """Number of words to show. The table, and on a tall screen the hints above it, must fit, because a live table that
    is taller than the screen is cut off."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, screen_lines - hint_lines - _LINES_AROUND))


def picture(snapshot: Snapshot, bootstrap: str, *, rows: int) -> Group:
    table = Table(title=f"{OUTPUT_TOPIC}: {counted(len(snapshot.counts), 'word')}", title_justify="left", expand=False)
    table.add_column("word")
    table.add_column("count", justify="right")
    table.add_column("")
    top = _most_frequent(snapshot, rows)
    largest = max((count for _, count in top), default=1)
    for word, count in top:
        table.add_row(word, str(count), "█" * max(1, round(24 * count / largest)))
    lag = "–" if snapshot.lag is None else str(snapshot.lag)
    last_batch = "–" if snapshot.batch_ms is None else f"{snapshot.batch_ms} ms"
    facts = Text.from_markup(
        f"broker [b]{bootstrap}[/b]   lines sent [b]{snapshot.lines_sent}[/b]   lag [b]{lag}[/b]   "
        f"batches [b]{snapshot.batches}[/b]   last batch [b]{last_batch}[/b]\n"
    )
    facts.append(f"{INPUT_TOPIC} ← {snapshot.last_line}", style="dim")
    return Group(facts, table)


def panels(snapshot: Snapshot) -> Picture:
    """The same for the web console."""
    rows = _most_frequent(snapshot, _PAGE_ROWS)
    return Picture((demo_picture.Table(f"{OUTPUT_TOPIC}: the words", ("word", "count"), rows, bar="count"),))


def _most_frequent(snapshot: Snapshot, rows: int) -> list[tuple[str, int]]:
    return sorted(snapshot.counts.items(), key=lambda item: (-item[1], item[0]))[:rows]


def program() -> str:
    """Command that starts this program: its name if the shell finds it, else its path."""
    if shutil.which("headrace"):
        return "headrace"
    beside = Path(sys.executable).with_name("headrace")
    return os.path.relpath(beside) if beside.exists() else f"{sys.executable} -m headrace.cli"


def hints(bootstrap: str) -> Panel:
    text = f"{what_next(bootstrap)}\nCtrl-C here stops everything."
    return Panel(text, title="Type next, in another terminal", title_align="left")


def what_next(bootstrap: str) -> str:
    serializers = "org.apache.kafka.common.serialization"
    return (
        f"bin/kafka-console-producer.sh --broker-list {bootstrap} --topic {INPUT_TOPIC}\n"
        f"bin/kafka-console-consumer.sh --bootstrap-server {bootstrap} --topic {OUTPUT_TOPIC} --from-beginning \\\n"
        "    --property print.key=true --property print.value=true \\\n"
        f"    --property key.deserializer={serializers}.StringDeserializer \\\n"
        f"    --property value.deserializer={serializers}.LongDeserializer\n"
        f"bin/kafka-consumer-groups.sh --bootstrap-server {bootstrap} --describe --group wordcount.counts\n"
        f"{program()} pipeline status --bootstrap {bootstrap} --watch"
    )


def print_plain(console: Console, snapshot: Snapshot) -> None:
    top = _most_frequent(snapshot, 10)
    console.print("  ".join(f"{word} {count}" for word, count in top), highlight=False)

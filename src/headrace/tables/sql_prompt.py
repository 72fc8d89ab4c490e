"""The interactive prompt of `headrace sql`: history, and completion of topics, columns and words of SQL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.tables.sql_session import SqlSession

_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "DESC", "JOIN", "USING", "HAVING", "WITH", "AS",
    "AND", "OR", "NOT", "IN", "BETWEEN", "INTERVAL", "count(*)", "avg(", "sum(", "min(", "max(", "now()",
)  # fmt: skip
_HISTORY_LINES: Final = 1000
_HELP: Final = """A statement ends with a semicolon. Topics are relations; their columns are
key, value, headers, topic, partition, "offset" and timestamp.
  \\d    list the topics        \\q    leave (also Ctrl-D)        Ctrl-C    forget the statement"""


def history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "headrace" / "sql_history"


def completions(session: SqlSession, text: str) -> list[str]:
    """What may follow at the prompt in place of the word `text`."""
    names = [name if re.fullmatch(r"[A-Za-z_]\w*", name) else f'"{name}"' for name in session.topic_names()]
    columns = ['"offset"' if name == "offset" else name for name in session.columns]
    lower = text.lower().lstrip('"')
    return [name for name in (*names, *columns, *_WORDS) if name.lower().lstrip('"').startswith(lower)]


def _install(session: SqlSession) -> Callable[[], None]:
    """Sets up the line editor. Returns the function that saves the history."""
    try:
        import readline
    except ImportError:  # some builds of Python lack it: the prompt works without history
        return lambda: None
    file = history_file()
    if file.exists():
        readline.read_history_file(file)

    def complete(text: str, number: int) -> str | None:
        return dict(enumerate(completions(session, text))).get(number)

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>;.")
    readline.parse_and_bind("tab: complete")

    def save() -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        readline.set_history_length(_HISTORY_LINES)
        readline.write_history_file(file)

    return save


def prompt(session: SqlSession, run: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Reads statements until the user leaves. `run` executes one text of statements and reports its errors."""
    save = _install(session)
    say(f"headrace sql on {session.cluster.bootstrap}: \\? for help")
    text = ""
    try:
        while True:
            try:
                line = input("   ...> " if text else "headrace> ")
            except EOFError:
                return
            except KeyboardInterrupt:
                text = ""
                say("")
                continue
            match line.strip():
                case "\\q" | "exit" | "quit" if not text:
                    return
                case "\\?" | "help" if not text:
                    say(_HELP)
                case "\\d" if not text:
                    say("\n".join(session.topic_names()))
                case _:
                    text = f"{text}\n{line}" if text else line
                    if text.rstrip().endswith(";"):
                        run(text)
                        text = ""
    finally:
        save()

"""The interactive prompt of `headrace sql`: history, and completion of topics, columns and words of SQL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.tables.sql_session import HISTORY, LIVE, SqlSession

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


class Completer:
    """What may stand in place of a word: topics, columns of the topics that the statement names, and words of SQL."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        # Columns of a topic. Its schema may come from a registry, which is not asked for every key press.
        self._columns: dict[str, list[str]] = {}

    def completions(self, statement: str, word: str) -> list[str]:
        """`statement` is its text up to the word."""
        topics = self._session.topic_names()
        words = set(re.findall(r"[\w.-]*[\w-]", statement.lower()))
        # `orders.live` and `o.id` are a relation and a part of it; a name of a topic may also have dots.
        words |= {word.rpartition(".")[0] for word in words}
        named = [name for name in topics if name.lower() in words]
        columns = [column for name in named for column in self._columns_of(name)]
        if not named:  # before FROM: columns of the statements so far
            columns = [*self._session.columns, *(column for of in self._columns.values() for column in of)]
        after_dot = statement.endswith(".")
        names = (LIVE, HISTORY) if after_dot else map(_quoted_if_needed, topics)
        found = (*names, *map(_quoted_if_needed, columns), *(() if after_dot else _WORDS))
        begin = word.lower().lstrip('"')
        return [name for name in dict.fromkeys(found) if name.lower().lstrip('"').startswith(begin)]

    def _columns_of(self, topic: str) -> list[str]:
        if topic not in self._columns:
            self._columns[topic] = self._session.columns_of(topic)
        return self._columns[topic]


def _quoted_if_needed(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) and name != "offset" else f'"{name}"'


def _install(session: SqlSession, lines_before: Callable[[], str]) -> Callable[[], None]:
    """Sets up the line editor. Returns the function that saves the history. `lines_before`: the lines of the statement
    before the one that the user edits."""
    try:
        import readline
    except ImportError:  # some builds of Python lack it: the prompt works without history
        return lambda: None
    file = history_file()
    if file.exists():
        readline.read_history_file(file)
    completer = Completer(session)

    def complete(word: str, number: int) -> str | None:
        statement = f"{lines_before()}\n{readline.get_line_buffer()[: readline.get_begidx()]}"
        return dict(enumerate(completer.completions(statement, word))).get(number)

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
    text = ""
    save = _install(session, lambda: text)
    say(f"headrace sql on {session.cluster.bootstrap}: \\? for help")
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

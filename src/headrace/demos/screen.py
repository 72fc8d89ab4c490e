"""The live screen of a demo: a headline and the largest picture that fits the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from headrace.demos.picture import Cell, Picture
from headrace.demos.picture_text import rendered

_MOST_ROWS: Final = 20
_FEWEST_ROWS: Final = 2
_STATES: Final = {
    "equal": "[green]the results equal a computation in plain Python[/green]",
    "different": "[red]the results differ from a computation in plain Python[/red]",
}


class Screen:
    def __init__(self, console: Console, demo: str, bootstrap: str) -> None:
        self._console, self._demo, self._bootstrap = console, demo, bootstrap
        self._rows = _MOST_ROWS

    def drawn(self, facts: Mapping[str, Cell], state: str, picture: Callable[[int], Picture]) -> RenderableType:
        """`picture` draws tables with so many rows. A smaller terminal gets fewer rows and no panel less."""
        head, lines = [self._headline(facts)], self._console.height
        if state in _STATES:
            head.append(Text.from_markup(_STATES[state]))
        rows = min(_MOST_ROWS, self._rows + 1)
        while True:
            screen = Group(*head, rendered(picture(rows), lines))
            if rows == _FEWEST_ROWS or len(self._console.render_lines(screen)) < lines:
                self._rows = rows
                return screen
            rows -= 1

    def _headline(self, facts: Mapping[str, Cell]) -> Text:
        """A pipeline has no lag before its first batch, which takes Spark some seconds."""
        told = "  ".join(
            "[dim]first batch of Spark …[/dim]" if value is None else f"{name} [b]{value:,}[/b]"
            for name, value in facts.items()
        )
        return Text.from_markup(f"[b]{self._demo}[/b]  broker [b]{self._bootstrap}[/b]  {told}  Ctrl-C stops")

"""The page before a change: what it does, and a button. Some changes ask for a name, a number or a checked box."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.console.rendering import View


def confirmation(
    title: str,
    consequences: Sequence[str],
    *,
    section: str,
    action: str,
    back: str,
    label: str,
    dangerous: bool = True,
    typed: str = "",
    box: str = "",
    number: tuple[str, str, int] | None = None,
    error: str = "",
) -> View:
    """`action` and `back` are addresses. `typed`: a text that the person types. `box`: the label of a box that the
    person checks (field `internal`). `number`: name and label of a field, and the smallest value."""
    data = {
        "consequences": consequences, "action": action, "back": back, "label": label, "dangerous": dangerous,
        "typed": typed, "box": box, "number": number, "error": error,
    }  # fmt: skip
    return View("confirmation.html", title, data, 422 if error else 200, section)

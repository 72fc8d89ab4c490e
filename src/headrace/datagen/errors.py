"""What is wrong in a plan, and where."""

from __future__ import annotations


class BadPlan(ValueError):
    """The message names the place in the plan, the value, and what is allowed."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)

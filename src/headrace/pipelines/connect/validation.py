"""The answer to `PUT /connector-plugins/{class}/config/validate`: one entry per setting, with its errors.

Tools show the errors beside the fields of a form. What names no setting is an error of `connector.class`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.kernel.json_values import JsonObject
from headrace.pipelines.connect.connect_config import Missing
from headrace.pipelines.errors import PipelineError


def validated(
    class_name: str, config: Mapping[str, str], check: Callable[[str, Mapping[str, str]], None]
) -> JsonObject:
    problems: list[str] = []
    given = {key: value for key, value in config.items() if key != "name"}
    if not config.get("name"):
        problems.append("name is missing")
    try:
        check(config.get("name") or "unnamed", given)
    except Missing as missing:
        problems += missing.sentences
    except PipelineError as error:
        problems.append(str(error))
    names = ["name", *given]
    errors: dict[str, list[str]] = {name: [] for name in names}
    for problem in problems:
        place = next((name for name in names if name in problem.replace(":", " ").replace("=", " ").split()), None)
        missing_name = problem.removesuffix(" is missing") if problem.endswith(" is missing") else None
        if place is None and missing_name and " " not in missing_name:
            place = missing_name
        errors.setdefault(place or "connector.class", []).append(problem)
    return {
        "name": class_name,
        "error_count": sum(1 for found in errors.values() if found),
        "groups": ["Common"],
        "configs": [_entry(name, config.get(name), found) for name, found in errors.items()],
    }


def _entry(name: str, value: str | None, errors: list[str]) -> JsonObject:
    return {
        "definition": {
            "name": name,
            "type": "PASSWORD" if "password" in name else "STRING",
            "required": name in ("name", "connector.class"),
            "default_value": None,
            "importance": "HIGH",
            "documentation": "",
            "group": "Common",
            "order_in_group": 1,
            "width": "MEDIUM",
            "display_name": name,
            "dependents": [],
        },
        "value": {"name": name, "value": value, "recommended_values": [], "errors": [*errors], "visible": True},
    }

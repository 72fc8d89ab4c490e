"""Writes the table of COMPATIBILITY.md: each API that a broker of Apache Kafka 4.3 advertises, and what is served here.

    python -m headrace.handlers.dispatch.compatibility             writes the page
    python -m headrace.handlers.dispatch.compatibility --check     says whether it is up to date, for `make check`

Versions come from the handlers themselves, so the page lists only what is served. The text around the table is
written by hand: the gaps, worst first.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path
from typing import Final

import headrace.handlers
from headrace.handlers.dispatch.handler import Handler
from headrace.wire.apis import api_name

PAGE: Final = Path(__file__).resolve().parents[4] / "COMPATIBILITY.md"
_BEGIN: Final = "<!-- generated from the handlers: `make docs` writes it again -->"
_END: Final = "<!-- end of the generated part -->"

# Lowest and highest version by API key, from the ApiVersions answer of Apache Kafka 4.3.0 with default settings.
_ADVERTISED: Final = """
0:0-13 1:4-18 2:1-11 3:0-13 8:2-10 9:1-10 10:0-6 11:0-9 12:0-4 13:0-5 14:0-5 15:0-6 16:0-5 17:0-1 18:0-4 19:2-7
20:1-6 21:0-2 22:0-5 23:2-4 24:0-5 25:0-4 26:0-5 27:1-2 28:0-5 29:1-3 30:1-3 31:1-3 32:1-4 33:0-2 34:1-2 35:1-5
36:0-2 37:0-3 38:1-3 39:1-2 40:1-2 41:1-3 42:0-2 43:0-2 44:0-1 45:0-1 46:0-0 47:0-0 48:0-1 49:0-1 50:0-0 51:0-0
55:0-2 57:0-2 60:0-2 61:0-0 64:0-0 65:0-0 66:0-2 68:0-1 69:0-1 74:0-1 75:0-0 76:1-1 77:1-1 78:1-2 79:1-2 80:0-1
81:0-0 83:0-0 84:0-0 85:0-1 86:0-0 87:0-1 88:0-0 89:0-0 90:0-1 91:0-0 92:0-0
"""
KAFKA_4_3: Final = {
    int(key): (int(low), int(high))
    for key, low, high in (word.replace(":", "-").split("-") for word in _ADVERTISED.split())
}

_RAFT: Final = "no Raft quorum: brokers elect the controller through the coordination store"
_WHY_NOT: Final = dict.fromkeys((80, 81), _RAFT)
# Kafka advertises these only with a telemetry plug-in, Headrace with `client.telemetry.enable`.
TELEMETRY: Final = (71, 72)
_NOTES: Final = {
    0: "v0–2 close the connection, as in Kafka; advertised because old clients choose the compression by it",
    55: "names the controller, as there is no Raft quorum; a leader returns the progress of its partitions' replicas",
}


def served() -> dict[int, type[Handler]]:
    """Every handler class, by API key."""
    found: dict[int, type[Handler]] = {}
    for module_info in pkgutil.walk_packages(headrace.handlers.__path__, "headrace.handlers."):
        module = importlib.import_module(module_info.name)
        for _, one in inspect.getmembers(module, inspect.isclass):
            if one.__module__ == module.__name__ and issubclass(one, Handler) and hasattr(one, "api_key"):
                key = int(one.api_key)
                assert key not in found, f"{api_name(key)} has two handlers"
                found[key] = one
    return found


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _name(api_key: int) -> str:
    return "".join(word.capitalize() for word in api_name(api_key).split("_"))


def table() -> str:
    handlers = served()
    lines = ["| key | API | Kafka 4.3 | Headrace | |", "|---|---|---|---|---|"]
    for key, (low, high) in KAFKA_4_3.items():
        handler = handlers.get(key)
        note = _NOTES.get(key, "")
        if handler is None:
            ours, note = "–", _WHY_NOT[key]
        else:
            lowest = handler.versions.start if handler.advertised_from is None else handler.advertised_from
            ours = _range(lowest, handler.versions.stop - 1)
            if ours != _range(low, high) and not note:
                note = "other versions than Kafka's"
        lines.append(f"| {key} | {_name(key)} | {_range(low, high)} | {ours} | {note} |")
    inner = [
        f"{_name(key)} ({key}) {_range(handler.versions.start, handler.versions.stop - 1)}"
        for key, handler in sorted(handlers.items())
        if key not in KAFKA_4_3 and key not in TELEMETRY
    ]
    offered = ", ".join(f"{_name(key)} ({key}) 0" for key in TELEMETRY)
    lines += ["", f"Served and advertised only with `client.telemetry.enable`: {offered}."]
    lines += ["", f"Brokers send these to each other and do not advertise them: {', '.join(inner)}."]
    return "\n".join(lines)


def page(current: str) -> str:
    before, begin, rest = current.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has lost the marks of its generated part: {_BEGIN} and {_END}")
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{after}"


def main(arguments: list[str]) -> int:
    current = PAGE.read_text()
    wanted = page(current)
    if "--check" in arguments:
        if current != wanted:
            print(f"{PAGE.name} is out of date: run `make docs`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Command-line options in Kafka's style: `--name value`, `--name=value`, repeated options, unique prefixes.

argparse is not used because Kafka's tools differ from it in ways that scripts notice: an option value may start with a
dash; a usage error exits with 1 and prints the message before the option table; abbreviations are accepted.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


class UsageError(Exception):
    """Wrong usage. The tool prints the message and the option table."""


class HelpWanted(Exception):
    """`--help` was given."""


class VersionWanted(Exception):
    """`--version` was given."""


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    help: str
    value: str | None = None  # name of the value in the help table; None makes it a switch
    kind: Callable[[str], object] = str
    repeated: bool = False
    required: bool = False
    default: object = None
    also: tuple[str, ...] = ()  # older spellings


def natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


@dataclass(slots=True)
class Arguments:
    """Parsed arguments. Switches are booleans, repeated options are lists."""

    values: dict[str, object]
    rest: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:  # of the type that its option declares
        return self.values.get(name)

    def given(self, name: str) -> bool:
        # By identity, because a given 0 equals False.
        value = self.values.get(name)
        return value is not None and value is not False and value != []

    def exactly_one(self, *names: str) -> str:
        chosen = [name for name in names if self.given(name)]
        if len(chosen) != 1:
            listed = ", ".join(f"--{name}" for name in names[:-1]) + f" or --{names[-1]}" * (len(names) > 1)
            listed = listed or f"--{names[0]}."
            raise UsageError(f"Command must include exactly one action: {listed}")
        return chosen[0]

    def require(self, *names: str) -> None:
        for name in names:
            if not self.given(name):
                raise UsageError(f'Missing required argument "[{name}]"')

    def refuse(self, with_option: str, *names: str) -> None:
        """Raises UsageError if one of `names` is used together with `with_option`."""
        for name in names:
            if self.given(name):
                raise UsageError(f'Option "[{with_option}]" can\'t be used with option "[{name}]"')


def parse(options: Sequence[Option], argv: Sequence[str], *, allow_rest: bool = False) -> Arguments:
    by_name = {name: option for option in options for name in (option.name, *option.also)}
    values: dict[str, object] = {
        o.name: [] if o.repeated else (False if o.value is None else o.default) for o in options
    }
    rest: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += words
            break
        if not word.startswith("--"):
            rest.append(word)
            continue
        name, equals, inline = word[2:].partition("=")
        if name == "help":
            raise HelpWanted
        if name == "version":
            raise VersionWanted
        option = _option_named(name, by_name)
        if option.value is None:
            if equals:
                raise UsageError(f"Option {option.name} does not take a value, but {inline!r} was given")
            values[option.name] = True
            continue
        if not equals:
            if not words:
                raise UsageError(f"Option {option.name} requires an argument")
            inline = words.pop(0)
        _take(values, option, inline)
    if rest and not allow_rest:
        raise UsageError(f"{rest[0]!r} is not an option: options start with --")
    arguments = Arguments(values, rest)
    arguments.require(*(option.name for option in options if option.required))
    return arguments


def _option_named(name: str, by_name: dict[str, Option]) -> Option:
    if name in by_name:
        return by_name[name]
    similar = {by_name[known].name: by_name[known] for known in by_name if known.startswith(name)}
    if len(similar) == 1:
        return next(iter(similar.values()))
    raise UsageError(f"{name} is not a recognized option")


def _take(values: dict[str, object], option: Option, text: str) -> None:
    try:
        value = option.kind(text)
    except ValueError as error:
        kind = "a number" if option.kind in (int, natural, float) else option.value
        raise UsageError(f"Cannot parse argument '{text}' of option {option.name}: must be {kind}") from error
    found = values[option.name]
    if isinstance(found, list):
        found.append(value)
    elif values[option.name] not in (None, option.default):
        raise UsageError(f"Found multiple arguments for option {option.name}, but you asked for only one")
    else:
        values[option.name] = value


def help_table(options: Iterable[Option]) -> str:
    """The options in two columns, required ones marked, in the width of the terminal."""
    width = max(80, min(shutil.get_terminal_size((100, 24)).columns, 120))
    left = 42
    lines = [f"{'Option':<{left}}Description", f"{'------':<{left}}-----------"]
    for option in sorted(options, key=lambda o: o.name):
        head = f"--{option.name}" + (f" <{option.value}>" if option.value else "")
        about = ("REQUIRED: " if option.required else "") + option.help
        if option.default is not None:
            about += f" (default: {option.default})"
        if option.also:
            about += f" (also: {', '.join('--' + name for name in option.also)})"
        wrapped = textwrap.wrap(about, width - left) or [""]
        if len(head) >= left:
            lines.append(head)
            head = ""
        lines.append(f"{head:<{left}}{wrapped[0]}")
        lines += [" " * left + line for line in wrapped[1:]]
    return "\n".join(lines)


def properties(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` pairs of a repeated option. A name alone means an empty value, as in Kafka's tools."""
    found = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name:
            raise UsageError(f"--{option} {pair!r}: must be name=value")
        found[name] = value
    return found

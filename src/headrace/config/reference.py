"""Writes docs/reference/configuration.md from the declarations.

python -m headrace.config.reference            write the page
python -m headrace.config.reference --check    exit 1 if the page is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.config.aliases import BROKER_ALIASES, CLIENT_ALIASES, TOPIC_ALIASES
from headrace.config.effect import Outcome
from headrace.config.key import DOUBLE_MAX, INT_MAX, LONG_MAX, Key, Update, format_value
from headrace.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, SUBJECTS, TOPIC_KEYS

PAGE = Path("docs/reference/configuration.md")

_HEAD = """# Configuration

<!-- Written by `python -m headrace.config.reference`; edit the declarations in src/headrace/config/keys instead. -->

Names, types and defaults equal those of Apache Kafka 4.3. If a key differs, its text says how.

The broker looks for a value in this order and uses the first one:

1. the topic (or group): set with `kafka-configs.sh --entity-type topics`, or at its creation;
2. this broker: set while it runs (`--entity-type brokers --entity-name ID`);
3. all brokers: set while they run (`--entity-type brokers --entity-default`);
4. `server.properties`; `--set key=value` overrides it;
5. the default.

*Changes*: the broker reads `read-only` keys at its start. You can change `per-broker` keys for one running broker, and
`cluster-wide` keys for one or all running brokers. For an unknown key the broker logs a warning that names the nearest
key. A wrong value stops the start with a message that names the key, the value and the rule.

*Effect* says what the broker does with a value other than the default:

- *honoured*: the broker uses the value;
- *none*: the broker accepts and shows the value, but it changes nothing; the reason follows;
- *warning*: the broker starts, and its log names the key and the setting that decides instead;
- *refused*: the broker does not start, and a running broker rejects the change. The broker always refuses settings that
  ask for protection which it does not give, also for a single listener (`listener.name.NAME.KEY`) and misspelled.

This page has every key of Apache Kafka 4.3.0, and the keys of 3.9 that 4.3 no longer has. A key that Kafka 4.3 does not
have says so.
"""

_SPELLINGS = """## Other spellings

Books and courses use these spellings. The broker accepts them.

| spelling | key | where |
|---|---|---|
"""


def page() -> str:
    parts = [_HEAD]
    for subject, keys in SUBJECTS.items():
        parts.append(f"## {subject}\n\n{''.join(_broker_lines(keys))}")
    parts.append(
        "## Topics\n\nSet these per topic. If a topic does not set a key, the first broker key that is set applies.\n\n"
        + "".join(_inheriting_lines(TOPIC_KEYS.values()))
    )
    parts.append(
        "## Groups\n\nSet these per group (`--entity-type groups`), within the limits of the broker.\n\n"
        + "".join(_inheriting_lines(GROUP_KEYS.values()))
    )
    parts.append(
        "## Client metrics subscriptions\n\nSet these per subscription (`kafka-client-metrics.sh`). The broker stores "
        "and shows subscriptions but requests no metrics, as Kafka does without a telemetry plug-in.\n\n"
        + "".join(_inheriting_lines(CLIENT_METRICS_KEYS.values()))
    )
    rows = [
        f"| `{written}` | `{key}` | {where} |\n"
        for where, table in (("broker", BROKER_ALIASES), ("topic", TOPIC_ALIASES), ("client", CLIENT_ALIASES))
        for written, key in table.items()
    ]
    parts.append(_SPELLINGS + "".join(rows))
    parts.append(_differences())
    return "\n".join(parts)


def _broker_lines(keys: Iterable[Key]) -> Iterator[str]:
    yield "| key | type | default | changes | effect | meaning |\n|---|---|---|---|---|---|\n"
    for key in keys:
        if not key.internal:
            changes = "while running only" if key.dynamic_only else key.update.value
            if key.static_only:
                changes = Update.READ_ONLY.value
            yield (
                f"| `{key.name}` | {key.type.name.lower()} | {_default(key)} | {changes} | {_effect(key)} "
                f"| {_meaning(key)} |\n"
            )


def _inheriting_lines(keys: Iterable[Key]) -> Iterator[str]:
    yield "| key | type | default | from the broker's | effect | meaning |\n|---|---|---|---|---|---|\n"
    for key in keys:
        if not key.internal:
            origin = ", ".join(f"`{synonym.name}`" for synonym in key.synonyms) or "–"
            yield (
                f"| `{key.name}` | {key.type.name.lower()} | {_default(key)} | {origin} | {_effect(key)} "
                f"| {_meaning(key)} |\n"
            )


_EFFECTS = {
    Outcome.HONOURED: "honoured",
    Outcome.HARMLESS: "none",
    Outcome.WARNED: "warning",
    Outcome.REFUSED: "refused",
}


def _effect(key: Key) -> str:
    word = _EFFECTS[key.effect.outcome]
    return f"{word}: {key.effect.why}" if key.effect.why else word


def _meaning(key: Key) -> str:
    words = [key.doc]
    if key.rule is not None:
        words.append(f"{key.rule.words[0].upper()}{key.rule.words[1:]}.")
    if key.difference:
        words.append(f"*{key.difference}*")
    if key.ours:
        words.append("*Not in Apache Kafka 4.3.*")
    return " ".join(words).replace("|", "\\|")


def _default(key: Key) -> str:
    if key.default in (LONG_MAX, INT_MAX, DOUBLE_MAX):
        return "no limit"
    text = format_value(key.type, key.default)
    return f"`{text}`" if text else "–"


def _differences() -> str:
    keys = (*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values())
    counts = {outcome: sum(key.effect.outcome is outcome for key in keys) for outcome in Outcome}
    lines = "".join(f"- `{key.name}`: {key.difference}\n" for key in keys if key.difference)
    dynamic = sum(key.update is not Update.READ_ONLY and not key.static_only for key in BROKER_KEYS.values())
    return (
        f"## Differences from Apache Kafka\n\n{len(BROKER_KEYS)} broker keys ({dynamic} of them can change while the "
        f"broker runs), {len(TOPIC_KEYS)} topic keys and {len(GROUP_KEYS)} group keys are declared. "
        f"{counts[Outcome.HONOURED]} are honoured, {counts[Outcome.HARMLESS]} have no effect, "
        f"{counts[Outcome.WARNED]} give a warning and {counts[Outcome.REFUSED]} are refused. "
        f"These behave differently from Kafka:\n\n{lines}"
    )


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" not in arguments:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE} is out of date: run python -m headrace.config.reference", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Regular expressions of subscriptions: a client that chooses expression and names gets neither memory nor time without
a bound."""

from __future__ import annotations

import asyncio
import random
import string
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.coordinators.group.core.consumer import regex
from headrace.coordinators.group.core.consumer.regex import MAX_VISITS, Regex
from headrace.coordinators.group.core.consumer.regex_syntax import (
    MAX_LENGTH,
    MAX_REPEAT,
    MAX_STATES,
    BadRegex,
    CharSet,
    Node,
    parse,
)
from headrace.handlers.transactions.list_transactions import ListTransactions
from headrace.kernel.errors import ErrorCode, Refused
from tests.support.group_driver import GroupDriver, image_of

LARGE_CLASS = "[\u0001-\ud7ff]"


def sets_of(node: Node) -> list[CharSet]:
    own = [] if node.chars is None else [node.chars]
    return own + [found for part in node.parts for found in sets_of(part)]


def random_names(count: int, length: int = 30) -> list[str]:
    chosen = random.Random(7)
    return ["".join(chosen.choices(string.ascii_lowercase, k=length)) for _ in range(count)]


def test_a_class_is_held_as_intervals_however_many_characters_it_has() -> None:
    sets = sets_of(parse(LARGE_CLASS * 100))
    assert [len(one.bounds) for one in sets] == [2] * 100
    assert Regex(LARGE_CLASS * 100).matches("a" * 100)
    assert not Regex(LARGE_CLASS * 100).matches("a" * 99 + "\ue000")
    assert len(sets_of(parse(f"[a{LARGE_CLASS[1:-1]}z\\w-]"))[0].bounds) == 2, "intervals that overlap are one"
    assert Regex("[\u0001-\U0010ffff]").matches("\U0001f600")


@pytest.mark.parametrize(
    ("text", "taken", "others"),
    [
        ("[a-c]", "abc", "`dA\n"),
        ("[^a-c]", "`dA\n", "abc"),
        ("[a-cb-ex]", "abcdex", "fwy"),
        (r"[\d_.-]", "09_.-", "/:a"),
        (r"\W", "-. \n\u00e9", "aZ09_"),
        ("(?i)[k-m]", "klmKLM", "jnJN"),
        ("(?i)[^k-m]", "jnJN", "klmKLM"),
        ("(?i)[\u00e0-\u00e9]", "\u00e0\u00c0\u00c9", "aA\u00df"),
    ],
)
def test_a_class_takes_its_characters(text: str, taken: str, others: str) -> None:
    compiled = Regex(text)
    assert [char for char in taken if not compiled.matches(char)] == []
    assert [char for char in others if compiled.matches(char)] == []


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        LARGE_CLASS * (MAX_LENGTH // len(LARGE_CLASS) + 1),
        "a" * MAX_STATES,
        "(" * 200 + "a" + ")" * 200,
        "(" * 2_000,
        "(a{2})" + "{2}" * 12,
        "(((a{99}){99}){99}){99}",
        "(a|b|c){1000}",
    ],
)
def test_an_expression_that_becomes_too_large_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(BadRegex) as refused:
        Regex(text)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("a" + "?" * 3_000, "a?"),
        ("a" + "+" * 3_000, "a+"),
        ("a" + "{1}" * 1_000, "a"),
        ("a?+", "a*"),
        ("a" + "|" * 3_000, "a|"),
        (f"(a{'()' * 1_000}){{900}}", "a{900}"),
        ("((((){1000}){1000}){1000}){1000}", ""),
        ("((a{0}|){1000}){1000}", ""),
    ],
)
def test_what_repeats_nothing_becomes_no_states(text: str, same_as: str) -> None:
    assert Regex(text).states == Regex(same_as).states
    for name in ("", "a", "aa", "b"):
        assert Regex(text).matches(name) == Regex(same_as).matches(name)


def test_groups_may_be_nested_ninety_nine_deep() -> None:
    text = "a"
    for _ in range(99):
        text = f"(?:b|{text}c)*"
    assert Regex(text).matches("bb" + "a" + "c" * 99) and not Regex(text).matches("bb" + "a" + "c" * 98)
    with pytest.raises(BadRegex, match="nested"):
        Regex(f"({text})")


def test_braces_that_are_no_repetition_are_text() -> None:
    assert Regex("a{1,\u00b2}").matches("a{1,\u00b2}")
    assert Regex("a{,3}").matches("a{,3}")
    with pytest.raises(BadRegex):
        Regex(f"a{{{MAX_REPEAT + 1}}}")


def test_many_alternatives_are_matched_against_ten_thousand_topics() -> None:
    names = random_names(10_000)
    some = names[:150]
    listed = Regex("|".join(some[:100]))
    assert [name for name in names if listed.matches(name)] == some[:100]
    anywhere = Regex(f".*({'|'.join(name[5:20] for name in some)}).*")
    assert [name for name in names if anywhere.matches(name)] == some


def test_an_expression_whose_states_differ_with_each_character_ends_with_an_error() -> None:
    branches = "|".join(f"[{char}-m].{{200}}" for char in "abcdefghijkl")
    hostile = Regex(f".*({branches})")
    with pytest.raises(BadRegex, match="too long"):
        for name in random_names(10_000, 249):
            hostile.matches(name)
    assert hostile._visits < MAX_VISITS + 2 * MAX_STATES
    assert hostile._remembered < 2 * regex._MAX_REMEMBERED


def test_a_new_member_with_an_expression_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = GroupDriver(image=image_of(**{"orders-eu": 1, "orders-us": 1}))
    monkeypatch.setattr(regex, "MAX_VISITS", 10)
    with pytest.raises(Refused) as refused:
        driver.beat("a", 0, topic_names=None, topic_regex="orders-.*")
    assert refused.value.code is ErrorCode.invalid_regular_expression


def test_an_expression_that_takes_too_long_for_more_topics_keeps_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = GroupDriver(image=image_of(**{"orders-eu": 1}))
    driver.beat("a", 0, topic_names=None, topic_regex="orders-.*")
    monkeypatch.setattr(regex, "MAX_VISITS", 10)
    driver.set_image(image_of(2, **{"orders-eu": 1, "orders-us": 1}))
    driver.beat("a", 2)
    assert driver.shard.consumer_group("g").regexes["orders-.*"].topics == {"orders-eu"}


def test_transactions_are_not_listed_by_a_pattern_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def transactions(wanted: Any) -> list[Any]:
        return list(wanted.matching([SimpleNamespace(transactional_id="orders-1")], 0))

    monkeypatch.setattr(regex, "MAX_VISITS", 10)
    handler = ListTransactions(cast("Any", SimpleNamespace(transactions=transactions)))
    request: Any = SimpleNamespace(
        producer_id_filters=(), state_filters=(), duration_filter=-1, transactional_id_pattern="orders-.*"
    )
    with pytest.raises(Refused) as refused:
        asyncio.run(cast("Any", handler.serve(request, cast("Any", None))))
    assert refused.value.code is ErrorCode.invalid_regular_expression

from __future__ import annotations

import pytest

from headrace.console.core.masking import MASKED, Mask, masked, masks_of


def test_a_masked_field_is_replaced_at_every_place_of_its_path() -> None:
    value = {"card": [{"number": "4111", "type": "x"}, {"number": {"deep": 1}}], "number": 7}
    found = masked(value, (Mask.parse("*:card.number"),))
    assert found == {"card": [{"number": MASKED, "type": "x"}, {"number": MASKED}], "number": 7}
    assert value["card"][0]["number"] == "4111"  # type: ignore[index]


def test_rules_apply_to_their_topics_only() -> None:
    rules = (Mask.parse("customers*:email"), Mask.parse("orders:*"))
    assert [rule.path for rule in masks_of(rules, "customers.eu")] == [("email",)]
    assert masked({"a": 1, "b": {"c": 2}}, masks_of(rules, "orders")) == {"a": MASKED, "b": MASKED}
    assert masks_of(rules, "Orders") == ()


@pytest.mark.parametrize("text", ["", "email", ":email", "orders:", "orders:a..b"])
def test_a_wrong_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="masking rule"):
        Mask.parse(text)


def test_a_value_that_is_no_object_where_the_rule_goes_on_is_replaced() -> None:
    rule = (Mask.parse("*:card.number"),)
    assert masked({"card": '{"number": "4111"}'}, rule) == {"card": MASKED}
    assert masked({"card": None, "n": 1}, rule) == {"card": None, "n": 1}
    assert masked(["4111", {"n": 1}], rule) == [MASKED, {"n": 1}]
    assert masked("4111", rule) == MASKED

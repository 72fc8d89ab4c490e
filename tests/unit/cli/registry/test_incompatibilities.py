"""What a person reads when a schema is not compatible."""

from __future__ import annotations

from headrace.cli.registry.incompatibilities import sentences
from headrace.registry.core.incompatibility import Incompatibility


def test_reasons_of_our_registry_are_sentences_with_a_way_out() -> None:
    reason = Incompatibility("TYPE_MISMATCH", "/fields/1", "the type of 'a' changed to 'string'", "keep 'int'")
    messages = [str(reason), "{oldSchemaVersion: 3}", '{oldSchema: \'{"type":"int"}\'}', "{compatibility: 'FULL'}"]
    assert list(sentences(messages)) == [
        "The type of 'a' changed to 'string' (at /fields/1). Way out: keep 'int'.",
        "Compared with version 3.",
    ]


def test_reasons_of_another_registry_are_shown_too() -> None:
    theirs = "{errorType:'MISSING_UNION_BRANCH', description:'a branch is missing', additionalInfo:'string'}"
    assert list(sentences([theirs, "something else"])) == ["A branch is missing.", "something else"]

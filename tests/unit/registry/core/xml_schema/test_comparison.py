"""XML Schema compatibility: the rules one by one, and random schemas against the documents that they accept."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest
from xmlschema.validators import XsdGroup

from headrace.registry.core.errors import InvalidSchema
from headrace.registry.core.xml_schema.content_model import NOTHING, accepts_empty, after, missing
from headrace.registry.core.xml_schema.model_building import model_of, names_of
from headrace.registry.core.xml_schema.parsed import ParsedXml
from tests.support.effort import rounds

HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:shop" targetNamespace="urn:shop">'
ID = '<xs:element name="id" type="xs:int"/>'


def schema(body: str, references: dict[str, str] | None = None) -> ParsedXml:
    return ParsedXml.parse(f"{HEAD}{body}</xs:schema>", references or {})


def order(children: str, attributes: str = "", more: str = "") -> str:
    content = f"<xs:complexType><xs:sequence>{children}</xs:sequence>{attributes}</xs:complexType>"
    return f'<xs:element name="order">{content}</xs:element>{more}'


def kinds(old: str, new: str) -> set[str]:
    return {each.kind for each in schema(new).incompatibilities(schema(old), lenient=False)}


def typed(facets: str, base: str = "xs:string") -> str:
    restriction = f'<xs:restriction base="{base}">{facets}</xs:restriction>'
    return f'<xs:element name="order"><xs:simpleType>{restriction}</xs:simpleType></xs:element>'


def values(*names: str) -> str:
    return "".join(f'<xs:enumeration value="{name}"/>' for name in names)


def item(occurs: str, kind: str = "xs:string") -> str:
    return f'<xs:element name="item" type="{kind}" {occurs}/>'


NOTE = '<xs:element name="note" type="xs:string" minOccurs="0"/>'
ANY = '<xs:any minOccurs="0" maxOccurs="unbounded" processContents="lax"/>'


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (order(ID), order(ID), set()),
        (order(ID), order(ID + NOTE), set()),
        (order(ID + NOTE), order(ID), {"ELEMENT_REMOVED"}),
        (order(ID), order(ID + item("")), {"REQUIRED_ELEMENT_ADDED"}),
        (order(ID + item('maxOccurs="2"')), order(ID + item('maxOccurs="unbounded"')), set()),
        (order(ID + item('maxOccurs="unbounded"')), order(ID + item('maxOccurs="2"')), {"OCCURRENCE_NARROWED"}),
        (order(ID + item('minOccurs="2" maxOccurs="2"')), order(ID + item('minOccurs="0" maxOccurs="5"')), set()),
        (order(ID + item('minOccurs="0"')), order(ID + item("")), {"REQUIRED_ELEMENT_ADDED"}),
        (order(ID + NOTE), order(NOTE + ID), {"OCCURRENCE_NARROWED"}),
        (order(ID + NOTE), order(ID + ANY), set()),
        (order(ID + ANY), order(ID + NOTE), {"ELEMENT_REMOVED"}),
        (order(f"<xs:choice>{ID}{NOTE}</xs:choice>"), order(f'<xs:choice maxOccurs="3">{ID}{NOTE}</xs:choice>'), set()),
        (order(ID), order(ID.replace("xs:int", "xs:long")), set()),
        (order(ID), order(ID.replace("xs:int", "xs:short")), {"TYPE_CHANGED"}),
        (order(ID), order(ID.replace("xs:int", "xs:double")), set()),
        (order(ID), order(ID.replace("xs:int", "xs:string")), set()),
        (order(ID.replace("xs:int", "xs:string")), order(ID), {"TYPE_CHANGED"}),
        (order(ID.replace("/>", ' nillable="true"/>')), order(ID), {"NILLABLE_REMOVED"}),
        (order(ID), order(ID.replace("/>", ' fixed="1"/>')), {"FIXED_VALUE_CHANGED"}),
        (order(ID), order(ID, '<xs:attribute name="a" type="xs:int"/>'), set()),
        (order(ID), order(ID, '<xs:attribute name="a" use="required"/>'), {"REQUIRED_ATTRIBUTE_ADDED"}),
        (order(ID, '<xs:attribute name="a"/>'), order(ID), {"ATTRIBUTE_REMOVED"}),
        (order(ID, '<xs:attribute name="a"/>'), order(ID, "<xs:anyAttribute/>"), set()),
        (order(ID, "<xs:anyAttribute/>"), order(ID), {"ANY_ATTRIBUTE_NARROWED"}),
        (
            order(ID, '<xs:attribute name="a"/>'),
            order(ID, '<xs:attribute name="a" use="required"/>'),
            {"ATTRIBUTE_REQUIRED"},
        ),
        (order(ID), order(ID).replace('name="order"', 'name="purchase"'), {"ELEMENT_REMOVED"}),
        (order(ID), order(ID, more='<xs:element name="other" type="xs:int"/>'), set()),
        (order(ID).replace("<xs:complexType>", '<xs:complexType mixed="true">'), order(ID), {"MIXED_REMOVED"}),
        (order(ID, '<xs:assert test="id > 0"/>'), order(ID), set()),
        (order(ID), order(ID, '<xs:assert test="id > 0"/>'), {"ASSERTION_ADDED"}),
        (typed(values("a", "b")), typed(values("a", "b", "c")), set()),
        (typed(values("a", "b")), typed(values("a")), {"VALUE_REMOVED"}),
        (typed(values("a", "b")), typed('<xs:pattern value="[a-z]"/>'), set()),
        (typed(""), typed(values("a")), {"ENUMERATION_ADDED"}),
        (typed('<xs:maxLength value="3"/>'), typed('<xs:maxLength value="5"/>'), set()),
        (typed('<xs:maxLength value="5"/>'), typed('<xs:maxLength value="3"/>'), {"LONGEST_LENGTH_NARROWED"}),
        (typed('<xs:pattern value="a+"/>'), typed(""), set()),
        (typed(""), typed('<xs:pattern value="a+"/>'), {"PATTERN_CHANGED"}),
        (typed('<xs:minInclusive value="0"/>', "xs:int"), typed('<xs:minInclusive value="-1"/>', "xs:int"), set()),
        (
            typed('<xs:minInclusive value="0"/>', "xs:int"),
            typed('<xs:minExclusive value="0"/>', "xs:int"),
            {"MINIMUM_NARROWED"},
        ),
        (
            typed('<xs:minInclusive value="0"/><xs:maxInclusive value="9"/>', "xs:integer"),
            '<xs:element name="order" type="xs:byte"/>',
            set(),
        ),
    ],
)
def test_rule(old: str, new: str, refused: set[str]) -> None:
    assert kinds(old, new) == refused


def test_a_refusal_names_the_place_and_the_way_out() -> None:
    (found,) = schema(order(ID + item(""))).incompatibilities(schema(order(ID)), lenient=False)
    assert str(found) == (
        "{errorType:'REQUIRED_ELEMENT_ADDED', description:'after id the element may end in old documents, and item "
        "must follow now', path:'/order', fix:'give item minOccurs='0''}"
    )


def test_recursive_types_are_compared() -> None:
    part = '<xs:sequence><xs:element name="part" type="Part" minOccurs="0"/></xs:sequence>'

    def tree(attribute: str) -> str:
        return f'<xs:element name="root" type="Part"/><xs:complexType name="Part">{part}{attribute}</xs:complexType>'

    assert kinds(tree(""), tree('<xs:attribute name="a"/>')) == set()
    assert kinds(tree('<xs:attribute name="a"/>'), tree("")) == {"ATTRIBUTE_REMOVED"}


def test_elements_that_substitute_another_count() -> None:
    head = '<xs:element name="thing" type="xs:string"/>'
    book = '<xs:element name="book" type="xs:string" substitutionGroup="thing"/>'
    root = order('<xs:element ref="thing"/>')
    assert kinds(root + head, root + head + book) == set()
    assert "ELEMENT_REMOVED" in kinds(root + head + book, root + head)


def test_text_is_canonical_and_keeps_the_prefixes_of_values() -> None:
    spread = """<?xml version="1.0" encoding="ISO-8859-1"?>
        <!-- orders -->
        <xs:schema targetNamespace='urn:shop' xmlns="urn:shop" xmlns:xs="http://www.w3.org/2001/XMLSchema">
          <xs:element type="Kind" name="kind"></xs:element>
          <xs:simpleType name="Kind"><xs:annotation><xs:documentation> a &amp; b </xs:documentation></xs:annotation>
            <xs:restriction base="xs:string"/></xs:simpleType>
        </xs:schema>"""
    parsed = ParsedXml.parse(spread, {})
    documented = "<xs:annotation><xs:documentation>a &amp; b</xs:documentation></xs:annotation>"
    kind = f'<xs:simpleType name="Kind">{documented}<xs:restriction base="xs:string"/></xs:simpleType></xs:schema>'
    expected = (
        '<xs:schema xmlns="urn:shop" xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:shop">'
        f'<xs:element name="kind" type="Kind"/>{kind}'
    )
    assert parsed.canonical() == expected
    assert ParsedXml.parse(expected, {}).canonical() == expected
    assert parsed.normalized() == expected.replace(documented, "")


def test_references_stand_for_included_and_imported_files() -> None:
    shared = f'{HEAD}<xs:complexType name="Item"><xs:sequence>{ID}</xs:sequence></xs:complexType></xs:schema>'
    included = schema(
        '<xs:include schemaLocation="item.xsd"/><xs:element name="order" type="Item"/>', {"item.xsd": shared}
    )
    other = shared.replace("urn:shop", "urn:item")
    for location, name in (('schemaLocation="item.xsd"', "item.xsd"), ("", "urn:item")):
        imported = schema(
            f'<xs:import namespace="urn:item" {location}/><xs:element name="order" xmlns:i="urn:item" type="i:Item"/>',
            {name: other},
        )
        assert imported.incompatibilities(imported, lenient=False) == []
    assert included.incompatibilities(schema(order(ID)), lenient=False) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<xs:schema", "unclosed token: line 1, column 0"),
        ("<a/>", "its root is 'a' and must be 'schema'"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "document type"),
        (
            f'{HEAD}<xs:element name="a" type="Unknown"/></xs:schema>',
            "at /xs:schema/xs:element: unknown type 'Unknown'",
        ),
        (
            f'{HEAD}<xs:include schemaLocation="file:///etc/passwd"/></xs:schema>',
            "file:///etc/passwd', which is unknown",
        ),
        (f'{HEAD}<xs:import namespace="urn:x" schemaLocation="http://h/x.xsd"/></xs:schema>', "add a reference"),
        ("<a>" * 1000, "nests more than 200 levels"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidSchema) as raised:
        ParsedXml.parse(text, {})
    assert says in raised.value.message


def random_group(chance: random.Random, depth: int, names: list[str]) -> str:
    """Each name is used once, and elements of inner groups occur exactly once: xmlschema, which judges here, does not
    try all ways to match or count the same element."""
    parts = []
    for _ in range(min(len(names), chance.randint(1, 2))):
        least = chance.choice((0, 1, 1, 2)) if depth else 1
        most = chance.choice((str(max(1, least)), str(least + 1), "unbounded")) if depth else "1"
        occurs = f'minOccurs="{least}" maxOccurs="{most}"'
        if depth and chance.random() < 0.4:
            kind = chance.choice(("sequence", "choice"))
            parts.append(f"<xs:{kind} {occurs}>{random_group(chance, depth - 1, names)}</xs:{kind}>")
        else:
            parts.append(f'<xs:element name="{names.pop()}" type="xs:string" {occurs}/>')
    return "".join(parts)


def random_model(chance: random.Random, names: list[str]) -> ParsedXml:
    return schema(order(random_group(chance, 1, list(names))))


def document(names: tuple[str, ...]) -> str:
    children = "".join(f'<{name} xmlns=""/>' for name in names)
    return f'<order xmlns="urn:shop">{children}</order>'


def group_of(each: ParsedXml) -> XsdGroup:
    content = getattr(each.schema.elements["order"].type, "content", None)
    assert isinstance(content, XsdGroup)
    return content


def broken_document(old: ParsedXml, new: ParsedXml) -> str:
    """The shortest document that begins as the comparison says that it breaks."""
    groups = [group_of(old), group_of(new)]
    names = names_of(*groups)
    witness = missing(model_of(groups[0], names), model_of(groups[1], names), names)
    assert witness is not None
    children = [*witness.before, *([] if witness.name is None else [witness.name])]
    model = model_of(groups[0], names)
    for name in children:
        model = after(model, name)
    waiting = deque([(model, children)])
    while not accepts_empty(waiting[0][0]):
        model, children = waiting.popleft()
        waiting.extend((after(model, name), [*children, name]) for name in "abc" if after(model, name) != NOTHING)
    return document(tuple(waiting[0][1]))


def test_random_models_are_compatible_exactly_if_all_old_documents_are_valid() -> None:
    chance = random.Random(3)
    verdicts = {True: 0, False: 0}
    for _ in range(rounds(short=40, long=1000)):
        names = chance.sample("abc", 3)
        old, new = random_model(chance, names), random_model(chance, names)
        verdict = not new.incompatibilities(old, lenient=False)
        if verdict:
            broken = [text for text in DOCUMENTS if old.schema.is_valid(text) and not new.schema.is_valid(text)]
            assert not broken, (old.canonical(), new.canonical(), broken[0])
        else:
            text = broken_document(old, new)
            assert old.schema.is_valid(text), (old.canonical(), text)
            assert not new.schema.is_valid(text), (new.canonical(), text)
        assert not old.incompatibilities(old, lenient=False)
        verdicts[verdict] += 1
    assert min(verdicts.values()) > 2


DOCUMENTS = [document(names) for length in range(6) for names in itertools.product("abc", repeat=length)]
LETTERS = ["", "a", "aa", "aaa", "aaaa", "aaaaa", "b"]
# Numbers have many texts, and a limit of length refuses some of them.
NUMBERS = [f"{sign}{zeros}{number}" for sign in ("", "-", "+") for zeros in ("", "00000") for number in range(6)]
TEXTS = [*LETTERS, *NUMBERS, *(f"{number}.0" for number in range(-3, 5)), *map(str, (-2.5, -0.5, 0.5, 1.5)), "9" * 11]


def random_type(chance: random.Random) -> str:
    base = chance.choice(("xs:string", "xs:integer", "xs:decimal", "xs:byte"))
    kind = chance.random()
    if kind < 0.2:
        known = ("a", "aa", "b", "1", "2") if base == "xs:string" else ("1", "2", "-3", "4")
        return typed(values(*chance.sample(known, chance.randint(1, 3))), base)
    if base == "xs:string":
        shortest = chance.randint(0, 2)
        limits = f'<xs:minLength value="{shortest}"/><xs:maxLength value="{shortest + chance.randint(0, 2)}"/>'
        return typed(limits if kind < 0.8 else "", base)
    low = chance.randint(-3, 1)
    limits = f'<xs:minInclusive value="{low}"/><xs:maxInclusive value="{low + chance.randint(0, 3)}"/>'
    return typed(limits if kind < 0.8 else "", base)


def test_random_simple_types_are_compatible_exactly_if_all_old_texts_are_valid() -> None:
    chance = random.Random(7)
    verdicts = {True: 0, False: 0}
    for _ in range(rounds(short=150, long=3000)):
        old, new = schema(random_type(chance)), schema(random_type(chance))
        verdict = not new.incompatibilities(old, lenient=False)
        old_type, new_type = (each.schema.elements["order"].type for each in (old, new))
        broken = [text for text in TEXTS if old_type.text_is_valid(text) and not new_type.text_is_valid(text)]
        # A range of integers that an enumeration lists whole is refused all the same.
        is_listed = "enumeration" in new.canonical() and "minInclusive" in old.canonical()
        assert not (verdict and broken), (old.canonical(), new.canonical(), broken[:1])
        assert verdict or broken or is_listed, (old.canonical(), new.canonical())
        verdicts[verdict] += 1
    assert min(verdicts.values()) > 20

"""Records are read field by field, and what is wrong is named with its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from registry.core.codec import Reader, opened
from registry.core.digests import sha256
from registry.errors import MalformedRecord


def reader(**fields: object) -> Reader:
    return Reader(fields, "the test record")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (Reader.text, 1),
        (Reader.text, None),
        (Reader.integer, "1"),
        (Reader.integer, -1),
        (Reader.integer, True),
        (Reader.flag, 1),
        (Reader.digest, "sha256:1"),
        (Reader.digest, 1),
        (Reader.mapping, []),
        (Reader.texts, "abc"),
        (Reader.texts, ["a", 1]),
        (lambda one, field: one.objects(field, Reader.rest), {}),
        (lambda one, field: one.objects(field, Reader.rest), ["a"]),
        (lambda one, field: one.object(field, Reader.rest), "a"),
    ],
)
def test_a_value_of_another_type_is_refused(read: Callable[[Reader, str], object], value: object) -> None:
    with pytest.raises(MalformedRecord):
        read(reader(field=value), "field")


def test_values_of_the_right_type_are_taken() -> None:
    one = reader(a="x", b=0, c=False, d=str(sha256(b"")), e={"x": 1}, f=["y"], g=[{"z": 1}], h=None, i="j")
    assert (one.text("a"), one.integer("b"), one.flag("c"), one.digest("d")) == ("x", 0, False, sha256(b""))
    assert (one.mapping("e"), one.texts("f")) == ({"x": 1}, ("y",))
    assert one.objects("g", lambda item: item.integer("z")) == (1,)
    assert (one.optional("h", one.text), one.optional("i", one.text)) == (None, "j")
    one.close()


def test_a_missing_field_is_named_with_its_record() -> None:
    with pytest.raises(MalformedRecord, match="the test record lacks the field 'a'"):
        reader().text("a")
    one = reader()
    with pytest.raises(MalformedRecord, match="lacks the field 'a'"):
        one.optional("a", one.text)


def test_a_fault_in_a_list_is_named_with_its_place() -> None:
    with pytest.raises(MalformedRecord, match=r"the test record, a\[1\] lacks the field 'x'"):
        reader(a=[{"x": 1}, {}]).objects("a", lambda item: item.integer("x"))


def test_a_field_is_taken_once() -> None:
    one = reader(a=1)
    one.integer("a")
    with pytest.raises(MalformedRecord, match="lacks"):
        one.integer("a")


def test_fields_that_nobody_took_are_kept_or_refused() -> None:
    one = reader(a=1, b=2)
    one.integer("a")
    assert one.rest() == {"b": 2}
    with pytest.raises(MalformedRecord, match="unknown fields: b"):
        one.close()


def test_only_the_expected_kind_and_schema_are_opened() -> None:
    assert opened({"kind": "recipe", "schema": 1, "x": 2}, "recipe", 1).rest() == {"x": 2}
    with pytest.raises(MalformedRecord, match="a 'product' record found"):
        opened({"kind": "product", "schema": 1}, "recipe", 1)
    with pytest.raises(MalformedRecord, match="schema 2; this version of reckon reads schema 1"):
        opened({"kind": "recipe", "schema": 2}, "recipe", 1)
    with pytest.raises(MalformedRecord, match="must be an object"):
        opened([], "recipe", 1)

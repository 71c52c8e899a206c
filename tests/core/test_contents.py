"""Content digests: what they depend on, and what they must not depend on."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.contents import documents_content, tokens_digest
from registry.core.documents import Document, document_id
from registry.errors import MalformedRecord


def document(text: str, path: str = "a.py") -> Document:
    return Document(
        id=document_id(text), source="alpha", version="1.0", path=path, licence="MIT", domain="code", text=text
    )


def packed(documents: list[list[int]]) -> tuple[bytes, bytes]:
    """Stream and ends of documents, as bytes."""
    stream = [token for ids in documents for token in ids]
    ends = [sum(map(len, documents[: place + 1])) for place in range(len(documents))]
    return struct.pack(f"<{len(stream)}I", *stream), struct.pack(f"<{len(ends)}Q", *ends)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` in pieces, cut at ``places``."""
    points = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(points)]


def test_documents_are_counted_and_named_by_their_ends() -> None:
    first, second = document("one\n"), document("zwei é\n")
    content = documents_content([first, second])
    assert (content.documents, content.text_bytes) == (2, len("one\nzwei é\n".encode()))
    assert (content.first, content.last) == (first.id, second.id)


def test_a_documents_digest_is_what_it_always_was() -> None:
    """The digest is in records that outlive this code."""
    assert documents_content([document("one\n"), document("two\n")]).digest.hex == (
        "8616a61ef19425bce978afdc4f398e6d87a26fdef1919012e4787053d9c4eb63"
    )
    assert documents_content([]).digest.hex == "615cdc25a8da517f3e0d4dc5eab6e8cbbc1f50a8bd6bf31ae47b3d8e0d771f6f"


@pytest.mark.parametrize("field", ["source", "version", "path", "licence", "domain"])
def test_every_fact_of_a_document_counts(field: str) -> None:
    one = document("one\n")
    assert documents_content([one]).digest != documents_content([replace(one, **{field: "other"})]).digest


def test_order_and_text_count() -> None:
    one, two = document("one\n"), document("two\n")
    digests = {documents_content(part).digest for part in ([one, two], [two, one], [one], [document("one")])}
    assert len(digests) == 4


def test_a_token_digest_is_what_it_always_was() -> None:
    stream, ends = packed([[1, 2, 3], [4095]])
    assert tokens_digest([stream], [ends]).hex == "8b1a8a3c20206a9584b81d6cb779331d416e619a01b3985ae963c565c8bb18b3"


@given(
    st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5), max_size=6),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_tokens_may_come_in_any_pieces(documents: list[list[int]], places: list[int]) -> None:
    stream, ends = packed(documents)
    assert tokens_digest(cut(stream, places), cut(ends, places)) == tokens_digest([stream], [ends])


def test_the_same_tokens_in_other_documents_are_other_contents() -> None:
    documents = ([[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3]], [[1, 2], [4]], [[3], [1, 2]])
    assert len({tokens_digest([packed(part)[0]], [packed(part)[1]]) for part in documents}) == len(documents)


@pytest.mark.parametrize(
    ("stream", "ends"),
    [
        (b"\0" * 8, struct.pack("<Q", 1)),
        (b"\0" * 4, struct.pack("<Q", 2)),
        (b"\0" * 5, struct.pack("<Q", 1)),
        (b"\0" * 4, b"\1\0\0\0"),
        (b"\0" * 4, b""),
    ],
)
def test_offsets_that_do_not_fit_the_tokens_are_refused(stream: bytes, ends: bytes) -> None:
    with pytest.raises(MalformedRecord):
        tokens_digest([stream], [ends])

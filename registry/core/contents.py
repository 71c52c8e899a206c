"""Identities of contents that do not depend on their container.

Of documents: whatever the Parquet row groups, compression, encodings or writer. Of tokens: whatever the chunks and
codecs of the store. Both take streams, so that memory is bounded by one piece. Order counts in both.
Refuses a document whose text is not what its id names, and offsets that do not end where the tokens do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from registry.core import canonical
from registry.core.digests import Algorithm, Digest, record_digest
from registry.core.documents import COLUMNS, Document
from registry.errors import MalformedRecord

TOKEN_BYTES = 4
OFFSET_BYTES = 8


class DocumentsContent:
    """The digest of a sequence of documents, fed one by one.

    SHA-256 over lines of canonical JSON: a header with the column names, then per document its facts without the text.
    The text is bound by the id, which is its SHA-256 and is recomputed whenever a ``Document`` is made.
    """

    def __init__(self) -> None:
        header = canonical.encode({"kind": "documents", "schema": 1, "columns": list(COLUMNS)})
        self._hash = hashlib.sha256(header + b"\n")
        self.documents = 0
        self.text_bytes = 0
        self.first: str | None = None
        self.last: str | None = None

    def add(self, document: Document) -> None:
        """Take the next document."""
        self._hash.update(canonical.encode(list(document.facts)) + b"\n")
        self.documents += 1
        self.text_bytes += len(document.text.encode("utf-8"))
        self.first = self.first or document.id
        self.last = document.id

    @property
    def digest(self) -> Digest:
        """The digest of what was fed so far."""
        return Digest(Algorithm.SHA256, self._hash.hexdigest())


def documents_content(documents: Iterable[Document]) -> DocumentsContent:
    """Digest, counts, first and last id of ``documents`` in their order."""
    content = DocumentsContent()
    for document in documents:
        content.add(document)
    return content


def tokens_digest(stream: Iterable[bytes], ends: Iterable[bytes]) -> Digest:
    """The digest of a token stream and the documents in it.

    ``stream`` yields pieces of the token ids as little-endian uint32, ``ends`` of the documents' ends (exclusive,
    counted in tokens, ascending) as little-endian uint64; pieces may be cut anywhere. Raises ``MalformedRecord`` when
    the last end is not the number of tokens.
    """
    tokens, token_bytes, _ = _hashed(stream)
    documents, end_bytes, tail = _hashed(ends)
    if token_bytes % TOKEN_BYTES or end_bytes % OFFSET_BYTES:
        raise MalformedRecord("A token stream is not a whole number of tokens and documents.")
    if int.from_bytes(tail, "little") != token_bytes // TOKEN_BYTES:
        raise MalformedRecord("The last document does not end where the token stream ends.")
    return record_digest(
        {
            "kind": "tokens",
            "schema": 1,
            "tokens": token_bytes // TOKEN_BYTES,
            "documents": end_bytes // OFFSET_BYTES,
            "stream": str(tokens),
            "ends": str(documents),
        }
    )


def _hashed(pieces: Iterable[bytes]) -> tuple[Digest, int, bytes]:
    """The SHA-256 of all pieces, their length in bytes, and the last eight bytes."""
    running, length, tail = hashlib.sha256(), 0, b""
    for piece in pieces:
        running.update(piece)
        length += len(piece)
        tail = (tail + piece[-OFFSET_BYTES:])[-OFFSET_BYTES:]
    return Digest(Algorithm.SHA256, running.hexdigest()), length, tail

"""From text to the token ids that a cache holds: begin, text, a blank, end.

The blank and the order are those of Levanter's own pipeline (``BatchTokenizer``), so that a cache that Levanter builds
from the same text holds the same tokens; a test compares the two. Refuses a tokenizer whose golden documents come out
otherwise than recorded, and a document that spells a special token, since ends of documents could no longer be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from tokenizers import Tokenizer

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.digests import Digest, sha256
from registry.core.documents import Document
from registry.errors import DoesNotHold, MalformedRecord, Refused
from train.data.golden import BEGIN, END, SPECIAL, golden

IDENTITY = "identity.json"
DOCUMENTS_PER_BATCH = 256


class Encoder:
    """The tokenizer of a folder, proven against its golden documents. ``identity`` is the digest of its identity."""

    def __init__(self, folder: Path) -> None:
        identity, self.identity = read_identity(folder)
        self._tokenizer = Tokenizer.from_buffer((folder / "tokenizer.json").read_bytes())
        self.vocabulary: int = self._tokenizer.get_vocab_size()
        if canonical.encode(golden_of(self._tokenizer)) != canonical.encode(identity.get("golden")):
            raise DoesNotHold(
                f"The tokenizer in {folder} does not give the ids that its golden documents record.",
                remedy="Compare the version of 'tokenizers' with identity.json, then run the stage 'tokenizer'.",
            )

    def documents(self, documents: Sequence[Document]) -> Iterator[np.ndarray]:
        """The ids of each document as int32, in their order. Raises ``DoesNotHold`` for a special token in a text."""
        for start in range(0, len(documents), DOCUMENTS_PER_BATCH):
            batch = documents[start : start + DOCUMENTS_PER_BATCH]
            encoded = encode_documents(self._tokenizer, [document.text for document in batch])
            for document, ids in zip(batch, encoded, strict=True):
                if np.count_nonzero(ids < len(SPECIAL)) != 2:
                    raise DoesNotHold(
                        f"The document {document.source}:{document.path} spells a special token of the tokenizer.",
                        remedy="Leave its folder out (shards.domains in params.yaml), or rename the special tokens.",
                    )
                yield ids


def encode_documents(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """The ids that a cache holds for each text, as int32. The special tokens have the lowest ids."""
    begin = tokenizer.token_to_id(BEGIN)
    encoded = tokenizer.encode_batch_fast([f"{text} {END}" for text in texts], add_special_tokens=False)
    return [np.asarray([begin, *encoding.ids], dtype=np.int32) for encoding in encoded]


def golden_of(tokenizer: Tokenizer) -> Json:
    """The golden documents as this tokenizer encodes them."""
    return golden(
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda text: encode_documents(tokenizer, [text])[0].tolist(),
    )


def read_identity(folder: Path) -> tuple[Mapping[str, Json], Digest]:
    """The identity of the tokenizer in ``folder``, its files checked, and the identity's own digest.

    Raises ``Refused`` when there is none, ``DoesNotHold`` when a file is not the recorded one.
    """
    try:
        data = (folder / IDENTITY).read_bytes()
        identity = canonical.decode(data.removesuffix(b"\n"))
    except (FileNotFoundError, MalformedRecord) as error:
        raise Refused(f"{folder} is no tokenizer: {error}.", remedy="Run the stage 'tokenizer'.") from error
    if not isinstance(identity, dict) or not isinstance(identity.get("files"), dict):
        raise Refused(f"{folder / IDENTITY} is no identity of a tokenizer.", remedy="Run the stage 'tokenizer'.")
    for name, digest in cast(Mapping[str, Json], identity["files"]).items():
        if not (folder / name).is_file() or str(sha256((folder / name).read_bytes())) != digest:
            raise DoesNotHold(f"{folder / name} is not the file that {IDENTITY} names.", remedy="Run 'tokenizer'.")
    return identity, sha256(data)

"""What all files of an export must say alike: vocabulary, positions, rotary base, tokens that begin, end and pad.

A published model whose configuration names another end token than its tokenizer loads without a word and never stops.
Here each file is held against what the model was trained with. Refuses nothing itself: it tells what disagrees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Self

from registry.core.canonical import Json
from registry.core.codec import Reader

CONFIG = "config.json"
GENERATION = "generation_config.json"
IDENTITY = "identity.json"
TOKENIZER = "tokenizer_config.json"

Documents = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What the model was trained with. ``rotary_base`` is a decimal string; ``begin``, ``end`` and ``pad`` are ids."""

    vocabulary: int
    positions: int
    rotary_base: str
    begin: int
    end: int
    pad: int

    def to_json(self) -> dict[str, Json]:
        return {
            "vocabulary": self.vocabulary,
            "positions": self.positions,
            "rotary_base": self.rotary_base,
            "begin": self.begin,
            "end": self.end,
            "pad": self.pad,
        }

    @classmethod
    def read(cls, reader: Reader) -> Self:
        one = cls(
            vocabulary=reader.integer("vocabulary"),
            positions=reader.integer("positions"),
            rotary_base=reader.text("rotary_base"),
            begin=reader.integer("begin"),
            end=reader.integer("end"),
            pad=reader.integer("pad"),
        )
        reader.close()
        return one

    @property
    def tokens(self) -> dict[str, int]:
        """The special tokens by the name that Hugging Face's files give them, without ``_id``."""
        return {"bos_token": self.begin, "eos_token": self.end, "pad_token": self.pad}

    def disagreements(self, documents: Documents) -> tuple[str, ...]:
        """A sentence for everything in an export's files that says otherwise.

        ``documents`` are the JSON objects of ``config.json``, ``generation_config.json``, ``tokenizer_config.json`` and
        the tokenizer's ``identity.json``, by file name. The generation configuration's ``max_length`` and, where it is
        stated, the tokenizer's ``model_max_length`` must be the positions of the model.
        """
        ids = {f"{name}_id": token for name, token in self.tokens.items()}
        sizes = {"vocab_size": self.vocabulary, "max_position_embeddings": self.positions}
        config, tokenizer = documents[CONFIG], documents[TOKENIZER]
        special = documents[IDENTITY].get("special")
        return (
            *_differing(CONFIG, config, {**ids, **sizes, "rope_theta": self.rotary_base}),
            *_differing(CONFIG, {"rope_scaling": None, **config}, {"rope_scaling": None}),
            *_differing(GENERATION, documents[GENERATION], {**ids, "max_length": self.positions}),
            *_differing(IDENTITY, documents[IDENTITY], {"vocabulary": self.vocabulary}),
            *_differing(IDENTITY, special if isinstance(special, Mapping) else {}, self.tokens),
            *_differing(
                TOKENIZER, {"model_max_length": self.positions, **tokenizer}, {"model_max_length": self.positions}
            ),
            *_differing(TOKENIZER, _ids_of(tokenizer), self.tokens),
        )


def _differing(name: str, document: Mapping[str, object], wanted: Mapping[str, int | str | None]) -> Iterator[str]:
    for key, value in wanted.items():
        found = document.get(key)
        if not _same(found, value):
            yield f"{name} says {key} {found!r}, but the model has {value}."


def _same(found: object, wanted: int | str | None) -> bool:
    """Integers are compared with their type; a decimal string is compared as a number."""
    if not isinstance(wanted, str):
        return type(found) is type(wanted) and found == wanted
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return False
    try:
        return Decimal(str(found)) == Decimal(wanted)
    except InvalidOperation:
        return False


def _ids_of(tokenizer: Mapping[str, object]) -> dict[str, int]:
    """The ids of the special tokens by name, as ``tokenizer_config.json`` tells them."""
    decoder = tokenizer.get("added_tokens_decoder")
    ids: dict[str, int] = {}
    for key, entry in decoder.items() if isinstance(decoder, Mapping) else ():
        text = entry.get("content") if isinstance(entry, Mapping) else None
        if isinstance(text, str) and re.fullmatch(r"[0-9]{1,9}", str(key)):
            ids[text] = int(key)
    named = {name: tokenizer.get(name) for name in ("bos_token", "eos_token", "pad_token")}
    return {name: ids[text] for name, text in named.items() if isinstance(text, str) and text in ids}

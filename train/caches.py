"""Open a token cache as Levanter's own datasets, the way its causal language modelling pipeline does.

A cache lies at ``artifacts/tokens/<domain>/<split>`` (split ``train`` or ``heldout``). Documents stand one after the
other, each as BOS, text, EOS; a sequence is ``sequence_length`` consecutive tokens of that stream, so it may cross
documents, and a last incomplete sequence is left out. Refuses a folder without a finished cache.
"""

from __future__ import annotations

from pathlib import Path

import haliax
import numpy as np
from levanter.data.text import CausalLmDataset, NamedLmDataset, TokenSeqDataset
from levanter.store.cache import TreeCache

from registry.errors import Refused

FIELD = "input_ids"


def exemplar() -> dict[str, np.ndarray]:
    """The shape of one document in a cache: ``input_ids`` as a vector of int32."""
    return {FIELD: np.zeros((0,), dtype=np.int32)}


def open_cache(folder: Path, split: str) -> TreeCache:
    """The cache of one split of a domain's folder: row ``i`` is the token ids of document ``i``.

    Raises ``Refused`` when there is no finished cache.
    """
    try:
        return TreeCache.load(str(folder / split), exemplar())
    except (FileNotFoundError, RuntimeError) as error:
        raise Refused(
            f"{folder / split} holds no finished token cache.", remedy="Run the stage 'tokens' of this domain first."
        ) from error


def open_sequences(folder: Path, split: str, sequence_length: int) -> TokenSeqDataset:
    """Sequences as ``{"input_ids": int32 [sequence_length]}``; number ``i`` starts at token ``i * sequence_length``."""
    return TokenSeqDataset(open_cache(folder, split), sequence_length)


def open_causal(folder: Path, split: str, position: haliax.Axis, *, eos: int | None) -> CausalLmDataset:
    """Sequences as Levanter's ``GrugLmExample``.

    ``position`` is the model's position axis. With ``eos`` (its token id) attention does not cross documents, as in
    Levanter's default; with None it does.
    """
    sequences = open_sequences(folder, split, position.size)
    return CausalLmDataset(sequences, position, eos_id=eos, block_cross_document_attention=eos is not None)


def open_examples(folder: Path, split: str, position: haliax.Axis, *, eos: int | None) -> NamedLmDataset:
    """Sequences as the named ``LmExample`` that Levanter's ``LmHeadModel.compute_next_token_loss`` takes."""
    return NamedLmDataset(open_causal(folder, split, position, eos=eos), position)

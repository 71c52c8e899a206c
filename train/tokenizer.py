"""Stage ``tokenizer``: a byte-level BPE learned from the training shards, as a Hugging Face folder.

Writes what ``transformers.AutoTokenizer`` and Levanter load from a local folder, and, last, ``identity.json``: digests
of the files, the back-end's name and version, and golden documents. Learns from a sample of each domain's training
documents, chosen by hash; held-out text is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.core.documents import Split, sampled
from registry.errors import DoesNotHold, Refused
from train import paths
from train.data.encoding import IDENTITY, golden_of
from train.data.golden import BEGIN, END, PAD, SPECIAL, TEXTS
from train.data.shardtable import documents_of
from train.files import fresh_folder, write_json, write_whole
from train.settings import whole

BACKEND = "tokenizers"
BYTES = 256


def build(settings: Mapping[str, Json], shards: Path, target: Path) -> None:
    """Learn a tokenizer from ``shards`` and write it to ``target``.

    Raises ``Refused`` for a vocabulary that the text cannot fill, ``DoesNotHold`` for a shard that is not the recorded
    one or a golden text that does not survive encoding and decoding.
    """
    vocabulary = whole(settings, "vocabulary", least=BYTES + len(SPECIAL))
    tokenizer = learned(_sample(shards, whole(settings, "sample_per_10000", least=1)), vocabulary)
    if tokenizer.get_vocab_size() != vocabulary:
        raise Refused(
            f"The text gives {tokenizer.get_vocab_size()} tokens, fewer than the {vocabulary} asked for.",
            remedy="Lower tokenizer.vocabulary or raise tokenizer.sample_per_10000 in params.yaml.",
        )
    _check_round_trips(tokenizer)
    write_folder(tokenizer, fresh_folder(target))


def learned(texts: Iterator[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE of ``vocabulary`` tokens; the special tokens have the ids 0, 1 and 2 (begin, end, pad).

    Every byte is a token, so every text can be encoded and comes back unchanged.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        show_progress=False,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN} $B", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def write_folder(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the files that transformers and Levanter read, then the identity."""
    names = {"bos_token": BEGIN, "eos_token": END, "pad_token": PAD}
    write_whole(folder / "tokenizer.json", tokenizer.to_str(pretty=True).encode("utf-8"))
    write_json(folder / "special_tokens_map.json", names)
    write_json(folder / "tokenizer_config.json", {**names, **_configuration(tokenizer)})
    files = {path.name: str(sha256(path.read_bytes())) for path in sorted(folder.iterdir())}
    identity: Json = {
        "kind": "tokenizer",
        "schema": 1,
        "backend": {"name": BACKEND, "version": version(BACKEND)},
        "vocabulary": tokenizer.get_vocab_size(),
        "special": {name: tokenizer.token_to_id(token) for name, token in names.items()},
        "files": files,
        "golden": golden_of(tokenizer),
    }
    write_json(folder / IDENTITY, identity)


def _configuration(tokenizer: Tokenizer) -> dict[str, Json]:
    decoder: dict[str, Json] = {
        str(tokenizer.token_to_id(token)): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for token in SPECIAL
    }
    return {
        "added_tokens_decoder": decoder,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def _sample(shards: Path, per_10000: int) -> Iterator[str]:
    return (one.text for one in documents_of(shards, split=Split.TRAIN) if sampled(one.id, per_10000))


def _check_round_trips(tokenizer: Tokenizer) -> None:
    for name, text in TEXTS.items():
        back = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
        if back != text:
            raise DoesNotHold(f"The golden text {name!r} comes back as {back!r}.", remedy="Mend the tokenizer's parts.")


if __name__ == "__main__":
    from train.stage import run

    run("tokenizer", lambda settings: build(settings, paths.SHARDS, paths.TOKENIZER))

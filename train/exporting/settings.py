"""Configuration, generation configuration and tokenizer of an export, which must say alike what the model is.

The tokenizer's files are copied byte for byte, its identity with its golden documents among them. Refuses to go on when
two files disagree: such a folder would load everywhere and be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from registry.core.agreement import CONFIG, GENERATION, IDENTITY, TOKENIZER, Agreed
from registry.core.canonical import Json
from registry.errors import DoesNotHold
from train.data.encoding import read_identity
from train.data.golden import BEGIN, END, PAD, SPECIAL
from train.files import write_whole
from train.plan import Plan
from train.settings import whole


def agreed(plan: Plan) -> Agreed:
    """What the model of ``plan`` was trained with."""
    return Agreed(
        vocabulary=plan.family.vocabulary,
        positions=plan.family.context_tokens,
        rotary_base=str(whole(plan.sections["model"], "rotary_base", least=1)),
        begin=SPECIAL.index(BEGIN),
        end=SPECIAL.index(END),
        pad=SPECIAL.index(PAD),
    )


def write_settings(folder: Path, configuration: Mapping[str, object], ours: Agreed, tokenizer: Path) -> None:
    """Write ``config.json`` and ``generation_config.json`` and copy the tokenizer.

    Raises ``DoesNotHold`` naming everything that disagrees with ``ours``.
    """
    identity, _ = read_identity(tokenizer)
    for name in (IDENTITY, *cast(Mapping[str, Json], identity["files"])):
        write_whole(folder / name, (tokenizer / name).read_bytes())
    _write(folder / CONFIG, configuration)
    _write(folder / GENERATION, _generation(configuration, ours))
    wrong = ours.disagreements({name: _read(folder / name) for name in (CONFIG, GENERATION, IDENTITY, TOKENIZER)})
    if wrong:
        raise DoesNotHold(
            " ".join(wrong),
            remedy="Make tokenizer and sections family and model of params.yaml agree, then train anew.",
        )


def _generation(configuration: Mapping[str, object], ours: Agreed) -> dict[str, object]:
    ids = {f"{name}_id": token for name, token in ours.tokens.items()}
    return {**ids, "max_length": ours.positions, "transformers_version": configuration["transformers_version"]}


def _write(path: Path, value: Mapping[str, object]) -> None:
    """JSON as transformers reads it: with floats, but in one order."""
    write_whole(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False).encode() + b"\n")


def _read(path: Path) -> Mapping[str, object]:
    return cast(Mapping[str, object], json.loads(path.read_bytes()))

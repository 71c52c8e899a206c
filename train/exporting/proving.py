"""Loading a release as a stranger would, and telling what came of it: ``python -m train.exporting.proving FOLDER``.

transformers' own classes read configuration, generation configuration and tokenizer, and every golden document comes
out as recorded and back. With torch, the model's logits on fixed prompts are held against those of Levanter. Prints one
canonical JSON object of sentences by what was tried. Refuses a folder that loads as something else than it was meant.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from registry.core import canonical
from registry.core.export import FILE, Export
from registry.errors import DoesNotHold, ReckonError

BOUND: Final = 1e-4
PROMPTS: Final = ("The model", "def add(a, b):\n    return a + b\n", "Let x be a real number such that x > 0.")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "TOKENIZERS_PARALLELISM": "0"}


def main(folder: Path) -> int:
    """Try everything; the exit status is that of an error, 0 when there was none."""
    os.environ.update(_OFFLINE)
    try:
        told = proved(folder)
    except ReckonError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.buffer.write(canonical.encode(told) + b"\n")
    return 0


def proved(folder: Path) -> dict[str, str]:
    """What was tried, and what came of it. Raises ``DoesNotHold`` when it came out wrong."""
    from train.exporting.readback import read_settings

    export = Export.from_json(canonical.decode((folder / FILE).read_bytes().removesuffix(b"\n")))
    read = read_settings(folder, export.agreed)
    settings = f"loaded by transformers {read.get('version')}; tokens of begin, end and padding agree"
    told = {
        "settings": settings,
        "tokenizer": f"golden documents come back as recorded: {read.get('golden_documents')}",
    }
    if find_spec("torch") is None:
        return {**told, "logits": "not compared here: torch is not installed"}
    if not _known(folder):
        return {**told, "logits": "not compared here: transformers has no class for this architecture"}
    distance = _distance(folder)
    if distance > BOUND:
        raise DoesNotHold(f"transformers' logits differ from Levanter's by {distance:.3g}, over {BOUND:g}.")
    return {**told, "logits": f"those of torch {version('torch')} and of Levanter differ by less than {BOUND:g}"}


def _known(folder: Path) -> bool:
    """Whether transformers itself has the model; code that came with a folder is never run."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    try:
        config = AutoConfig.from_pretrained(str(folder.resolve()), local_files_only=True, trust_remote_code=False)
    except ValueError:  # how it says that it does not know the kind
        return False
    return config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def _distance(folder: Path) -> float:
    """The largest difference of a logit between torch and Levanter over all prompts."""
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = str(folder.resolve())
    tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(
        place, local_files_only=True, trust_remote_code=False, dtype=torch.float32
    )
    prompts = [tokenizer(prompt).input_ids[: model.config.max_position_embeddings] for prompt in PROMPTS]
    largest = 0.0
    for ids, wanted in zip(prompts, _levanter(place, prompts), strict=True):
        with torch.no_grad():
            found = model(torch.tensor([ids])).logits[0].numpy()
        largest = max(largest, float(np.abs(found - wanted).max()))
    return largest


def _levanter(place: str, prompts: list[list[int]]) -> list[Any]:
    """Levanter's logits of each prompt, from the same folder; what follows the ids is masked, and cut off."""
    import haliax as hax
    import jax
    import jax.numpy as jnp
    import numpy as np
    from levanter.layers.attention import AttentionMask
    from levanter.models.mixtral import MixtralConfig

    converter = MixtralConfig().hf_checkpoint_converter(ref_checkpoint=place)
    config = converter.config_from_hf_checkpoint()
    found = []
    with hax.partitioning.set_mesh(jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))):
        model = converter.load_pretrained(config.model_type, config=config, dtype=jnp.float32)
        forward = hax.named_jit(lambda one, tokens: one(tokens, attn_mask=AttentionMask.causal()))
        for ids in prompts:
            padded = np.pad(np.asarray(ids, np.int32), (0, config.max_seq_len - len(ids)))
            told = forward(model, hax.named(padded, config.max_Pos))
            found.append(np.asarray(told.array)[: len(ids)])
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

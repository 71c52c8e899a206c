"""Where the stages read and write, relative to the repository's root, which is where every stage runs.

Holds names only. Nothing is created or read here.
"""

from __future__ import annotations

from pathlib import Path

PARAMS = Path("params.yaml")
ARTIFACTS = Path("artifacts")
CORPUS = ARTIFACTS / "corpus"
SHARDS = ARTIFACTS / "shards"
TOKENIZER = ARTIFACTS / "tokenizer"
TOKENS = ARTIFACTS / "tokens"
RUNS = ARTIFACTS / "runs"
SCRATCH = ARTIFACTS / "scratch"

"""Records of a finished stage as an archive would write them, made without an archive."""

from __future__ import annotations

from pathlib import Path

from registry.core.codec import record_bytes
from registry.core.digests import Digest, FileEntry, sha256, tree_digest
from registry.core.records import Execution, Outcome, Output, Product, Revision
from train import tensorfile

RECIPE = sha256(b"recipe")


def record(attempt: str, started: str, *, outcome: Outcome = Outcome.COMPLETE, stage: str = "hero/1") -> Digest:
    """Record what lies in the stage's output now as the product of an execution."""
    output = Path("artifacts") / stage
    entries = [
        FileEntry(
            path=path.relative_to(output).as_posix(), size_bytes=path.stat().st_size, digest=sha256(path.read_bytes())
        )
        for path in output.rglob("*")
        if path.is_file()
    ]
    whole = described(stage, tree_digest(entries), {})
    kept = [
        described(
            f"{stage}@{folder.name}",
            sha256(folder.name.encode()),
            {"tensors": str(tensorfile.root(folder / "state.safetensors"))},
        )
        for folder in sorted(output.glob("checkpoints/*"))
    ]
    product = Product(stage=stage, recipe=RECIPE, outputs=(whole, *kept))
    digest = put("products", record_bytes(product))
    complete = outcome is Outcome.COMPLETE
    execution = Execution(
        stage=stage,
        attempt=attempt,
        recipe=RECIPE,
        product=digest if complete else None,
        outcome=outcome,
        cause=None if complete else {"error": "Diverged", "message": "it did"},
        steps=None,
        resumed=None,
        parent=None,
        revision=Revision(commit="0" * 40, tree="0" * 40, patch=None),
        host={},
        started=started,
        ended=started,
        environment=None,
        trackers=(),
        incidents=(),
        hypothesis=None,
    )
    put("executions", record_bytes(execution))
    return digest


def described(name: str, digest: Digest, contents: dict[str, str]) -> Output:
    return Output(name=name, path=name, digest=digest, size_bytes=1, files=1, contents=contents, locator=None)


def put(kind: str, data: bytes) -> Digest:
    digest = sha256(data)
    path = Path("manifests") / kind / f"{digest.hex}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return digest

"""What the working tree is now, seen through the ports: the recipe a stage would have, the product that lies there.

Shared by the workflows that compare the present with the record. Observes only: it hashes, opens and counts, and
believes nothing that a stage says of itself. Refuses stages that are not declared and inputs or outputs that are not
there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from registry.core.canonical import Json
from registry.core.digests import Digest, FileEntry, tree_digest
from registry.core.names import Name, known
from registry.core.pipeline import StageSpec
from registry.core.records import Input, Output, Product, Recipe, SourceFile
from registry.core.tensors import Leaf, tensor_root
from registry.errors import DoesNotHold, Refused
from registry.ports import Bytes, Host, Observer, Pipeline, Repository

LOCK = "requirements.lock"
_CHECKPOINT = re.compile(r"(checkpoints/step-(0|[1-9][0-9]*))/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A product with the tables behind its digests."""

    product: Product
    trees: tuple[tuple[FileEntry, ...], ...]
    roots: tuple[tuple[Leaf, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The working tree: declared stages, code, bytes and their contents."""

    pipeline: Pipeline
    repository: Repository
    disk: Bytes
    observer: Observer
    host: Host

    def spec(self, stage: str) -> StageSpec:
        """The declared stage. Raises ``UnknownName`` with the nearest names."""
        stages = self.pipeline.stages()
        return stages[known(stage, stages)]

    def recipe(self, stage: str) -> Recipe:
        """What the stage would be asked now: settings, code, lock and inputs as they lie here."""
        spec = self.spec(stage)
        blobs = self.repository.blobs(spec.code)
        return Recipe(
            stage=stage,
            command=tuple(shlex.split(stage_command(spec.command))),
            config=spec.config,
            source=tuple(SourceFile(path=path, blob=blob) for path, blob in sorted(blobs.items())),
            lock=self.digest(LOCK),
            inputs=tuple(self._input(path) for path in spec.inputs),
            determinism=self._determinism(spec),
        )

    def product(self, stage: str, recipe: Digest) -> Observed:
        """What lies in the stage's outputs now, hashed and counted. Raises ``DoesNotHold`` for a missing output."""
        outputs: list[Output] = []
        trees: list[tuple[FileEntry, ...]] = []
        roots: list[tuple[Leaf, ...]] = []
        for path in self.spec(stage).outputs:
            if not self.disk.exists(path):
                raise DoesNotHold(
                    f"The stage {stage} left no {path}.", remedy="Look at its output above, then run it again."
                )
            entries = tuple(self.disk.files(path))
            trees.append(entries)
            own = tuple(self.observer.tensors(path)) if _holds_tensors(entries) else ()
            roots.extend([own] if own else [])
            outputs.append(self._output(stage, path, (entries, own)))
            for step, inside in sorted(checkpoints(entries).items()):
                leaves = tuple(self.observer.tensors(f"{path}/checkpoints/step-{step}"))
                roots.append(leaves)
                trees.append(inside)
                outputs.append(_checkpoint(stage, path, step, (inside, leaves)))
        product = Product(stage=stage, recipe=recipe, outputs=tuple(outputs))
        return Observed(product=product, trees=tuple(trees), roots=tuple(roots))

    def digest(self, path: str) -> Digest:
        """Tree digest of a folder, SHA-256 of a file. Raises ``Refused`` when it is missing."""
        if not self.disk.exists(path):
            raise Refused(
                f"{path} does not exist.", remedy="Run 'dvc repro' or 'dvc pull' for the stage that makes it."
            )
        entries = self.disk.files(path)
        return tree_digest(entries) if self.disk.is_folder(path) else entries[0].digest

    def producer(self, path: str) -> str | None:
        """The stage whose output holds ``path``, or None."""
        for stage, spec in self.pipeline.stages().items():
            if any(path == out or path.startswith(out + "/") for out in spec.outputs):
                return stage
        return None

    def _input(self, path: str) -> Input:
        return Input(name=self._name(path), path=path, digest=self.digest(path))

    def _name(self, path: str) -> str:
        stage = self.producer(path)
        if stage is None:
            return path
        out = next(out for out in self.spec(stage).outputs if path == out or path.startswith(out + "/"))
        inside = path[len(out) + 1 :]
        kept = re.fullmatch(r"checkpoints/step-(0|[1-9][0-9]*)", inside)
        return str(Name(stage=stage, step=int(kept[1]) if kept else None, path=None if kept or not inside else inside))

    def _output(self, stage: str, path: str, held: tuple[Sequence[FileEntry], Sequence[Leaf]]) -> Output:
        entries, leaves = held
        tensors: Mapping[str, Json] = {"tensors": str(tensor_root(leaves)), "leaves": len(leaves)} if leaves else {}
        return Output(
            name=stage,
            path=path,
            digest=tree_digest(entries),
            size_bytes=sum(entry.size_bytes for entry in entries),
            files=len(entries),
            contents={**self.observer.contents(stage, path), **tensors},
            locator=self.disk.locator(path),
        )

    def _determinism(self, spec: StageSpec) -> Mapping[str, Json]:
        """Stages that declare the section ``determinism`` depend on the machine's kind and numeric libraries too."""
        declared = spec.config.get("determinism")
        return {**declared, **self.host.numerics()} if isinstance(declared, Mapping) else {}


def stage_command(line: str) -> str:
    """The part of a stage's command line that makes the product: without the recording around it."""
    parts = [part.strip() for part in re.split(r"&&|;", line)]
    made = [part for part in parts if part and not part.startswith("reckon ")]
    if len(made) != 1:
        raise Refused(f"The command {line!r} must be one stage between 'reckon record' calls.")
    return made[0]


def checkpoints(entries: Sequence[FileEntry]) -> dict[int, tuple[FileEntry, ...]]:
    """Files of each kept checkpoint by step, with paths relative to the checkpoint's folder."""
    kept: dict[int, list[FileEntry]] = {}
    for entry in entries:
        match = _CHECKPOINT.fullmatch(entry.path)
        if match:
            relative = entry.path[len(match[1]) + 1 :]
            kept.setdefault(int(match[2]), []).append(
                FileEntry(path=relative, size_bytes=entry.size_bytes, digest=entry.digest)
            )
    return {step: tuple(files) for step, files in kept.items()}


def _holds_tensors(entries: Sequence[FileEntry]) -> bool:
    """Whether an output is itself a container of tensors, as an export is: safetensors files at its top."""
    return any(entry.path.endswith(".safetensors") and "/" not in entry.path for entry in entries)


def _checkpoint(stage: str, path: str, step: int, held: tuple[Sequence[FileEntry], Sequence[Leaf]]) -> Output:
    files, leaves = held
    return Output(
        name=str(Name(stage=stage, step=step)),
        path=f"{path}/checkpoints/step-{step}",
        digest=tree_digest(files),
        size_bytes=sum(entry.size_bytes for entry in files),
        files=len(files),
        contents={"step": step, "tensors": str(tensor_root(leaves)), "leaves": len(leaves)},
        locator=None,
    )

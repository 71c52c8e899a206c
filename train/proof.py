"""What a segment of the hero proves before it trains: its parent, from bytes and records, and that the forecast is
sealed.

The parent's own folder proves nothing about itself. Its bytes are hashed here and held against the committed record of
the parent segment's latest complete execution. Refuses a parent without such a record, with missing, added or altered
files, at another step than the record's last, or of a product that a later execution replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.core import canonical, transcript
from registry.core.canonical import Json
from registry.core.codec import record_bytes
from registry.core.digests import Digest, FileEntry, sha256, tree_digest
from registry.core.forecast import forecast_record
from registry.core.names import Name
from registry.core.records import Execution, Output, Product
from registry.core.runlog import Outcome
from registry.errors import DoesNotHold, MalformedRecord, Refused
from train import paths, tensorfile

MANIFESTS: Final = Path("manifests")
FORECAST: Final = paths.ARTIFACTS / "forecast" / "forecast.json"
_MOST_BYTES: Final = canonical.MAXIMUM_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A proven parent: its name, tensor root, folder, and its transcript's last line."""

    name: Name
    root: Digest
    folder: Path
    last: transcript.Line

    @property
    def facts(self) -> dict[str, Json]:
        """As the run log tells it."""
        return {"name": self.name.stage, "step": self.name.step, "root": str(self.root)}


def prove_parent(name: Name, manifests: Path = MANIFESTS) -> Parent:
    """Prove that the checkpoint ``name`` is what was recorded, and the last one of its segment.

    Raises ``Refused`` when nothing is recorded or there, ``DoesNotHold`` when the bytes are not the recorded ones or
    the checkpoint is not the latest product's last.
    """
    product = _latest_product(name.stage, manifests)
    steps = sorted(_steps(product))
    if not steps or name.step != steps[-1]:
        raise DoesNotHold(
            f"{name} is not the last checkpoint of {name.stage}, which has recorded steps {steps}.",
            remedy="Name the last one as the parent; a run does not fork from an earlier step by accident.",
        )
    output = paths.ARTIFACTS / name.stage
    folder = output / "checkpoints" / f"step-{name.step}"
    root = _checked_root(product.output(str(name)), folder, manifests)
    whole = product.output(name.stage)
    if whole is None or tree_digest(_entries(output)) != whole.digest:
        raise DoesNotHold(
            f"The files of {name.stage} are not those of its record: one is missing, added or altered.",
            remedy=f"Run 'reckon verify {name.stage}' to see which, then bring them back with 'dvc checkout'.",
        )
    last = transcript.parse((output / "transcript.jsonl").read_bytes()).lines[-1]
    if last.step != name.step:
        raise DoesNotHold(f"The transcript of {name.stage} ends at step {last.step}, not at {name.step}.")
    return Parent(name=name, root=root, folder=folder, last=last)


def require_sealed_forecast(forecast: Path = FORECAST, manifests: Path = MANIFESTS) -> Digest:
    """The digest of the forecast, which lies under it in the manifests with the same bytes.

    Raises ``Refused`` when there is none or it is not sealed, ``DoesNotHold`` when the sealed bytes are others.
    """
    data = _read(forecast, "There is no forecast of the hero.", "Run the stage 'forecast' first: 'dvc repro forecast'.")
    predicted = forecast_record(data).predicts
    if not predicted.startswith("hero/"):
        raise Refused(f"The forecast predicts {predicted}, not the hero.", remedy="Correct forecast.predicts.")
    digest = sha256(data)
    sealed = _read(
        manifests / "forecasts" / f"{digest.hex}.json",
        "The forecast is not sealed.",
        "Record it first: 'dvc repro forecast', then commit manifests/.",
    )
    if sealed != data:
        raise DoesNotHold("The sealed forecast has other bytes than its name says.", remedy="Restore it with git.")
    return digest


def _latest_product(stage: str, manifests: Path) -> Product:
    """The product of the stage's latest complete execution."""
    told = [one for one in _executions(manifests) if one.stage == stage and one.outcome.value == Outcome.COMPLETE.value]
    latest = max(told, key=lambda one: one.started, default=None)
    if latest is None or latest.product is None:
        raise Refused(
            f"No complete execution of {stage} is recorded.", remedy=f"Run and record {stage} first with 'dvc repro'."
        )
    return _product(latest.product, manifests)


def _executions(manifests: Path) -> Iterator[Execution]:
    for path in sorted((manifests / "executions").glob("*.json")):
        yield Execution.from_json(canonical.decode(_named(path)))


def _product(digest: Digest, manifests: Path) -> Product:
    product = Product.from_json(canonical.decode(_named(manifests / "products" / f"{digest.hex}.json")))
    if sha256(record_bytes(product)) != digest:
        raise MalformedRecord(f"The product record {digest.short} is not written back as it was read.")
    return product


def _named(path: Path) -> bytes:
    """The bytes of a record whose name is their digest."""
    data = _read(path, f"The record {path.name} is missing.", "Restore manifests/ with git.")
    if sha256(data).hex != path.stem:
        raise DoesNotHold(f"The record {path.name} has other bytes than its name says.", remedy="Restore it with git.")
    return data


def _read(path: Path, missing: str, remedy: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise Refused(missing, remedy=remedy) from error
    if len(data) > _MOST_BYTES:
        raise MalformedRecord(f"{path.name} is over {_MOST_BYTES} bytes.")
    return data


def _checked_root(recorded: Output | None, folder: Path, manifests: Path) -> Digest:
    """The tensor root of the checkpoint's bytes, which must be the recorded one."""
    root = _root(folder)
    expected = None if recorded is None else recorded.contents.get("tensors")
    if str(root) == expected:
        return root
    known = {str(one.contents.get("tensors")) for product in _products(manifests) for one in product.outputs}
    if str(root) in known:
        raise DoesNotHold(
            f"{folder} holds an earlier product's checkpoint ({root.short}); the latest record says {expected}.",
            remedy="It is stale: bring back the latest with 'dvc checkout'.",
        )
    raise DoesNotHold(
        f"The tensors in {folder} have the root {root}, but the record says {expected}.",
        remedy="They were altered or damaged: compare with 'reckon verify', and bring them back with 'dvc checkout'.",
    )


def _root(folder: Path) -> Digest:
    try:
        return tensorfile.root(folder / "state.safetensors")
    except MalformedRecord as error:
        raise DoesNotHold(
            f"The state in {folder} is damaged: {error.message}", remedy="Bring it back with 'dvc checkout'."
        ) from error


def _products(manifests: Path) -> Iterator[Product]:
    for path in sorted((manifests / "products").glob("*.json")):
        yield Product.from_json(canonical.decode(_named(path)))


def _steps(product: Product) -> Iterator[int]:
    for output in product.outputs:
        name = Name.parse(output.name)
        if name.stage == product.stage and name.step is not None and name.path is None:
            yield name.step


def _entries(folder: Path) -> Iterator[FileEntry]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            relative = path.relative_to(folder).as_posix()
            yield FileEntry(path=relative, size_bytes=path.stat().st_size, digest=sha256(path.read_bytes()))

"""Holding what was made again against the record: transcript, tensors of every kept checkpoint, outputs, distances.

Bit-exact answers first. Where a setting or the setup differs, other bits are a mismatch; where nothing differs that
could change them, a contradiction. Refuses to judge a replay of which nothing could be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.core import canonical, distances
from registry.core.comparison import Change, file_changes
from registry.core.digests import FileEntry
from registry.core.ledger import Ledger
from registry.core.parting import Measure, Parting, Side, part
from registry.core.records import Environment, Output, Recipe
from registry.core.rederivation import Mark, Verdict
from registry.core.resolving import root_of
from registry.core.setups import Setup
from registry.core.standing import Tier
from registry.core.tensors import Leaf, tensor_root
from registry.core.transcript import Transcript
from registry.errors import DoesNotHold, ReckonError
from registry.ports import TableStore
from registry.workflows.rederive.laying import TRANSCRIPT, Layer, lines_of
from registry.workflows.rederive.planning import Plan, recorded_setup
from registry.workflows.rederive.replaying import Replayed
from registry.workflows.rederive.yard import Yard

EVALUATION: Final = "evaluation.json"
_MOST: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The comparison and the mark that the execution will bear. ``tensors`` tells by name, of every recorded output
    whose tensors were made again, whether they are the same; ``files`` which files of the whole output are not."""

    parting: Parting
    mark: Mark
    tensors: Mapping[str, bool]
    files: tuple[Change[FileEntry], ...]

    @property
    def holds(self) -> bool:
        """Whether it was made again: the same bits, or within what was asked for."""
        return self.mark.agrees or self.mark.tier is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """Tensors that the replay made: as which output, where, and their leaves."""

    output: Output
    place: Path
    leaves: tuple[Leaf, ...]

    @property
    def same(self) -> bool:
        return tensor_root(self.leaves) == root_of(self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges replays of one archive."""

    ledger: Ledger
    tables: TableStore
    layer: Layer

    def judge(self, yard: Yard, plan: Plan, replayed: Replayed) -> Judgement:
        """Compare a replay that came to its end. Raises ``DoesNotHold`` when nothing could be compared."""
        made = tuple(self._made(yard, plan, replayed))
        recorded, found = self._sides(yard, plan, replayed, made)
        parting = part(recorded, found, self._measure(yard, plan, made))
        if not parting.compared:
            raise DoesNotHold(f"Nothing of {plan.target.output.name} could be compared; nothing was recorded.")
        agrees = parting.equal and all(one.same for one in made)
        files = () if agrees or replayed.product is None else self._files(yard, plan, replayed)
        return Judgement(
            parting=parting,
            mark=_mark(plan, replayed, parting, agrees=agrees),
            tensors={one.output.name: one.same for one in made},
            files=files,
        )

    def _made(self, yard: Yard, plan: Plan, replayed: Replayed) -> Iterator[_Made]:
        """The last one is what the comparison is about."""
        for output, place in self._places(plan, replayed):
            if place.exists():
                inside = place.relative_to(yard.tree.root).as_posix()
                yield _Made(output=output, place=place, leaves=tuple(yard.workshop.observer.tensors(inside)))

    def _places(self, plan: Plan, replayed: Replayed) -> Iterator[tuple[Output, Path]]:
        steps = plan.steps
        if steps is None:
            if root_of(plan.target.own) is not None:
                yield plan.target.own, replayed.folder
            return
        for step, output in plan.target.kept.items():
            if steps.start < step <= steps.stop:
                yield output, replayed.folder / "checkpoints" / f"step-{step}"

    def _sides(self, yard: Yard, plan: Plan, replayed: Replayed, made: Sequence[_Made]) -> tuple[Side, Side]:
        own, product = plan.target.own, replayed.product
        recipe = Recipe.from_json(canonical.decode(yard.staged.get(Recipe.KIND, replayed.execution.recipe)))
        recorded = Side(
            label=plan.target.output.name,
            transcript=self.layer.recorded_lines(plan),
            leaves=self._recorded_leaves(made),
            evaluation=self.layer.paper(own, EVALUATION),
            contents={} if product is None else {one.name: str(one.digest) for one in plan.target.product.outputs},
            setup=recorded_setup(self.ledger, plan.target),
            recipe=plan.target.recipe,
        )
        found = Side(
            label="made again",
            transcript=_lines(replayed.folder / TRANSCRIPT, plan),
            leaves=made[-1].leaves if made else None,
            evaluation=_read(replayed.folder / EVALUATION),
            contents={} if product is None else {one.name: str(one.digest) for one in product.outputs},
            setup=_setup(yard, replayed, recipe),
            scripted=plan.scripted,
            recipe=recipe,
        )
        return recorded, found

    def _recorded_leaves(self, made: Sequence[_Made]) -> Sequence[Leaf] | None:
        root = root_of(made[-1].output) if made else None
        return None if root is None else self.tables.get_leaves(root)

    def _measure(self, yard: Yard, plan: Plan, made: Sequence[_Made]) -> Measure | None:
        """What measures distances to the recorded tensors; None where the recorded bytes are not at hand."""
        if not made or made[-1].same:
            return None
        recorded = yard.tree.folder / "recorded"
        try:
            self.layer.lay_part(yard, plan, made[-1].output, recorded)
        except ReckonError:
            return None
        return yard.measure(recorded, made[-1].place)

    def _files(self, yard: Yard, plan: Plan, replayed: Replayed) -> tuple[Change[FileEntry], ...]:
        own = plan.target.own
        found = None if replayed.product is None else replayed.product.output(own.name)
        if found is None:
            return ()
        return file_changes(self.tables.get_files(own.digest), yard.tables.get_files(found.digest))


def _mark(plan: Plan, replayed: Replayed, parting: Parting, *, agrees: bool) -> Mark:
    meant = {key.replace(".", " ") for key in replayed.changed}
    deciding = (one for one in parting.setup if one.can_change_bits and one.fact not in meant)
    setup = {one.fact: [one.recorded, one.found] for one in deciding}
    setup = {**{f"variable {name}": [None, "set"] for name in plan.request.variables}, **setup}
    other = bool(replayed.changed or setup)
    verdict = Verdict.AGREES if agrees else Verdict.MISMATCH if other else Verdict.CONTRADICTS
    tolerance, noise = plan.request.tolerance, plan.request.noise
    exact = agrees and not replayed.changed
    return Mark(
        product=plan.target.product_digest,
        execution=plan.target.execution_digest,
        verdict=verdict,
        whole=replayed.product is not None,
        tier=_exact(plan, replayed) if exact else _approximate(plan, replayed, parting, agrees=agrees),
        first_step=None if plan.steps is None else plan.steps.start,
        last_step=_reached(plan, replayed),
        changes=replayed.changed,
        setup=dict(list(setup.items())[:_MOST]),
        difference=None if agrees else parting.to_json(),
        tolerance="0" if agrees and replayed.changed else None if agrees or tolerance is None else str(tolerance),
        noise=None if agrees or noise is None else str(noise),
    )


def _exact(plan: Plan, replayed: Replayed) -> str:
    """T1 on a host that gave it before, T2 on another."""
    here = str(replayed.execution.host.get("name"))
    return (Tier.SAME_SETUP if here in plan.target.hosts else Tier.OTHER_HOST).value


def _approximate(plan: Plan, replayed: Replayed, parting: Parting, *, agrees: bool) -> str | None:
    """T3 within the tolerance, of a run that was asked the same; T4 when the held-out loss is within the noise.

    The same bits under other settings are within a tolerance of nothing, and no witness: something else was asked.
    """
    tolerance, noise = plan.request.tolerance, plan.request.noise
    asked_the_same = all(key.startswith("determinism.") for key in replayed.changed)
    if agrees:
        return Tier.TOLERANCE.value if asked_the_same else Tier.NOISE.value
    losses = (*parting.steps, *parting.heldout)
    if tolerance is not None and asked_the_same and distances.within(tolerance, parting.distances, losses):
        return Tier.TOLERANCE.value
    if noise is not None and distances.within_noise(noise, parting.heldout):
        return Tier.NOISE.value
    return None


def _reached(plan: Plan, replayed: Replayed) -> int | None:
    """The last step that counts: what ran on until it was stopped after its window is not part of it."""
    told = None if replayed.execution.steps is None else replayed.execution.steps.get("reached")
    return plan.within(told) if isinstance(told, int) and plan.steps is not None else None


def _setup(yard: Yard, replayed: Replayed, recipe: Recipe) -> Setup:
    digest = replayed.execution.environment
    told = None if digest is None else yard.staged.get(Environment.KIND, digest)
    return Setup(
        environment=None if told is None else Environment.from_json(canonical.decode(told)),
        host=replayed.execution.host,
        determinism=recipe.determinism,
    )


def _lines(path: Path, plan: Plan) -> Transcript | None:
    """The transcript of the replayed steps alone: lines that were laid to go on from prove nothing.

    Nor are those looked at that were written after the window, before the run was stopped.
    """
    told = lines_of(path.read_bytes()) if path.is_file() else None
    if told is None or plan.steps is None:
        return told
    return Transcript(lines=tuple(one for one in told.lines if plan.steps.start < one.step == plan.within(one.step)))


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and path.stat().st_size <= canonical.MAXIMUM_BYTES else None

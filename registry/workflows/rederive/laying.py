"""Preparing a worktree: the recorded inputs by digest, the records as they stood, nothing where outputs will come.

What was laid is proved by making the recipe again from it: the same recipe, or it does not run. Refuses inputs that are
on record nowhere, a commit that does not hold the recorded code or settings, and modules from outside the worktree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from registry.core import transcript
from registry.core.canonical import Json
from registry.core.comparison import Part, recipe_changes
from registry.core.digests import Digest, FileEntry
from registry.core.forecast import Forecast
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, Given, Lineage, Link, Role
from registry.core.records import Execution, Output, Product, Recipe
from registry.core.rederivation import rederives
from registry.core.resolving import file_in, relative
from registry.errors import DoesNotHold, MalformedRecord, UnknownName
from registry.ports import RecordStore, TableStore
from registry.workflows.rederive.planning import Plan
from registry.workflows.rederive.yard import Shelf, Yard

MANIFESTS: Final = "manifests"
TRANSCRIPT: Final = "transcript.jsonl"
_OWN: Final = ("train", "registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Lays what a stage needs. ``records`` and ``tables`` are those of the archive."""

    ledger: Ledger
    lineage: Lineage
    records: RecordStore
    tables: TableStore
    shelf: Shelf

    def prepare(self, yard: Yard, plan: Plan) -> dict[str, Json]:
        """Make the worktree ready to run; returns the settings that were changed on purpose, ``[before, after]``."""
        if plan.request.patch is not None:
            yard.tree.patch(plan.request.patch)
        stage = plan.target.stage
        for path in (*yard.committed.spec(stage).outputs, f"artifacts/runs/{stage}", f"artifacts/scratch/{stage}"):
            yard.tree.clear(path)
        self._lay_records(yard, plan.target.execution)
        for link in self.lineage.links(plan.target.product_digest):
            if link.role is Role.INPUT:
                self._lay(yard, plan, link)
        self._prove(yard, plan)
        changed = dict(yard.tree.change(plan.request.changes)) if plan.request.changes else {}
        if plan.span.begin is not None:
            self._lay_state(yard, plan, plan.span.begin)
        return changed

    def _lay_records(self, yard: Yard, execution: Execution) -> None:
        """The records that stood when the execution began: a stage proves its parent with them."""
        yard.tree.clear(MANIFESTS)
        for kind, digest in self._standing(execution):
            yard.tree.write(f"{MANIFESTS}/{kind}s/{digest.hex}.json", self.records.get(kind, digest))

    def _standing(self, execution: Execution) -> Iterator[tuple[str, Digest]]:
        for digest, one in self.ledger.executions.items():
            earlier = one.ended is not None and one.ended <= execution.started
            if one.witnesses and one.product is not None and earlier and not rederives(one):
                yield Execution.KIND, digest
                if one.product in self.ledger.products:
                    yield Product.KIND, one.product
                if one.recipe in self.ledger.recipes:
                    yield Recipe.KIND, one.recipe
        yield from ((Forecast.KIND, digest) for digest in self.records.digests(Forecast.KIND))

    def _lay(self, yard: Yard, plan: Plan, link: Link) -> None:
        source = link.source
        if isinstance(source, Given):
            return
        if not isinstance(source, Artifact) or link.digest is None:
            raise UnknownName(f"The input {link.name} ({link.digest}) is on record nowhere, so it cannot be fetched.")
        path = next(one.path for one in plan.target.recipe.inputs if one.name == link.name)
        for target, entry in self._files(source, link.digest, path):
            places = (place for _, place in self.shelf.places(source.output, entry))
            yard.tree.lay(target, entry, places)

    def _files(self, source: Artifact, digest: Digest, path: str) -> Iterator[tuple[str, FileEntry]]:
        """Where each file of an input goes, with its entry in the table of the output that holds it."""
        entries = self.tables.get_files(source.output.digest)
        if source.path is None and digest != source.output.digest:
            yield path, next(one for one in entries if one.digest == digest)
            return
        inside = entries if source.path is None else file_in(entries, source.path)
        for entry in inside:
            if entry.path == source.path:
                yield path, entry
            else:
                below = entry if source.path is None else relative([entry], source.path)[0]
                yield f"{path}/{below.path}", entry

    def _prove(self, yard: Yard, plan: Plan) -> None:
        """The recipe made again must be the recorded one; only libraries and machine may be others."""
        made = yard.committed.recipe(plan.target.stage)
        differing = recipe_changes(plan.target.recipe, replace(made, determinism=plan.target.recipe.determinism))
        for part, changes in differing.items():
            told = "; ".join(f"{one.key}: {one.recorded or 'absent'} → {one.found or 'absent'}" for one in changes[:4])
            raise DoesNotHold(
                f"The commit {plan.commit[:12]} does not hold what {plan.target.output.name} was made from: "
                f"{part} differ ({told}).",
                remedy="The record is wrong, or a patch is missing." if part is Part.CODE else "See 'reckon audit'.",
            )
        found, recorded = yard.committed.repository.revision().patch, plan.target.execution.revision.patch
        if found != recorded:
            raise DoesNotHold(
                f"The changes to the commit are {found or 'none'} here; {recorded or 'none'} are recorded.",
                remedy="Give the patch that the execution ran with.",
            )
        own = [name for name in _OWN if (yard.tree.root / name).is_dir()]
        _, places = yard.runner.probe([], own) if own else (None, {})
        strays = [name for name, place in places.items() if not Path(place).is_relative_to(yard.tree.root.resolve())]
        if strays:
            raise DoesNotHold(f"The interpreter takes {', '.join(strays)} from outside of the worktree.")

    def _lay_state(self, yard: Yard, plan: Plan, step: int) -> None:
        """A kept checkpoint where the stage looks for a state to go on from, with the transcript up to its step."""
        watch = yard.watch(plan.target.stage)
        yard.runner.start_and_kill(plan.target.recipe.command, lambda: watch.scratch() is not None)
        scratch = watch.scratch()
        if scratch is None:
            raise DoesNotHold(f"{plan.target.stage} of that commit cannot go on from a state.")
        yard.tree.clear(f"artifacts/runs/{plan.target.stage}")
        self.lay_part(yard, plan, plan.target.kept[step], scratch / "states" / f"step-{step}")
        lines = self.recorded_lines(plan) or transcript.Transcript(lines=())
        before = [one for one in lines.lines if one.step <= step]
        if not before or before[-1].step != step:
            raise UnknownName(f"The transcript of {plan.target.stage} up to step {step} is not at hand.")
        data = b"".join(map(transcript.line, before))
        yard.tree.write((scratch / "work" / TRANSCRIPT).relative_to(yard.tree.root).as_posix(), data)

    def lay_part(self, yard: Yard, plan: Plan, output: Output, target: Path) -> None:
        """The recorded files of an output, the stage's own or one inside it, at ``target`` in the worktree's folder."""
        own = plan.target.own
        inside = output.path.removeprefix(own.path).removeprefix("/")
        entries = self.tables.get_files(own.digest)
        for entry in file_in(entries, inside) if inside else entries:
            places = (place for _, place in self.shelf.places(own, entry))
            yard.tree.put(target / (entry.path[len(inside) + 1 :] if inside else entry.path), entry, places)

    def recorded_lines(self, plan: Plan) -> transcript.Transcript | None:
        """The recorded transcript; None where the stage writes none, or one of another form."""
        data = self.paper(plan.target.own, TRANSCRIPT)
        return None if data is None else lines_of(data)

    def paper(self, own: Output, path: str) -> bytes | None:
        """A small recorded file of an output; None when it has none or no copy is at hand."""
        found: Sequence[FileEntry] = [one for one in self.tables.get_files(own.digest) if one.path == path]
        try:
            return self.shelf.read(own, found[0]) if found else None
        except (UnknownName, DoesNotHold):
            return None


def lines_of(data: bytes) -> transcript.Transcript | None:
    """A transcript, or None for bytes of another form."""
    try:
        return transcript.parse(data)
    except MalformedRecord:
        return None

"""Looking at a release folder: are the files that explain it still what its own bundle says?

Card, curve, list of checkpoints, provenance and crate are made again from the bundle, the terms and the template that
lie in the folder, and compared byte by byte; weights, settings and tokenizer are held against the recorded export.
Refuses nothing: what is wrong becomes a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.core import canonical, twins
from registry.core.canonical import Json
from registry.core.card import Template
from registry.core.digests import Digest, FileEntry
from registry.core.dsse import Envelope
from registry.core.explaining import FORM, PLACES, Evident, Explainer, WriteCard
from registry.core.export import FILE, Export
from registry.core.findings import Finding, Trouble
from registry.core.records import Output
from registry.core.release import (
    ATTESTATIONS,
    BUNDLE,
    CRATE,
    LOADING,
    STAGES,
    TEMPLATE,
    UNSTATED,
    ReleaseStatement,
)
from registry.core.resolving import root_of
from registry.errors import DoesNotHold, ReckonError

Read = Callable[[str], bytes]
_OURS = (*PLACES, BUNDLE, CRATE, LOADING, TEMPLATE, twins.FILE, *UNSTATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector:
    """Looks at one release. ``read`` gives the bytes of its small files; ``evident`` is what its bundle shows."""

    statement: ReleaseStatement
    read: Read
    evident: Evident
    read_template: Callable[[bytes], Template]
    write_card: WriteCard

    def drifted(self, entries: Sequence[FileEntry]) -> tuple[Finding, ...] | None:
        """What is wrong with the files that are made from records. ``entries`` are all files of the folder.

        None where they are written in another form than this version of reckon would write.
        """
        if self.statement.extra.get("form") != FORM:
            return None
        try:
            return tuple(self._drifted(self._explainer(), entries))
        except ReckonError as error:
            return (self._finding(Trouble.DRIFT, f"What explains the release cannot be made again: {error.message}"),)

    def exported(self, entries: Sequence[FileEntry]) -> tuple[Finding, ...]:
        """What keeps the folder from being the recorded export with what explains it, and nothing else."""
        try:
            return tuple(self._exported({entry.path: entry.digest for entry in entries}))
        except ReckonError as error:
            return (self._finding(Trouble.REFERENCE, f"The export cannot be held against its record: {error.message}"),)

    def _explainer(self) -> Explainer:
        loading = canonical.decode(self.read(LOADING).removesuffix(b"\n"))
        if not isinstance(loading, Mapping):
            raise DoesNotHold(f"{LOADING} is no object.")
        return Explainer(
            terms=self.statement.terms,
            evident=self.evident,
            export=self._export(),
            loading=loading,
            template=self.read_template(self.read(TEMPLATE)),
            write=self.write_card,
        )

    def _export(self) -> Export:
        return Export.from_json(canonical.decode(self.read(FILE).removesuffix(b"\n")))

    def _drifted(self, explainer: Explainer, entries: Sequence[FileEntry]) -> Iterator[Finding]:
        made = {**explainer.files(), CRATE: explainer.crate(entries)}
        for path, data in made.items():
            if self.read(path) != data:
                yield self._finding(Trouble.DRIFT, f"{path} says something else than the records do.", path)
        stages = explainer.stages()
        there = {entry.path for entry in entries if entry.path.startswith(f"{STAGES}/")}
        for path in sorted({*there, *stages}):
            if path not in there or path not in stages or Envelope.parse(self.read(path)).payload != stages[path]:
                yield self._finding(Trouble.DRIFT, f"{path} is not the statement that the records give.", path)

    def _exported(self, found: Mapping[str, Digest]) -> Iterator[Finding]:
        terms, export = self.statement.terms, self._export()
        output = self._output()
        told: dict[str, tuple[Json, Json]] = {
            "checkpoint": (str(terms.weights.checkpoint), str(export.source.name)),
            "root of the checkpoint": (str(terms.weights.checkpoint_root), str(export.source.root)),
            "root of the weights": (str(terms.weights.root), str(export.root)),
            "root on record": (str(terms.weights.root), str(root_of(output))),
        }
        for what, (stated, other) in told.items():
            if stated != other:
                yield self._finding(Trouble.REFERENCE, f"The statement has the {what} {stated}, the export {other}.")
        recorded = {entry.path: entry.digest for entry in self.evident.files(output.digest)}
        for path in sorted(recorded):
            if recorded[path] != found.get(path):
                trouble = Trouble.ALTERED if path in found else Trouble.MISSING
                yield self._finding(trouble, f"{path} is not the recorded export's.", path)
        for path in sorted(found.keys() - recorded.keys()):
            if path not in _OURS and not path.startswith((f"{STAGES}/", f"{ATTESTATIONS}/")):
                yield self._finding(Trouble.EXTRA, f"{path} belongs neither to the export nor to a release.", path)

    def _output(self) -> Output:
        terms = self.statement.terms
        node = self.evident.evidence.nodes.get(terms.product)
        output = None if node is None else node.product.output(terms.artifact)
        if output is None:
            raise DoesNotHold(f"The bundle does not tell of {terms.artifact} as the product {terms.product.short}.")
        return output

    def _finding(self, trouble: Trouble, text: str, path: str = "") -> Finding:
        return Finding(subject=str(self.statement.identity), trouble=trouble, text=text, path=path)

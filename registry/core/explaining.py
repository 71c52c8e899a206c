"""The files of a release that explain it, made from its evidence: card, curve, checkpoints, provenance, crate.

Everything here is a function of the bundle in the release, its terms, its template and its export. So whoever has the
folder can make them again, and a file that says something else is found. Refuses what the parts refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from registry.core import account, canonical, card, crate, provenance, trajectory
from registry.core.account import Account
from registry.core.audit.evidence import Evidence
from registry.core.canonical import Json
from registry.core.card import Template
from registry.core.digests import Digest, FileEntry
from registry.core.export import Export
from registry.core.lineage import FileTable
from registry.core.publications import Publications, Subject
from registry.core.release import CARD, CHECKPOINTS, CRATE, CURVE, STAGES, UNSTATED, Terms

WriteCard: TypeAlias = Callable[[Mapping[str, object], str], bytes]
# The number of the form in which these files are written; one more when the same evidence would give other bytes.
FORM: Final = 1
PLACES: Final = (CARD, CHECKPOINTS, CURVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evident:
    """What a bundle shows: the evidence, the file tables of its trees, and what was published before."""

    evidence: Evidence
    files: FileTable
    publications: Publications


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Makes the files of one release. ``loading`` says what was proved about loading; ``write`` joins head and body."""

    terms: Terms
    evident: Evident
    export: Export
    loading: Mapping[str, Json]
    template: Template
    write: WriteCard

    def files(self) -> dict[str, bytes]:
        """Card, curve and checkpoints, by path."""
        told = self._account()
        recorded = account.recorded_metadata(told)
        body = card.body(self.template, account.sections(told))
        listed = trajectory.checkpoints(told.run, self._published())
        return {
            CARD: self.write(card.head(self.template, recorded), body),
            CURVE: account.picture(told),
            CHECKPOINTS: canonical.encode(listed) + b"\n",
        }

    def stages(self) -> dict[str, bytes]:
        """The payloads of the stages' statements, by the path of their envelope."""
        told = provenance.statements(self.evident.evidence, self.evident.files)
        return {f"{STAGES}/{name}.dsse.json": payload for name, payload in told.items()}

    def crate(self, entries: Sequence[FileEntry]) -> bytes:
        """The crate over ``entries``: all files of the folder; the crate itself and the signatures are left out."""
        chosen = [entry for entry in entries if entry.path != CRATE and entry.path not in UNSTATED]
        return crate.crate(self.terms, str(self.template.metadata["license"]), self.evident.evidence, chosen)

    def _account(self) -> Account:
        weights = self.terms.weights
        run = trajectory.segments(self.evident.evidence, weights.checkpoint, weights.checkpoint_root)
        return Account(
            terms=self.terms, evidence=self.evident.evidence, run=run, export=self.export, loading=self.loading
        )

    def _published(self) -> Mapping[Digest, str]:
        """Commits of checkpoints on the hub that this release is for, by tree digest; the newest counts."""
        mine = [
            one
            for one in self.evident.publications.records
            if one.subject is Subject.CHECKPOINT and one.place.repository == self.terms.identity.repository
        ]
        return {one.digest: one.commit for one in mine}

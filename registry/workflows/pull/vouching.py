"""The edges of a release as it lies on a hub: who signed it, and whether its files are those that were signed.

They stand before the edges of the lineage in one audit, and the verdict is the worst of all. Refuses nothing: what does
not hold becomes an edge that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.judging import Audit, Looked
from registry.core.digests import Digest
from registry.core.findings import Finding, Trouble
from registry.core.pulling import Reference
from registry.core.records import Output
from registry.core.resolving import root_of
from registry.errors import DoesNotHold, ReckonError
from registry.workflows.pull.files import Pulled
from registry.workflows.pull.looking import Looked as Release
from registry.workflows.pull.looking import OtherFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """What was found of a release: which of its files were hashed, and what did not hold on the way.

    ``wrong`` is what is wrong with the signed statements inside it.
    """

    release: Release
    pulled: tuple[Pulled, ...]
    trouble: DoesNotHold | None = None
    wrong: Sequence[Finding] = ()

    @property
    def holder(self) -> str:
        """The release's name in edges."""
        signed = self.release.signed
        return str(self.release.reference) if signed is None else str(signed.statement.identity)

    def edges(self) -> Iterator[Edge]:
        """Signature and files."""
        signed = self.release.signed
        if signed is None:
            yield _unsigned(self.holder)
            return
        yield Place(self.holder, Kind.SIGNATURE).edge(State.ATTESTED, signed.by, self.wrong)
        hashed = {path for one in self.pulled for path in (*one.landed, *one.kept)} & signed.files.keys()
        place = Place(self.holder, Kind.FILES)
        if self.trouble is not None:
            yield place.edge(State.VERIFIED, "", [place.finding(Trouble.ALTERED, self.trouble.message)])
            return
        listed = len(signed.files) - len(hashed)
        state = State.ATTESTED if listed else State.VERIFIED
        more = f"; of {listed} more only the hub's list was held against the signed digests" if listed else ""
        yield place.edge(state, f"{len(hashed)} files were hashed and are those that were signed{more}")

    def tie(self, product: Digest, output: Output) -> Edge:
        """Whether the bundle speaks of the product and tensors that were signed."""
        place = Place(self.holder, Kind.RECORD)
        signed = self.release.signed
        findings: list[Finding] = []
        if signed is not None:
            terms = signed.statement.terms
            if product != terms.product:
                text = "The bundle is about another product than the release statement."
                findings.append(place.finding(Trouble.REFERENCE, text, terms.product, product))
            if root_of(output) != terms.weights.root:
                text = "The record of the export has another tensor root than the release statement."
                findings.append(place.finding(Trouble.TENSOR, text, terms.weights.root, root_of(output)))
        return place.edge(
            State.VERIFIED, "the bundle is about the product and the tensor root that were signed", findings
        )

    def with_lineage(self, audit: Audit, tie: Edge) -> Audit:
        """The whole audit."""
        edges = (*self.edges(), tie, *audit.edges)
        return replace(audit, name=str(self.release.reference), edges=edges)

    def alone(self, depth: str, trouble: ReckonError | None = None) -> Audit:
        """The audit of a release whose lineage cannot be read; ``trouble`` is why."""
        edges = [*self.edges()]
        if trouble is not None:
            place = Place(self.holder, Kind.RECORD)
            text = f"The lineage in the bundle cannot be read: {trouble.message}"
            edges.append(place.edge(State.MISSING, "", [place.finding(Trouble.MISSING, text)]))
        return bare(self.release.reference, depth, edges)


def refused(reference: Reference, depth: str, trouble: DoesNotHold) -> Audit:
    """The audit of what did not get past its signatures."""
    kind = Kind.FILES if isinstance(trouble, OtherFiles) else Kind.SIGNATURE
    place = Place(str(reference), kind)
    finding = place.finding(Trouble.ALTERED if kind is Kind.FILES else Trouble.SIGNATURE, trouble.message)
    return bare(reference, depth, [place.edge(State.CONTRADICTED, "", [finding])])


def bare(reference: Reference, depth: str, edges: Sequence[Edge]) -> Audit:
    """An audit of these edges and nothing else."""
    return Audit(
        name=str(reference),
        product=None,
        depth=depth,
        edges=tuple(edges),
        looked=Looked(),
        reproduced=(),
        consulted={},
        marks=(),
    )


def _unsigned(holder: str) -> Edge:
    place = Place(holder, Kind.SIGNATURE)
    return place.edge(State.MISSING, "", [place.finding(Trouble.MISSING, "Nobody signed this revision.")])

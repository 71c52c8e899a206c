"""The edges of a release: who signed it, its files, the export that it is, the checkpoint behind that, and its card.

They stand before the edges of the lineage in one audit. ``Shown`` is what a workflow found when it looked; a file that
is made from records and says something else is drift. Refuses to call the map from the checkpoint verified unless the
checkpoint was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from registry.core.audit.by_hand import Step
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.findings import Finding, Trouble
from registry.core.release import SIGNATURE, STATEMENT, ReleaseStatement

OF_SIGNATURES = (Trouble.SIGNATURE, Trouble.TRUST, Trouble.REPLAY, Trouble.REFERENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What was found of a release.

    ``says`` is who answers for it, ``vouched`` what is wrong with signatures and files, ``hashed`` how many files were
    hashed, ``by_twins`` of them by the BLAKE3 that was signed with their SHA-256. ``exported``, ``drifted`` and
    ``unmapped`` are what is wrong with the export in it, with the files that are made from records (None where they
    have another form), and with its tensors beside the checkpoint's; ``mapped`` says that these were compared.
    """

    statement: ReleaseStatement
    says: str
    vouched: tuple[Finding, ...]
    hashed: int
    exported: tuple[Finding, ...]
    drifted: tuple[Finding, ...] | None
    unmapped: tuple[Finding, ...]
    mapped: bool
    by_twins: int = 0

    @property
    def holder(self) -> str:
        """The release's name in edges."""
        return str(self.statement.identity)


def edges(shown: Shown) -> Iterator[Edge]:
    """The edges of a release, in the order of the walk."""
    terms = shown.statement.terms
    yield from seals(shown.holder, shown.says, shown.vouched, shown.hashed)
    yield Place(shown.holder, Kind.INPUT, terms.artifact).edge(*_export(shown.by_twins), shown.exported)
    told = "every tensor was made again from the checkpoint by the stated map"
    claimed = "the stated map makes the weights from it; the checkpoint is not at hand to do it again"
    place = Place(shown.holder, Kind.PARENT, str(terms.weights.checkpoint))
    yield place.edge(*((State.VERIFIED, told) if shown.mapped else (State.CLAIMED, claimed)), shown.unmapped)
    told = "card, curve, checkpoints, provenance and crate say what the records say"
    claimed = "written in another form than this version of reckon writes, so that it could not be made again"
    state = (State.CLAIMED, claimed) if shown.drifted is None else (State.VERIFIED, told)
    yield Place(shown.holder, Kind.CARD).edge(*state, shown.drifted or ())


def seals(holder: str, says: str, wrong: Sequence[Finding], hashed: int) -> Iterator[Edge]:
    """Signature and files of a release; ``wrong`` is what is wrong with either."""
    by_signature = [one for one in wrong if one.trouble in OF_SIGNATURES]
    by_files = [one for one in wrong if one.trouble not in OF_SIGNATURES]
    yield Place(holder, Kind.SIGNATURE).edge(State.ATTESTED, says, by_signature)
    told = f"{hashed} files were hashed and are those that were signed"
    yield Place(holder, Kind.FILES).edge(State.VERIFIED, told, by_files)


def _export(by_twins: int) -> tuple[State, str]:
    """What the files' digests say of the export, whose record has SHA-256."""
    told = "weights, settings and tokenizer are the recorded export's, byte for byte"
    if not by_twins:
        return State.VERIFIED, told
    return State.ATTESTED, f"{told}, if the signer's two digests of a file agree; 'reckon audit' takes SHA-256 of all"


def steps(edge: Edge, statement: ReleaseStatement) -> tuple[Step, ...]:
    """How to check an edge of a release by hand, in its folder."""
    terms = statement.terms
    by_kind = {
        Kind.SIGNATURE: Step(
            command=f"model_signing verify key . --signature {SIGNATURE} --public_key KEY.pub",
            expected="Verification succeeded; KEY.pub is the maker's, and not from this folder",
        ),
        Kind.FILES: Step(command="sha256sum README.md", expected=f"the digest that {STATEMENT} has for it"),
        Kind.INPUT: Step(command="reckon root .", expected=str(terms.weights.root)),
        Kind.PARENT: Step(
            command=f"reckon verify {terms.weights.checkpoint}",
            expected=f"holds, in a clone of the archive; its tensor root is {terms.weights.checkpoint_root}",
        ),
        Kind.CARD: Step(command="reckon release verify .", expected="nothing has drifted"),
    }
    return (by_kind[edge.kind],)

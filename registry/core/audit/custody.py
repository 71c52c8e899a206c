"""Custody: are the recorded bytes the ones that lie here? Edges from an artifact to its files and to its tensors.

What was hashed is verified; what nobody looked at is claimed, or withheld where a record declares it private. Every
finding of the hashing belongs to one edge: a file with an edge of its own (a transcript, say) is judged there. Refuses
to excuse anything but absence by a declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import JUDGED_ALONE, Custody, Evidence, Node
from registry.core.comparison import changes
from registry.core.digests import Digest, FileEntry
from registry.core.findings import Finding, Trouble
from registry.core.records import Output, Product
from registry.core.withheld import Withheld

_OF_WHOLE = (Trouble.UNREADABLE, Trouble.CONTENTS)


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges to bytes and tensors of every output of a product."""
    custody = evidence.custody.get(node.digest)
    for output in node.product.outputs:
        if output in node.own:
            yield _judged(Place(node.named(output.name), Kind.BYTES), output, evidence, custody)
        if "tensors" in output.contents:
            yield _judged(Place(node.named(output.name), Kind.WEIGHTS), output, evidence, custody)


def paper(custody: Custody | None, output: Output, path: str) -> tuple[Finding, ...]:
    """What hashing found about one file of an output."""
    where = f"{output.path}/{path}"
    return () if custody is None else tuple(finding for finding in custody.findings if finding.path == where)


def cached(output: Output, recorded: Sequence[FileEntry], held: Iterable[FileEntry]) -> tuple[Finding, ...]:
    """Files that DVC's cache holds with other bytes than recorded. What it lacks says nothing."""
    known = {entry.path: entry for entry in held}
    listed = {entry.path: entry for entry in recorded if entry.path in known}
    return tuple(
        Finding(
            subject=output.name,
            trouble=Trouble.CACHE,
            path=output.path,
            part=change.key,
            recorded=None if change.recorded is None else str(change.recorded.digest),
            found=None if change.found is None else str(change.found.digest),
            text=f"The DVC cache has other bytes of {output.path}/{change.key} than recorded.",
        )
        for change in changes(listed, known)
    )


def custody_of(
    product: Product, looked: Iterable[str], findings: Iterable[Finding], withheld: Mapping[Digest, Withheld]
) -> Custody:
    """Sort findings of hashing: what is missing and declared private is excused, with what follows from its absence."""
    declared = {str(digest) for digest in withheld}
    wrong: list[Finding] = []
    excused: list[Finding] = []
    for finding in findings:
        private = finding.trouble is Trouble.MISSING and finding.recorded in declared
        (excused if private else wrong).append(finding)
    partly = frozenset(name for finding in excused for name in _holders(product, finding))
    wrong = [one for one in wrong if not (one.trouble in _OF_WHOLE and one.subject in partly)]
    broken = {name for finding in wrong for name in _holders(product, finding)}
    return Custody(outputs=frozenset(looked), broken=frozenset(broken), private=partly, findings=tuple(wrong))


def _judged(place: Place, output: Output, evidence: Evidence, custody: Custody | None) -> Edge:
    declared = evidence.withheld.get(output.digest)
    if custody is None or output.name not in custody.outputs:
        if declared is not None:
            return place.edge(State.WITHHELD, f"declared private: {declared.reason}")
        return place.edge(State.CLAIMED, "its bytes were not looked at")
    findings = [finding for finding in custody.findings if _belongs(finding, place.kind, output)]
    if not findings and output.name in custody.private:
        return place.edge(State.WITHHELD, "files of it are declared private; the others agree")
    if not findings and _gone(custody, output):
        return place.edge(State.MISSING, "the files that hold it are missing")
    what = "tensors" if place.kind is Kind.WEIGHTS else "files"
    return place.edge(State.VERIFIED, f"all {what} were hashed and are the recorded ones", findings)


def _belongs(finding: Finding, kind: Kind, output: Output) -> bool:
    """Whether a finding of hashing is for that edge of that output."""
    if finding.subject != output.name or finding.path in {f"{output.path}/{name}" for name in JUDGED_ALONE}:
        return False
    of_tensors = finding.trouble is Trouble.TENSOR or finding.part == "tensors"
    if "step" in output.contents:
        return kind is Kind.WEIGHTS
    return of_tensors == (kind is Kind.WEIGHTS)


def _gone(custody: Custody, output: Output) -> bool:
    """Whether something that holds the output was found missing as a whole."""
    missing = (finding.path for finding in custody.findings if finding.trouble is Trouble.MISSING)
    return any(output.path == path or output.path.startswith(f"{path}/") for path in missing)


def _holders(product: Product, finding: Finding) -> Iterator[str]:
    """The outputs that a finding is about: the one it names, and those that hold its file or lie in it."""
    for output in product.outputs:
        inside = finding.path.startswith(f"{output.path}/") or output.path.startswith(f"{finding.path}/")
        if finding.subject == output.name or (finding.path and (inside or finding.path == output.path)):
            yield output.name

"""Code: what git says of the commit, the code, the settings and the lock that a recipe and its executions name.

Every answer is proved from the commit's id by the objects themselves. Where no repository is at hand, or it has not the
commit's files, the record stands alone and the edge is claimed; a commit that a repository at hand does not know is
missing. A dirty execution is marked: what differs from the commit is then no contradiction, and no proof either.
Refuses a commit with another tree, code that the commit does not hold, settings that are not those of ``params.yaml``,
and another lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from registry.core import canonical
from registry.core.audit.edges import Edge, Kind, Place, State
from registry.core.audit.evidence import Evidence, Node
from registry.core.digests import sha256
from registry.core.findings import Finding, Trouble
from registry.core.gitobjects import GitTrees
from registry.core.pipeline import decimals, lookup
from registry.core.records import Recipe, Revision
from registry.errors import ReckonError, UnknownName

PARAMS: Final = "params.yaml"
LOCK: Final = "requirements.lock"
DIRTY: Final = "ran with changes that no commit holds"
_MOST_REVISIONS = 100


def edges(node: Node, evidence: Evidence) -> Iterator[Edge]:
    """The edges from a product to commit, code, settings and lock."""
    if node.recipe is None:
        return
    yield _commit(Place(node.label, Kind.COMMIT), node, evidence)
    kinds = {Kind.CODE: _code, Kind.CONFIG: _config, Kind.LOCK: _lock}
    for kind, rule in kinds.items():
        place = Place(node.label, kind)
        if evidence.git is None:
            yield place.edge(State.CLAIMED, "no git repository was consulted")
            continue
        yield _over(place, node, [rule(place, node.recipe, one, evidence) for one in node.revisions[:_MOST_REVISIONS]])


def _commit(place: Place, node: Node, evidence: Evidence) -> Edge:
    revisions = node.revisions[:_MOST_REVISIONS]
    dirty = f"; {DIRTY}" if any(one.dirty for one in revisions) else ""
    if evidence.git is None:
        return place.edge(State.CLAIMED, f"no git repository was consulted{dirty}")
    findings = [finding for one in revisions for finding in _tree(place, one, evidence.git)]
    state = State.CLAIMED if dirty else State.VERIFIED
    return place.edge(state, f"the commit has the recorded tree{dirty}", findings)


def _tree(place: Place, revision: Revision, git: GitTrees) -> Iterator[Finding]:
    try:
        tree = git.tree(revision.commit).hex
    except UnknownName:
        text = f"The repository here has no commit {revision.commit}."
        yield place.finding(Trouble.MISSING, text, revision.commit)
    except ReckonError as error:
        yield place.finding(Trouble.COMMIT, error.message, revision.commit)
    else:
        if tree != revision.tree:
            text = f"The commit {revision.commit[:12]} has the tree {tree[:12]}; {revision.tree[:12]} is recorded."
            yield place.finding(Trouble.COMMIT, text, revision.tree, tree)


def _over(place: Place, node: Node, found: list[list[Finding] | None]) -> Edge:
    """One edge over all revisions; None stands for one that was not consulted or did not have the files."""
    findings = [finding for one in found if one for finding in one]
    if any(revision.dirty for revision in node.revisions):
        return place.edge(State.CLAIMED, DIRTY, findings)
    if not found or None in found:
        return place.edge(State.CLAIMED, "the commit's files are not at hand", findings)
    return place.edge(State.VERIFIED, "the commit holds exactly what is recorded", findings)


def _code(place: Place, recipe: Recipe, revision: Revision, evidence: Evidence) -> list[Finding] | None:
    if evidence.git is None or not recipe.source:
        return None
    findings = []
    for file in recipe.source:
        try:
            blob = evidence.git.blob(revision.commit, file.path)
        except ReckonError:
            return None
        if blob != file.blob and not revision.dirty:
            text = f"{file.path} in the commit {revision.commit[:12]} is not the recorded one."
            findings.append(place.finding(Trouble.COMMIT, text, file.blob, blob))
    return findings


def _config(place: Place, recipe: Recipe, revision: Revision, evidence: Evidence) -> list[Finding] | None:
    data = _content(evidence, revision, PARAMS)
    params = None if data is None else evidence.settings(data)
    if not isinstance(params, Mapping):
        return None
    findings = []
    for key, asked in recipe.config.items():
        held = _setting(params, key)
        if held != _plain(asked) and not revision.dirty:
            text = f"The setting {key} in the commit {revision.commit[:12]} is not the recorded one."
            findings.append(place.finding(Trouble.COMMIT, text, _plain(asked), held))
    return findings


def _lock(place: Place, recipe: Recipe, revision: Revision, evidence: Evidence) -> list[Finding] | None:
    data = _content(evidence, revision, LOCK)
    if data is None:
        return None
    if sha256(data) == recipe.lock or revision.dirty:
        return []
    text = f"{LOCK} in the commit {revision.commit[:12]} is not the recorded one."
    return [place.finding(Trouble.COMMIT, text, recipe.lock, sha256(data))]


def _content(evidence: Evidence, revision: Revision, path: str) -> bytes | None:
    try:
        return None if evidence.git is None else evidence.git.content(revision.commit, path)
    except ReckonError:
        return None


def _setting(params: Mapping[str, object], key: str) -> str | None:
    try:
        return _plain(decimals(lookup(params, key)))
    except ReckonError:
        return None


def _plain(value: canonical.Json) -> str:
    return canonical.encode(value).decode()

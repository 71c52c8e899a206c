"""Provenance of a lineage in the words of others: one in-toto Statement v1 with SLSA provenance v1 for each stage.

The statements are chained: whatever one names as a dependency is a subject of another, down to what no stage makes:
files of the repository at a commit (``git+``) and packages of an index (``pkg:``). Folders are named by the digest of
their tree (``reckonTree``), checkpoints by their tensor root too (``reckonTensors``), files by their SHA-256. Pure and
without a clock: the newest execution of each product is told, the others stand beside it. Refuses a chain with a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from registry.core import canonical
from registry.core.audit.evidence import Evidence, Node
from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.lineage import Artifact, FileTable, Given, Link, Role
from registry.core.materials import Material, materials
from registry.core.program import Program
from registry.core.records import Output
from registry.core.release import STATEMENT_TYPE
from registry.core.resolving import root_of
from registry.errors import DoesNotHold, ReckonError

PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:deadreckon:stage:v1"
BUILDER: Final = "urn:deadreckon:reckon"
TREE, TENSORS = "reckonTree", "reckonTensors"
_ORIGINS: Final = ("git+", "pkg:")
_MOST_BYPRODUCTS = 1000

Key: TypeAlias = tuple[Digest, str, Digest]
Digests: TypeAlias = Mapping[Key, dict[str, Json]]


def statements(evidence: Evidence, files: FileTable) -> Mapping[str, bytes]:
    """The payload of each stage's statement, canonical, by the file name that it gets (without an ending).

    ``files`` gives the file table of a tree. Raises ``DoesNotHold`` when two stages would get one name, or a dependency
    is the subject of no statement.
    """
    given = (pair for node in evidence.nodes.values() for pair in _given(node))
    named = {_key(*pair): _digests(*pair, files) for pair in given}
    told = {
        node.digest: _statement(node, named, evidence.programs.get(node.product.recipe, ()))
        for node in evidence.nodes.values()
    }
    names = [file_name(node.label) for node in evidence.nodes.values()]
    if len(set(names)) != len(names):
        raise DoesNotHold("Two stages of the lineage would have one provenance file.", remedy="Rename one of them.")
    gaps = broken(list(told.values()))
    if gaps:
        raise DoesNotHold(f"The provenance has a gap: {gaps[0]}", remedy="See 'reckon tree'; record what is missing.")
    return {name: canonical.encode(one) for name, one in zip(names, told.values(), strict=True)}


def file_name(label: str) -> str:
    """The file name of a stage's statement: ``hero/2`` is ``hero-2``."""
    return label.replace("/", "-").replace("~", "-")


def broken(told: Sequence[Mapping[str, Json]]) -> tuple[str, ...]:
    """A sentence for every dependency that no statement has as a subject and that no origin is."""
    subjects = {pair for one in told for pair in _pairs(one.get("subject"))}
    found = []
    for one in told:
        for dependency in _dependencies(one):
            uri, named = str(dependency.get("uri", "")), set(_pairs([dependency]))
            if not uri.startswith(_ORIGINS) and not (named and named <= subjects):
                found.append(f"{dependency.get('name')} is a dependency and no statement's subject.")
    return tuple(found)


def _given(node: Node) -> Iterator[tuple[Artifact, Digest]]:
    """What a stage was given of others, each with the digest that its recipe has."""
    for link in node.links:
        if isinstance(link.source, Artifact) and link.role is Role.INPUT and link.digest is not None:
            yield link.source, link.digest


def _digests(source: Artifact, digest: Digest, files: FileTable) -> dict[str, Json]:
    """The digest of an output or of a part of it under its kind: a folder's tree, or a file's SHA-256."""
    if digest == source.output.digest:
        return {TREE: digest.hex}
    try:
        is_file = any(entry.digest == digest for entry in files(source.output.digest))
    except ReckonError:
        is_file = False
    return {"sha256": digest.hex} if is_file else {TREE: digest.hex}


def _key(source: Artifact, digest: Digest) -> Key:
    return source.product, _path(source), digest


def _path(source: Artifact) -> str:
    return source.output.path if source.path is None else f"{source.output.path}/{source.path}"


def _statement(node: Node, named: Digests, programs: Sequence[Program]) -> dict[str, Json]:
    if not node.executions:
        raise DoesNotHold(f"No complete execution of {node.label} is on record.", remedy="See 'reckon log'.")
    subjects: dict[str, dict[str, Json]] = {output.path: _digest(output) for output in node.product.outputs}
    for (product, path, _), digest in named.items():
        if product == node.digest:
            subjects[path] = {**subjects.get(path, {}), **digest}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": path, "digest": digest} for path, digest in sorted(subjects.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"buildDefinition": _definition(node, named, programs), "runDetails": _run(node)},
    }


def _digest(output: Output) -> dict[str, Json]:
    root = root_of(output)
    return {TREE: output.digest.hex, **({} if root is None else {TENSORS: root.hex})}


def _definition(node: Node, named: Digests, programs: Sequence[Program]) -> dict[str, Json]:
    recipe, revision = node.recipe, node.executions[-1][1].revision
    if recipe is None:
        raise DoesNotHold(f"The recipe of {node.label} is not on record.", remedy="See 'reckon verify --all'.")
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "stage": recipe.stage,
            "command": list(recipe.command),
            "config": recipe.config,
            "determinism": recipe.determinism,
        },
        "internalParameters": {
            "recipe": str(node.product.recipe),
            "lock": str(recipe.lock),
            "source": [one.to_json() for one in recipe.source],
            "tree": revision.tree,
            "host": node.executions[-1][1].host,
            **({"programs": [one.to_json() for one in programs]} if programs else {}),
        },
        "resolvedDependencies": [
            {"name": "repository", "uri": "git+repository", "digest": {"gitCommit": revision.commit}},
            *map(_package, materials(recipe)),
            *(_dependency(link, named) for link in node.links),
        ],
    }


def _package(one: Material) -> dict[str, Json]:
    return {"name": one.name, "uri": f"pkg:pypi/{one.name}@{one.version}", "digest": {"sha256": one.sha256}}


def _dependency(link: Link, named: Digests) -> dict[str, Json]:
    """What a stage was given. What no stage makes lies in the repository; a gap has no digest and breaks the chain."""
    source, digest = link.source, link.digest
    if isinstance(source, Given) and digest is not None:
        return {"name": source.path, "uri": f"git+repository#{source.path}", "digest": {"sha256": digest.hex}}
    if not isinstance(source, Artifact) or digest is None:
        return {"name": link.name}
    found = _digest(source.output) if link.role is Role.PARENT else named[_key(source, digest)]
    return {"name": _path(source), "digest": found, "annotations": {"artifact": link.name, "role": link.role.value}}


def _run(node: Node) -> dict[str, Json]:
    digest, execution = node.executions[-1]
    ended: dict[str, Json] = {} if execution.ended is None else {"finishedOn": execution.ended}
    records = [("product", node.digest), *(("execution", one) for one, _ in node.executions[:_MOST_BYPRODUCTS])]
    return {
        "builder": {"id": BUILDER},
        "metadata": {"invocationId": str(digest), "startedOn": execution.started, **ended},
        "byproducts": [
            {"name": f"manifests/{kind}s/{one.hex}.json", "digest": {"sha256": one.hex}} for kind, one in records
        ],
    }


def _dependencies(statement: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """The dependencies of a statement that may be a stranger's."""
    predicate = statement.get("predicate")
    definition = predicate.get("buildDefinition") if isinstance(predicate, Mapping) else None
    listed = definition.get("resolvedDependencies") if isinstance(definition, Mapping) else None
    for one in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        if isinstance(one, Mapping):
            yield one


def _pairs(descriptors: Json) -> Iterator[tuple[str, str, str]]:
    """Name, algorithm and hex of every digest of some descriptors."""
    for one in descriptors if isinstance(descriptors, Sequence) and not isinstance(descriptors, str) else ():
        digest = one.get("digest") if isinstance(one, Mapping) else None
        if isinstance(one, Mapping) and isinstance(digest, Mapping):
            for algorithm, value in digest.items():
                yield str(one.get("name")), algorithm, str(value)

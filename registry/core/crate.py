"""The release as an RO-Crate 1.1 with the profile Process Run Crate 0.5: files, and the executions that led to them.

``ro-crate-metadata.json`` is a flat JSON-LD graph. Every execution of the lineage is a ``CreateAction``: what was run,
on what, with what result. Files of the folder are ``File``; what does not lie in it is a ``CreativeWork`` named by its
digest. Canonical JSON, so that equal releases have equal crates. Refuses nothing that a release may hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from registry.core import canonical
from registry.core.audit.evidence import Evidence, Node
from registry.core.canonical import Json
from registry.core.digests import Digest, FileEntry
from registry.core.lineage import Artifact, Given, Link
from registry.core.records import Execution, Output
from registry.core.release import CRATE, Terms

CONTEXT: Final = "https://w3id.org/ro/crate/1.1/context"
PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
SPECIFICATION: Final = "https://w3id.org/ro/crate/1.1"
BUILD: Final = "#release"
_LICENCE: Final = "#licence"
_MEDIA: Final = {
    "json": "application/json",
    "md": "text/markdown",
    "svg": "image/svg+xml",
    "tar": "application/x-tar",
    "jinja": "text/plain",
}

Entity = dict[str, Json]


def crate(terms: Terms, licence: str, evidence: Evidence, files: Sequence[FileEntry]) -> bytes:
    """The bytes of the crate's metadata. ``files`` are those of the folder, but the crate itself and the signatures."""
    nodes = evidence.nodes.values()
    exported = _exported(evidence, terms, files)
    actions = [one for node in nodes for one in _actions(node, terms, exported)]
    graph: list[Json] = [
        *_frame(terms, licence, files, [*actions, _build(terms, exported, files)]),
        *(_file(entry) for entry in files),
        *actions,
        _build(terms, exported, files),
        *(_program(node) for node in nodes),
        *_outside(evidence, terms),
    ]
    return canonical.encode({"@context": CONTEXT, "@graph": graph}) + b"\n"


def _frame(terms: Terms, licence: str, files: Sequence[FileEntry], actions: Sequence[Entity]) -> Iterator[Entity]:
    """The descriptor, the root, and what they name."""
    yield {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": SPECIFICATION},
    }
    yield {
        "@id": "./",
        "@type": "Dataset",
        "name": str(terms.identity),
        "description": f"The release {terms.identity}, with the records of how it came to be.",
        "datePublished": terms.time,
        "version": terms.identity.version,
        "license": {"@id": _LICENCE},
        "conformsTo": {"@id": PROFILE},
        "hasPart": [_reference(entry) for entry in files],
        "mentions": [{"@id": one["@id"]} for one in actions],
    }
    yield {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    yield {"@id": _LICENCE, "@type": "CreativeWork", "name": licence, "description": "The licence of the weights."}
    yield {"@id": "#reckon", "@type": "SoftwareApplication", "name": "reckon release build"}


def _file(entry: FileEntry) -> Entity:
    media = _MEDIA.get(entry.path.rpartition(".")[2], "application/octet-stream")
    return {
        "@id": quote(entry.path),
        "@type": "File",
        "name": entry.path,
        "contentSize": str(entry.size_bytes),
        "encodingFormat": media,
        "identifier": str(entry.digest),
    }


def _reference(entry: FileEntry) -> Entity:
    return {"@id": quote(entry.path)}


def _exported(evidence: Evidence, terms: Terms, files: Sequence[FileEntry]) -> list[Json]:
    """The files of the folder that the export gave: those that nothing else here makes."""
    made = ("provenance/", "README.md", "checkpoints.json", "loss.svg")
    return [_reference(entry) for entry in files if not entry.path.startswith(made)]


def _actions(node: Node, terms: Terms, exported: Sequence[Json]) -> Iterator[Entity]:
    for digest, execution in node.executions:
        result = (
            exported if node.digest == terms.product else [{"@id": _output_id(one)} for one in node.product.outputs]
        )
        yield _action(node, (digest, execution), result)


def _action(node: Node, told: tuple[Digest, Execution], result: Sequence[Json]) -> Entity:
    digest, execution = told
    ended: Entity = {} if execution.ended is None else {"endTime": execution.ended}
    return {
        "@id": f"#{digest}",
        "@type": "CreateAction",
        "name": f"{node.product.stage}, {execution.attempt}",
        "description": f"The recipe {node.product.recipe} at commit {execution.revision.commit}.",
        "startTime": execution.started,
        **ended,
        "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
        "instrument": {"@id": _program_id(node)},
        "object": [{"@id": name} for name in dict.fromkeys(_link_id(link) for link in node.links)],
        "result": result,
    }


def _build(terms: Terms, exported: Sequence[Json], files: Sequence[FileEntry]) -> Entity:
    return {
        "@id": BUILD,
        "@type": "CreateAction",
        "name": f"building {terms.identity}",
        "description": f"The release folder, made at commit {terms.commit}.",
        "endTime": terms.time,
        "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
        "instrument": {"@id": "#reckon"},
        "object": list(exported),
        "result": [made for entry in files if (made := _reference(entry)) not in exported],
    }


def _program(node: Node) -> Entity:
    command = () if node.recipe is None else node.recipe.command
    lock = {} if node.recipe is None else {"softwareRequirements": str(node.recipe.lock)}
    return {"@id": _program_id(node), "@type": "SoftwareApplication", "name": " ".join(command) or node.label, **lock}


def _outside(evidence: Evidence, terms: Terms) -> Iterator[Entity]:
    """What the executions speak of and the folder does not hold, each once."""
    found: dict[str, Entity] = {}
    for node in evidence.nodes.values():
        for output in node.product.outputs if node.digest != terms.product else ():
            found.setdefault(_output_id(output), _outer(_output_id(output), output.name, output.digest))
        for link in node.links:
            found.setdefault(_link_id(link), _outer(_link_id(link), link.name, link.digest))
    yield from (found[name] for name in sorted(found))


def _outer(name: str, text: str, digest: Digest | None) -> Entity:
    told: Entity = {} if digest is None else {"identifier": str(digest)}
    return {"@id": name, "@type": "CreativeWork", "name": text, **told}


def _output_id(output: Output) -> str:
    return quote(f"#artifact/{output.name}/{output.digest.hex}", safe="#/@")


def _link_id(link: Link) -> str:
    """What a stage was given: an output, a part of one, a file of the repository, or what nobody has on record."""
    source = link.source
    if isinstance(source, Artifact) and source.path is None:
        return _output_id(source.output)
    if isinstance(source, Given):
        return quote(f"#repository/{source.path}", safe="#/")
    digest = "missing" if link.digest is None else link.digest.hex
    return quote(f"#artifact/{link.name}/{digest}", safe="#/@")


def _program_id(node: Node) -> str:
    return quote(f"#program/{node.label}", safe="#/")

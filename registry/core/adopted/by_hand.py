"""How to check an edge of a foreign thing by hand: with the shell and Python, and with the sources that are cited."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from registry.core.adopted.shelf import Shelf, Thing
from registry.core.audit.by_hand import Step
from registry.core.audit.edges import Edge, Kind

_MOST = 5
_CLAIMS = (
    "import json,sys; [print(c['value'], '|', c['source'], '|', c['note']) for c in json.load(sys.stdin)['claims']%s]"
)


def steps(edge: Edge, shelf: Shelf) -> Iterator[Step]:
    """Commands, each with what it should say; sources to open stand behind a ``#``."""
    thing = shelf.things.get(edge.holder)
    if edge.kind is Kind.RECORD:
        yield Step(command="cd manifests/adopted && sha256sum *.json", expected="every file's own name")
    if thing is None:
        return
    for digest, _ in thing.records[:_MOST]:
        path = f"manifests/adopted/{digest.hex}.json"
        yield Step(command=f"sha256sum {path}", expected=f"{digest.hex}, its own name")
        chosen = f" if c['quantity'] == {edge.target!r}" if edge.target in thing.said else ""
        if edge.kind is Kind.FIGURE:
            code = quote(_CLAIMS % chosen)
            yield Step(command=f"python3 -c {code} < {path}", expected="what is told, with the source of each")
        else:
            code = quote("import json,sys; print(json.dumps(json.load(sys.stdin)['links'], indent=1))")
            yield Step(command=f"python3 -c {code} < {path}", expected="what is told of parents, parts and inputs")
    for text in _sources(edge, thing)[:_MOST]:
        yield Step(command=f"# {text}", expected="what is told here")


def _sources(edge: Edge, thing: Thing) -> list[str]:
    claims = thing.said.get(edge.target) or tuple(one for told in thing.said.values() for one in told)
    return list(dict.fromkeys(one.source for one in claims))

"""How to check an edge by hand: shell commands and what they should say, with no part of this project but the records.

Texts come from hostile records, so every one of them is quoted for the shell and none can be an option. Refuses commits
that are no object ids: no command is given for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from shlex import quote

from registry.core.audit.code import LOCK, PARAMS
from registry.core.audit.edges import Edge, Kind
from registry.core.audit.evidence import FORECAST, HISTORY, ORDER, TRANSCRIPT, Evidence, Node
from registry.core.digests import Digest
from registry.core.lineage import Artifact, Role
from registry.core.records import Output, Revision
from registry.core.resolving import root_of

_MOST = 5
_SHORT = re.compile(r"[0-9a-f]{12}")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}")
_LIST = (
    "import pyarrow.parquet as q; [print(r['sha256'] + '  ' + p + '/' + r['path']) for p, t in [(%r, %r)] "
    "for r in q.read_table(t).to_pylist()]"
)

_UNPACK = (
    "import base64, json, pathlib, sys; d = pathlib.Path(sys.argv[1]); e = json.load(sys.stdin)['envelope']; "
    "p = base64.b64decode(e['payload']); t = e['payloadType'].encode(); s = e['signatures'][0]; "
    "(d / 'signed').write_bytes(b'DSSEv1 %d %b %d %b' % (len(t), t, len(p), p)); "
    "(d / 'sig').write_bytes(base64.b64decode(s['sig'])); (d / 'key').write_text(s['publicKey'])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do: a command line, and what it should say."""

    command: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    edge: Edge
    node: Node
    output: Output
    evidence: Evidence

    @property
    def records(self) -> Iterator[tuple[str, Digest]]:
        yield "products", self.node.digest
        yield "recipes", self.node.product.recipe
        for digest, _ in self.node.executions[:_MOST]:
            yield "executions", digest


def steps(edge: Edge, evidence: Evidence) -> tuple[Step, ...]:
    """How to check the edge. In a bundle, unpack it first: ``tar -xf FILE``; small artifacts lie under ``bytes/``."""
    node = next((one for one in evidence.nodes.values() if edge.holder.partition("@")[0] == one.label), None)
    if node is None:
        return (Step(command="git status --short manifests", expected="nothing: no committed record was altered"),)
    named = (output for output in node.product.outputs if node.named(output.name) == edge.holder)
    output = next(named, node.product.outputs[0])
    return tuple(_RULES[edge.kind](_Case(edge=edge, node=node, output=output, evidence=evidence)))


def _bytes(case: _Case) -> Iterator[Step]:
    output = case.output
    table = f"manifests/objects/{output.digest.hex}.parquet"
    code = quote(_LIST % (output.path, table))
    yield Step(command=f"python3 -c {code} | sha256sum --check --quiet", expected="nothing: every file is as recorded")
    yield Step(command=f"find {_path(output.path)} -type f | wc -l", expected=f"{output.files}")


def _weights(case: _Case) -> Iterator[Step]:
    yield Step(command=f"reckon root {_path(case.output.path)}", expected=f"{root_of(case.output)}")
    yield from _bytes(case)


def _record(case: _Case) -> Iterator[Step]:
    for folder, digest in case.records:
        yield Step(command=f"sha256sum manifests/{folder}/{digest.hex}.json", expected=f"{digest.hex}, its own name")


def _recipe(case: _Case) -> Iterator[Step]:
    wanted = quote(f'"recipe":"{case.node.product.recipe}"')
    products = quote('"product":[^,]*')
    yield Step(
        command=f"grep -l {wanted} manifests/executions/*.json | xargs grep -ho {products}",
        expected=f'only "product":"{case.node.digest}" or null',
    )


def _attestation(case: _Case) -> Iterator[Step]:
    """The signature by OpenSSL, over the bytes that DSSE says are signed."""
    if not _SHORT.fullmatch(case.edge.target):
        return
    record = f"manifests/attestations/{case.edge.target}*.json"
    unpack = f'python3 -c {quote(_UNPACK)} "$d" < {record}'
    check = 'openssl dgst -sha256 -verify "$d/key" -signature "$d/sig" "$d/signed"'
    yield Step(command=f"d=$(mktemp -d); {unpack} && {check}; rm -r $d", expected="Verified OK")
    read = quote(
        "import base64, json, sys; print(base64.b64decode(json.load(sys.stdin)['envelope']['payload']).decode())"
    )
    yield Step(command=f"python3 -c {read} < {record}", expected="who, the tier, the setup, and the product")


def _parent(case: _Case) -> Iterator[Step]:
    yield from _facts(case, "parent")
    for link in case.node.links:
        parent = link.role is Role.PARENT and link.name == case.edge.target
        if parent and isinstance(link.source, Artifact):
            yield Step(command=f"reckon root {_path(link.source.output.path)}", expected=f"{link.digest}")


def _steps(case: _Case) -> Iterator[Step]:
    yield from _facts(case, "steps")
    yield from _facts(case, "parent")


def _facts(case: _Case, field: str) -> Iterator[Step]:
    code = quote(f"import json, sys; print(json.load(sys.stdin)[{field!r}])")
    for digest, execution in case.node.executions[:_MOST]:
        yield Step(
            command=f"python3 -c {code} < manifests/executions/{digest.hex}.json",
            expected=str(execution.to_json().get(field)),
        )


def _paper(name: str) -> Callable[[_Case], Iterator[Step]]:
    def told(case: _Case) -> Iterator[Step]:
        path, digest = f"{case.output.path}/{name}", case.evidence.part(case.node.own[0], name)
        yield Step(command=f"sha256sum {_path(path)}", expected=f"{digest.hex if digest else 'no such file on record'}")
        if name == TRANSCRIPT:
            yield Step(command=f"sed -n '1p;$p' {_path(path)}", expected="the first and the last step of the run")
        if name == ORDER:
            yield Step(command=f"python3 -m json.tool {_path(path)}", expected="counts that add up to a block")

    return told


def _tracker(case: _Case) -> Iterator[Step]:
    for digest, _ in case.node.executions[:_MOST]:
        for copy in case.evidence.copies.get(digest, ()):
            if copy.system == "mlflow" and case.edge.target == "mlflow":
                command = f"mlflow runs describe --run-id={quote(copy.where)}"
                yield Step(command=command, expected=f"reckon.execution {digest}")
            elif copy.system == case.edge.target:
                yield Step(
                    command=f"wandb leet inspect --json {_path(copy.where)}", expected="the points of our history"
                )


def _forecast(case: _Case) -> Iterator[Step]:
    found = [digest for digest in case.evidence.sealed if digest.short == case.edge.target]
    for digest in found or [one for one in case.evidence.forecasts if one.short == case.edge.target]:
        path = f"manifests/forecasts/{digest.hex}.json"
        yield Step(command=f"sha256sum {path}", expected=f"{digest.hex}, the digest of the {FORECAST} that was given")
        command = f"git log --diff-filter=A --format='%H %cI' -- {path}"
        yield Step(command=command, expected="a commit before the one that added the run's executions")
    yield from _facts(case, "started")


def _hypothesis(case: _Case) -> Iterator[Step]:
    yield from _facts(case, "hypothesis")
    yield from _shown(case, PARAMS, f"hypotheses, {case.node.product.stage}: the same")


def _input(case: _Case) -> Iterator[Step]:
    for link in case.node.links:
        if link.name != case.edge.target or link.role is not Role.INPUT:
            continue
        recipe = f"manifests/recipes/{case.node.product.recipe.hex}.json"
        yield Step(command=f"grep -o {_digest(link.digest)} {recipe}", expected="the recipe names it")
        if isinstance(link.source, Artifact):
            product = f"manifests/products/{link.source.product.hex}.json"
            inside = f"; {link.source.path} lies in it" if link.source.path else ""
            expected = f"the product of {link.source.output.name} names it{inside}"
            yield Step(command=f"grep -o {_digest(link.source.output.digest)} {product}", expected=expected)
        else:
            yield from _shown(case, link.name, f"{link.digest}", pipe=" | sha256sum")


def _digest(digest: Digest | None) -> str:
    return quote(f'"digest":"{digest}"')


def _config(case: _Case) -> Iterator[Step]:
    recipe = f"manifests/recipes/{case.node.product.recipe.hex}.json"
    code = quote("import json, sys; print(json.dumps(json.load(sys.stdin)['config'], indent=1))")
    yield Step(command=f"python3 -c {code} < {recipe}", expected="the settings that were asked")
    yield from _shown(case, PARAMS, "the same settings under the same keys")


def _code(case: _Case) -> Iterator[Step]:
    source = case.node.recipe.source if case.node.recipe else ()
    paths = " ".join(_path(file.path) for file in source)
    for revision in _revisions(case):
        listed = "; ".join(f"{file.blob.hex} {file.path}" for file in source)
        yield Step(command=f"git ls-tree -r {revision.commit} -- {paths}", expected=listed)


def _commit(case: _Case) -> Iterator[Step]:
    for revision in _revisions(case):
        dirty = f"; it ran with the patch {revision.patch}, which no commit holds" if revision.dirty else ""
        yield Step(command=f"git cat-file -p {revision.commit}", expected=f"tree {revision.tree}{dirty}")


def _lock(case: _Case) -> Iterator[Step]:
    expected = case.node.recipe.lock.hex if case.node.recipe else "the recipe is not on record"
    yield from _shown(case, LOCK, expected, pipe=" | sha256sum")


def _program(case: _Case) -> Iterator[Step]:
    for one in case.evidence.programs.get(case.node.product.recipe, ())[:_MOST]:
        setup = f"--platform {quote(one.platform)} --devices {one.devices}"
        command = f"reckon program {quote(one.asked.name)} {setup} --commit {one.commit}"
        yield Step(command=command, expected=str(one.program))


def _environment(case: _Case) -> Iterator[Step]:
    for _, execution in case.node.executions[:_MOST]:
        if execution.environment is not None:
            path = f"manifests/environments/{execution.environment.hex}.json"
            yield Step(command=f"python3 -m json.tool {path}", expected="what was imported, with versions")
    yield from _shown(case, LOCK, "the same versions", pipe=" | grep ==")


def _hardware(case: _Case) -> Iterator[Step]:
    yield from _facts(case, "host")


def _shown(case: _Case, path: str, expected: str, pipe: str = "") -> Iterator[Step]:
    for revision in _revisions(case):
        yield Step(command=f"git show {quote(f'{revision.commit}:{path}')}{pipe}", expected=expected)


def _revisions(case: _Case) -> list[Revision]:
    return [one for one in case.node.revisions if _OBJECT_ID.fullmatch(one.commit)][:_MOST]


def _path(path: str) -> str:
    """A path for the shell that no program takes for an option."""
    return quote(f"./{path}" if path.startswith("-") else path)


_RULES: dict[Kind, Callable[[_Case], Iterator[Step]]] = {
    Kind.BYTES: _bytes,
    Kind.WEIGHTS: _weights,
    Kind.RECORD: _record,
    Kind.RECIPE: _recipe,
    Kind.ATTESTATION: _attestation,
    Kind.PARENT: _parent,
    Kind.STEPS: _steps,
    Kind.TRANSCRIPT: _paper(TRANSCRIPT),
    Kind.ORDER: _paper(ORDER),
    Kind.HISTORY: _paper(HISTORY),
    Kind.TRACKER: _tracker,
    Kind.FORECAST: _forecast,
    Kind.HYPOTHESIS: _hypothesis,
    Kind.INPUT: _input,
    Kind.CONFIG: _config,
    Kind.CODE: _code,
    Kind.COMMIT: _commit,
    Kind.LOCK: _lock,
    Kind.PROGRAM: _program,
    Kind.ENVIRONMENT: _environment,
    Kind.HARDWARE: _hardware,
}

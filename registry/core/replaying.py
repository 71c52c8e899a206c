"""What is to be made again: the artifact, the execution that gave it, and the span of steps to replay.

A clean execution is chosen before a dirty one, the newest among equals. Refuses artifacts that no complete execution
gave, spans of stages without steps, and to begin anywhere but at the beginning or at a checkpoint that was kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.records import Execution, Output, Product, Recipe
from registry.core.rederivation import rederives
from registry.core.resolving import Prefix, Reference, artifact, artifacts_with, one_of, root_of
from registry.core.standing import covered
from registry.errors import DoesNotHold, Refused, UnknownName

SCRATCH: Final = "scratch"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An artifact to be made again: output, product, recipe, and the execution whose commit and command will run."""

    output: Output
    product_digest: Digest
    product: Product
    recipe: Recipe
    execution_digest: Digest
    execution: Execution
    hosts: frozenset[str]
    steps: range | None

    @property
    def stage(self) -> str:
        """The stage that makes it."""
        return self.product.stage

    @property
    def own(self) -> Output:
        """The stage's own output, which holds the kept checkpoints, transcript and evaluation."""
        return self.product.output(self.stage) or self.product.outputs[0]

    @property
    def step(self) -> int | None:
        """The step of the checkpoint that was named; None for a whole output."""
        return Name.parse(self.output.name).step

    @property
    def kept(self) -> Mapping[int, Output]:
        """The kept checkpoints by step."""
        named = ((Name.parse(one.name).step, one) for one in self.product.outputs)
        return {step: one for step, one in sorted(named, key=lambda pair: pair[0] or 0) if step is not None}

    @property
    def parent(self) -> str | None:
        """The name of the checkpoint that the segment continued; None when it began from nothing."""
        told = self.execution.parent
        return None if told is None else f"{told.get('name')}@step-{told.get('step')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The steps to replay. ``begin`` is the kept checkpoint to start from, None for the stage's own beginning;
    ``stop`` the last step, None for the stage's own end."""

    begin: int | None = None
    stop: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the stage runs as it did, from its beginning to its end."""
        return self.begin is None and self.stop is None


def target(ledger: Ledger, reference: Reference) -> Target:
    """What a name or digest means, ready to be made again.

    Raises ``UnknownName`` when nothing is known, ``Refused`` for an execution without a product, ``DoesNotHold`` when a
    record that is needed cannot be read.
    """
    if isinstance(reference, Prefix):
        return _of_digest(ledger, reference)
    held = artifact(ledger, reference)
    return of_product(ledger, held.product_digest, held.output)


def of_product(ledger: Ledger, digest: Digest, output: Output, execution: Digest | None = None) -> Target:
    """The target for an output of a product. ``execution`` is taken when it is given, else a clean one is chosen."""
    product = ledger.products.get(digest)
    recipe = None if product is None else ledger.recipes.get(product.recipe)
    if product is None or recipe is None:
        raise DoesNotHold(
            f"The product or recipe of {output.name} cannot be read.", remedy="See 'reckon verify --all'."
        )
    told = [(key, one) for key, one in ledger.executions_of(product.stage) if one.witnesses and one.product == digest]
    chosen = [pair for pair in told if pair[0] == execution] or sorted(told, key=_preference)
    if not chosen:
        raise UnknownName(f"No complete execution on record gave {output.name}.", remedy="See 'reckon log'.")
    key, one = chosen[0]
    if not _COMMIT.fullmatch(one.revision.commit):
        raise DoesNotHold(f"The execution {key.short} names no commit: {one.revision.commit[:40]!r}.")
    return Target(
        output=output,
        product_digest=digest,
        product=product,
        recipe=recipe,
        execution_digest=key,
        execution=one,
        hosts=frozenset(str(other.host.get("name")) for _, other in told),
        steps=covered(one, {other.attempt: other for _, other in ledger.executions_of(product.stage)}),
    )


def span(wanted: Target, start: str | None, steps: int | None) -> Span:
    """The span from ``start`` (a kept checkpoint, the parent, ``scratch``, or None) over ``steps``, else to its end.

    Raises ``Refused`` for a start that is not one, and for more steps than there were.
    """
    if wanted.steps is None:
        if start not in (None, SCRATCH) or steps is not None:
            raise Refused(f"{wanted.stage} has no steps to replay.", remedy="Leave --from and --steps out.")
        return Span()
    begin = _begin(wanted, start)
    first, last = wanted.steps.start if begin is None else begin, wanted.steps.stop
    end = wanted.step or last
    stop = end if steps is None else first + steps
    if not first < stop <= last:
        raise Refused(f"{wanted.stage} has steps {first} to {last} from there, not {first} to {stop}.")
    return Span(begin=begin, stop=None if stop == last else stop)


def _begin(wanted: Target, start: str | None) -> int | None:
    if start is None or start in (wanted.parent, SCRATCH):
        return None
    name = Name.parse(start)
    if name.stage == wanted.stage and name.step in wanted.kept and name.path is None:
        if wanted.step is not None and name.step is not None and name.step >= wanted.step:
            raise Refused(f"{start} comes after {wanted.output.name}.", remedy="Begin from an earlier checkpoint.")
        return name.step
    kept = ", ".join(f"{wanted.stage}@step-{step}" for step in wanted.kept)
    raise Refused(
        f"{wanted.stage} cannot be begun from {start}.",
        remedy=f"Begin from {wanted.parent or SCRATCH}, or from one of: {kept}.",
    )


def _preference(pair: tuple[Digest, Execution]) -> tuple[bool, bool, bool]:
    """Clean ones first, then those that are no re-derivation, then those that ran unbroken; the order is kept else."""
    execution = pair[1]
    return execution.revision.dirty, rederives(execution), execution.resumed is not None


def _of_digest(ledger: Ledger, prefix: Prefix) -> Target:
    products = [digest for digest, one in ledger.executions.items() if one.witnesses]
    outputs = [(digest, output) for digest, product in ledger.products.items() for output in product.outputs]
    roots = [root for _, output in outputs if (root := root_of(output)) is not None]
    kind, digest = one_of(
        prefix,
        {
            "execution": products,
            "product": list(ledger.products),
            "artifact": [*(output.digest for _, output in outputs), *roots],
        },
    )
    if kind == "execution":
        product = ledger.executions[digest].product
        record = None if product is None else ledger.products.get(product)
        if product is None or record is None:
            raise DoesNotHold(f"The product of the execution {digest.short} cannot be read.")
        return of_product(ledger, product, record.outputs[0], digest)
    if kind == "product":
        return of_product(ledger, digest, ledger.products[digest].outputs[0])
    product, output = artifacts_with(ledger, digest)[0]
    return of_product(ledger, product, output)

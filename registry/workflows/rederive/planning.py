"""What a re-derivation will do, told before it does anything: commit, command, span, and how today's setup differs.

Runs nothing but a question to the interpreter. Refuses a dirty execution without its patch, and a patch for a clean
one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from registry.core.canonical import Json
from registry.core.comparison import Change, Part, recipe_changes
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, Lineage, Role
from registry.core.records import Environment, Recipe, SourceFile
from registry.core.replaying import SCRATCH, Span, Target, of_product, span, target
from registry.core.resolving import Reference
from registry.core.setups import Setup, SetupChange, lacking_instructions, setup_changes
from registry.errors import Refused, UnknownName
from registry.observing import LOCK, Workshop, stage_command
from registry.ports import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody asks for. ``changes`` are settings and ``variables`` environment variables to change on purpose."""

    reference: Reference
    start: str | None = None
    steps: int | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    patch: Path | None = None
    keep: Path | None = None
    tolerance: Decimal | None = None
    noise: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run. ``today`` are the parts of the recipe that the checkout would ask otherwise now, or why that
    cannot be told. ``trusted`` is the entry of the user's allow-list that covers the commit, or None."""

    request: Request
    target: Target
    span: Span
    subject: str
    trusted: str | None
    setup: tuple[SetupChange, ...]
    scripted: frozenset[str]
    today: Mapping[Part, tuple[Change[str], ...]] | str

    @property
    def commit(self) -> str:
        """The commit whose code will run."""
        return self.target.execution.revision.commit

    @property
    def command(self) -> str:
        """The command that will run."""
        return shlex.join(self.target.recipe.command)

    @property
    def steps(self) -> range | None:
        """The steps that will be replayed, as completed updates before each."""
        whole = self.target.steps
        if whole is None:
            return None
        begin = whole.start if self.span.begin is None else self.span.begin
        return range(begin, whole.stop if self.span.stop is None else self.span.stop)

    def within(self, step: int) -> int:
        """``step``, or the last one of the window when it lies after it."""
        return step if self.span.stop is None else min(step, self.span.stop)


class History(Protocol):
    """What the repository says of commits."""

    def subject(self, commit: str) -> str:
        """The first line of its message. Raises ``Refused`` when it is not here."""
        ...

    def trusted(self, commit: str) -> str | None:
        """The entry of the user's allow-list that covers it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Plans re-derivations of one archive. ``probe`` asks the interpreter for distributions by name."""

    ledger: Ledger
    lineage: Lineage
    history: History
    host: Host
    workshop: Workshop
    probe: Callable[[Sequence[str]], Environment]
    processor_flags: frozenset[str]

    def plans(self, request: Request) -> tuple[Plan, ...]:
        """The plans in the order in which they are carried out: ``scratch`` begins with the first of all parents."""
        wanted = target(self.ledger, request.reference)
        if request.keep is not None and request.keep.exists():
            raise Refused(f"{request.keep} exists already.", remedy="Name a folder that does not.")
        if request.start != SCRATCH:
            return (self._plan(request, wanted, span(wanted, request.start, request.steps)),)
        ancestors = replace(request, start=None, steps=None, keep=None)
        before = [self._plan(ancestors, one, span(one, None, None)) for one in self._parents(wanted)]
        return (*before, self._plan(request, wanted, span(wanted, SCRATCH, request.steps)))

    def window(self, request: Request, begin: int | None, stop: int) -> Plan:
        """The plan for the steps from a kept checkpoint, None for the stage's beginning, to ``stop``."""
        wanted = target(self.ledger, request.reference)
        last = None if wanted.steps is None else wanted.steps.stop
        return self._plan(request, wanted, Span(begin=begin, stop=None if stop == last else stop))

    def _plan(self, request: Request, wanted: Target, steps: Span) -> Plan:
        revision = wanted.execution.revision
        if revision.dirty and request.patch is None:
            raise Refused(
                f"{wanted.output.name} was made with changes that no commit holds (patch {revision.patch}).",
                remedy="Give them with --patch FILE, as 'git diff --binary HEAD' wrote them.",
            )
        if request.patch is not None and not revision.dirty:
            raise Refused(f"{wanted.output.name} was made from a clean commit.", remedy="Leave --patch out.")
        setup, scripted = self._setup(wanted)
        return Plan(
            request=self._pinned(request, wanted.recipe),
            target=wanted,
            span=steps,
            subject=self.history.subject(revision.commit),
            trusted=self.history.trusted(revision.commit),
            setup=setup,
            scripted=scripted,
            today=self._today(wanted),
        )

    def _parents(self, wanted: Target) -> list[Target]:
        """The segments that a target continues, the first of all in front."""
        found: list[Target] = []
        product = wanted.product_digest
        while True:
            links = [link for link in self.lineage.links(product) if link.role is Role.PARENT]
            if not links:
                return found
            source = links[0].source
            if not isinstance(source, Artifact):
                raise UnknownName(f"{links[0].name} is on record nowhere.", remedy="Begin from a kept checkpoint.")
            product = source.product
            own = self.ledger.products[product].outputs[0]
            found.insert(0, of_product(self.ledger, product, own))

    def _pinned(self, request: Request, recipe: Recipe) -> Request:
        """A variable that the stage pins by a setting (NPROC is ``determinism.nproc``) is changed in that setting."""
        declared = recipe.config.get("determinism")
        pins = declared if isinstance(declared, Mapping) else {}
        pinned = {name: value for name, value in request.variables.items() if name.lower() in pins}
        return replace(
            request,
            changes={**request.changes, **{f"determinism.{name.lower()}": value for name, value in pinned.items()}},
            variables={name: value for name, value in request.variables.items() if name not in pinned},
        )

    def _setup(self, wanted: Target) -> tuple[tuple[SetupChange, ...], frozenset[str]]:
        """How this machine and its interpreter differ, and the distributions with scripts.

        The accelerator is known only to what runs.
        """
        recorded = recorded_setup(self.ledger, wanted)
        if recorded.environment is None:
            return (), frozenset()
        told = recorded.environment
        found = self.probe([str(one.get("name")) for one in told.distributions])
        here = Setup(
            environment=replace(found, accelerator=told.accelerator),
            host=self.host.facts(),
            determinism=_here(recorded.determinism, self.host.numerics()),
        )
        lacking = lacking_instructions(recorded.determinism, self.processor_flags)
        scripted = frozenset(str(one.get("name")) for one in found.distributions if one.get("scripts"))
        return (*([lacking] if lacking else []), *setup_changes(recorded, here, scripted)), scripted

    def _today(self, wanted: Target) -> Mapping[Part, tuple[Change[str], ...]] | str:
        """What the checkout would ask of the stage now, inputs aside."""
        try:
            spec = self.workshop.spec(wanted.stage)
            blobs = self.workshop.repository.blobs(spec.code)
            now = replace(
                wanted.recipe,
                command=tuple(shlex.split(stage_command(spec.command))),
                config=spec.config,
                source=tuple(SourceFile(path=path, blob=blob) for path, blob in sorted(blobs.items())),
                lock=self.workshop.digest(LOCK),
            )
        except Refused as error:
            return error.message
        return recipe_changes(wanted.recipe, now)


def recorded_setup(ledger: Ledger, wanted: Target) -> Setup:
    """What the recorded execution ran on, as its records tell."""
    execution = wanted.execution
    environment = None if execution.environment is None else ledger.environments.get(execution.environment)
    return Setup(environment=environment, host=execution.host, determinism=wanted.recipe.determinism)


def _here(recorded: Mapping[str, Json], numerics: Mapping[str, Json]) -> Mapping[str, Json]:
    """The determinism of the recipe as it would be here: its own settings, this machine's libraries."""
    return {**recorded, **{key: value for key, value in numerics.items() if key in recorded}} if recorded else {}

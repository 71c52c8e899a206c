"""Attestations: somebody says, with a signature, that they derived a product again, how far, and on what.

The statement is an in-toto Statement v1 about the product and its outputs; its predicate says who, the tier, the setup,
the coverage and the executions that it rests on. The record keeps the signed envelope as it is. What it is worth is for
a trust policy to say. Refuses unknown schemas, tiers that no one knows, and a predicate that speaks of another product
than the subjects do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Self

from registry.core.canonical import Json
from registry.core.codec import Reader, opened
from registry.core.digests import Digest
from registry.core.dsse import Envelope
from registry.core.records import Output, Product
from registry.core.resolving import root_of
from registry.core.statement import Statement, Subject
from registry.core.trust import Judgement
from registry.errors import MalformedRecord

PREDICATE_TYPE: Final = "urn:deadreckon:rederivation:v1"
TREE, TENSORS = "reckonTree", "reckonTensors"
TIERS: Final = ("T0", "T1", "T2", "T3", "T4")
LONGEST_WHO: Final = 200


class Outcome(StrEnum):
    """What a re-derivation came to."""

    AGREES = "agrees"  # the same bytes, or within what was allowed
    CONTRADICTS = "contradicts"  # other bytes of one recipe under one setup
    MISMATCH = "setup-mismatch"  # other bytes under another setup: no contradiction


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederivation:
    """What is attested: ``who`` derived ``product`` of ``recipe`` again, up to ``tier``, with this outcome.

    ``replayed_steps`` of ``total_steps`` were made again, None for a stage without steps. ``setup`` tells host, Python,
    platform and determinism; ``executions`` are the digests of the records that it rests on.
    """

    SCHEMA: ClassVar[int] = 1

    who: str
    stage: str
    recipe: Digest
    product: Digest
    outcome: Outcome
    tier: str
    replayed_steps: int | None
    total_steps: int | None
    setup: Mapping[str, Json]
    executions: tuple[Digest, ...]
    time: str
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.who.strip() or len(self.who) > LONGEST_WHO or not self.who.isprintable():
            raise MalformedRecord("An attestation says in a short line who attests.")
        if self.tier not in TIERS:
            raise MalformedRecord(f"{self.tier[:40]!r} is no tier of reproduction; known are {', '.join(TIERS)}.")

    @property
    def coverage(self) -> str:
        """The tier, with the steps that were made again where there are any."""
        return self.tier if self.total_steps is None else f"{self.tier} {self.replayed_steps}/{self.total_steps} steps"

    @property
    def machine(self) -> str:
        """The setup in a line: host, processor and cores."""
        host = self.setup.get("host")
        facts = host if isinstance(host, Mapping) else {}
        cores = f"{facts['cores']} cores" if "cores" in facts else ""
        told = [str(facts.get(key, "")) for key in ("name", "processor")]
        return ", ".join(one for one in (*told, cores, f"Python {self.setup.get('python', 'unsaid')}") if one)

    def statement(self, product: Product) -> Statement:
        """The statement to sign: about the product's record and everything that came out."""
        return Statement(
            subjects=(Subject.of_bytes(_record(self.product), self.product), *map(_subject, product.outputs)),
            predicate_type=PREDICATE_TYPE,
            predicate=self.predicate(),
        )

    @classmethod
    def of(cls, envelope: Envelope) -> Self:
        """What an envelope attests; its signature is checked elsewhere. Raises ``MalformedRecord``."""
        statement = Statement.of(envelope)
        if statement.predicate_type != PREDICATE_TYPE:
            raise MalformedRecord(f"{statement.predicate_type[:120]!r} is no attestation of a re-derivation.")
        one = cls._read(Reader(statement.predicate, "the attestation"))
        subject = next((subject for subject in statement.subjects if subject.name == _record(one.product)), None)
        if subject is None or subject.sha256 != one.product:
            raise MalformedRecord("An attestation speaks of another product than the one that it is about.")
        return one

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        schema, outcome = reader.integer("schema"), reader.text("outcome")
        if schema != cls.SCHEMA or outcome not in set(Outcome):
            raise MalformedRecord(
                f"This version of reckon reads no attestation of schema {schema} that {outcome[:40]!r}."
            )
        return cls(
            who=reader.text("who"),
            stage=reader.text("stage"),
            recipe=reader.digest("recipe"),
            product=reader.digest("product"),
            outcome=Outcome(outcome),
            tier=reader.text("tier"),
            replayed_steps=reader.optional("replayed_steps", reader.integer),
            total_steps=reader.optional("total_steps", reader.integer),
            setup=reader.mapping("setup"),
            executions=tuple(map(Digest.parse, reader.texts("executions"))),
            time=reader.text("time"),
            extra=reader.rest(),
        )

    def predicate(self) -> dict[str, Json]:
        """The facts that are signed."""
        return {
            **self.extra,
            "schema": self.SCHEMA,
            "who": self.who,
            "stage": self.stage,
            "recipe": str(self.recipe),
            "product": str(self.product),
            "outcome": self.outcome.value,
            "tier": self.tier,
            "replayed_steps": self.replayed_steps,
            "total_steps": self.total_steps,
            "setup": self.setup,
            "executions": [str(one) for one in self.executions],
            "time": self.time,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """The record: an attestation's envelope, as it was signed."""

    KIND: ClassVar[str] = "attestation"
    SCHEMA: ClassVar[int] = 1

    envelope: Envelope
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Rederivation.of(self.envelope)

    @property
    def kind(self) -> str:
        return self.KIND

    def to_json(self) -> dict[str, Json]:
        return {**self.extra, "kind": self.KIND, "schema": self.SCHEMA, "envelope": self.envelope.to_json()}

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        return cls(envelope=Envelope.from_json(reader.raw("envelope")), extra=reader.rest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """An attestation whose signature was checked: what it says, by which key, and how the trust policy sees that.

    ``source`` is where it stands: a record or a file. ``damage`` says why it cannot count, None where it can.
    """

    source: str
    envelope: Envelope
    rederivation: Rederivation
    key_id: str
    judgement: Judgement | None
    damage: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it may be told as somebody's word: the signature is good and no policy refuses the key."""
        return self.damage is None and self.judgement is not None and self.judgement.accepted

    @property
    def by(self) -> str:
        """Who answers for it: as the policy calls them, else as they call themselves."""
        known = self.judgement.who if self.judgement is not None else ""
        return known or f"{self.rederivation.who} (by their own word)"


def _record(product: Digest) -> str:
    return f"manifests/products/{product.hex}.json"


def _subject(output: Output) -> Subject:
    root = root_of(output)
    tensors = {} if root is None else {TENSORS: root.hex}
    return Subject(name=output.name, digests={TREE: output.digest.hex, **tensors})

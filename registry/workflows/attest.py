"""Attesting: a signed word that a product was derived again, taken from executions on record, and kept as a record.

Somebody else's word is taken in the same way. Refuses to keep an envelope whose signature is not good, one that speaks
of a product or recipe that is not on record here, and one that a trust policy does not let its key sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from registry.core import canonical
from registry.core.attestation import Attestation, Attested, Rederivation
from registry.core.attesting import makings, rederivation
from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.dsse import Envelope
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.resolving import artifact, one_of, reference
from registry.core.statement import Statement
from registry.errors import DoesNotHold, ReckonError, Refused, UnknownName
from registry.ports import Host, RecordStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is about to be attested, and the statement to sign."""

    rederivation: Rederivation
    statement: Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An attestation on record."""

    digest: Digest
    attested: Attested


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestor:
    """Drafts and keeps the attestations of one archive. ``check`` checks the signature of one, by the trust policy."""

    records: RecordStore
    ledger: Ledger
    host: Host
    check: Callable[[str, Envelope], Attested]

    def draft(self, name: Name, who: str, executions: Sequence[str] = ()) -> Draft:
        """What the executions of this host, or those that are named, say of an artifact's product.

        Raises ``Refused`` when they say nothing, ``UnknownName`` when one is not on record.
        """
        if name.path is not None:
            raise Refused(f"{name} is a file.", remedy=f"Attest {name.artifact}.")
        held = artifact(self.ledger, name)
        mine = [self._execution(text) for text in executions] or list(self._here(held.product.stage))
        said = rederivation(self.ledger, held, makings(self.ledger, held, mine), who, self.host.now())
        return Draft(rederivation=said, statement=said.statement(held.product))

    def keep(self, envelope: Envelope) -> Kept:
        """Put a signed attestation on record. Raises ``DoesNotHold`` and ``Refused``."""
        attested = self.check("the attestation", envelope)
        said = attested.rederivation
        if attested.damage is not None:
            raise DoesNotHold(f"It is not kept: {attested.damage}")
        if not attested.counts:
            text = attested.judgement.text if attested.judgement is not None else "it is not signed"
            raise DoesNotHold(f"It is not kept: {text}", remedy="Change trust.toml, if you trust this key.")
        if said.recipe not in self.ledger.recipes:
            raise UnknownName(
                f"It speaks of the recipe {said.recipe.short} of {said.stage}, which is not on record here."
            )
        record = Attestation(envelope=envelope)
        return Kept(digest=self.records.put(record.kind, record_bytes(record)), attested=attested)

    def listed(self, stage: str | None = None) -> Iterator[Kept | ReckonError]:
        """The attestations on record, or what is wrong with one."""
        for digest in self.records.digests(Attestation.KIND):
            try:
                record = Attestation.from_json(canonical.decode(self.records.get(Attestation.KIND, digest)))
                attested = self.check(f"the attestation {digest.short}", record.envelope)
            except ReckonError as error:
                yield error
                continue
            if stage is None or attested.rederivation.stage == stage:
                yield Kept(digest=digest, attested=attested)

    def _here(self, stage: str) -> Iterator[Digest]:
        """The executions of a stage on this host."""
        name = self.host.facts().get("name")
        return (digest for digest, one in self.ledger.executions_of(stage) if one.host.get("name") == name)

    def _execution(self, text: str) -> Digest:
        wanted = reference(text, ())
        if isinstance(wanted, Name):
            raise Refused(f"{text!r} is no digest of an execution.", remedy="See 'reckon log'.")
        return one_of(wanted, {"execution": self.ledger.executions})[1]

"""Giving an artifact a class, which decides how long its bytes are kept. Refuses classes that people do not give."""

from __future__ import annotations

from dataclasses import dataclass

from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.resolving import artifact
from registry.core.retention import Class, Retention, Subject
from registry.errors import Refused
from registry.ports import Host, RecordStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Writes the classes of one archive."""

    records: RecordStore
    ledger: Ledger
    host: Host

    def keep(self, name: Name, holds: Class, text: str) -> tuple[Digest, Retention]:
        """Give the artifact that ``name`` means now a class. Raises ``UnknownName`` and ``Refused``."""
        if name.path is not None:
            raise Refused("A single file has no class.", remedy=f"Name the artifact: {name.artifact}.")
        if holds is Class.GONE:
            raise Refused("That bytes are gone is said by the clean-up that lets them go.")
        held = artifact(self.ledger, name)
        record = Retention(
            holds=holds,
            subjects=(Subject(name=held.output.name, product=held.product_digest, digest=held.output.digest),),
            text=text.strip(),
            time=self.host.now(),
        )
        return self.records.put(record.kind, record_bytes(record)), record

"""Declaring that an artifact or one file of it may not be published.

The declaration names the bytes by the digest on record, so that an audit elsewhere can tell private from lost. Refuses
names that nothing is recorded under and a declaration without a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.resolving import artifact, digest_inside
from registry.core.withheld import Withheld
from registry.errors import UnknownName
from registry.ports import Columns, RecordStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Withholder:
    """Declares things of one archive."""

    records: RecordStore
    columns: Columns
    ledger: Ledger

    def withhold(self, name: Name, reason: str) -> Withheld:
        """Keep the declaration. Raises ``UnknownName`` when nothing is recorded under ``name``."""
        declared = Withheld(name=str(name), digest=self._digest(name), reason=reason)
        self.records.put(declared.kind, record_bytes(declared))
        return declared

    def _digest(self, name: Name) -> Digest:
        output = artifact(self.ledger, name).output
        if name.path is None:
            return output.digest
        found = digest_inside(self.columns.files(output.digest), name.path)
        if found is None:
            raise UnknownName(f"{name.artifact} has no file {name.path}.", remedy=f"See 'reckon show {name.artifact}'.")
        return found

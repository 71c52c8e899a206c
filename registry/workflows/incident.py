"""Writing an incident down, and listing what happened.

What an incident is about is pinned by the digest that is on record then, so that it stays with those bytes. Refuses
names that nothing is known under, steps that no attempt reached, and kinds that need steps without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from registry.core.codec import record_bytes
from registry.core.digests import Digest
from registry.core.incidents import Incident, Kind
from registry.core.ledger import Ledger
from registry.core.names import Name, known
from registry.core.resolving import artifact, digest_inside
from registry.errors import Refused, UnknownName
from registry.ports import Host, RecordStore, TableStore

WITHOUT_STEPS: Final = frozenset({Kind.DATA_TAINT, Kind.HARDWARE, Kind.ANNOTATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """An incident that was written down."""

    digest: Digest
    incident: Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotator:
    """Writes and lists the incidents of one archive. ``stages`` are those that are declared."""

    records: RecordStore
    tables: TableStore
    ledger: Ledger
    host: Host
    stages: tuple[str, ...]

    def add(self, name: Name, kind: Kind, steps: range | None, text: str) -> Noted:
        """Write an incident down. Raises ``Refused`` and ``UnknownName``."""
        self._check_known(name)
        if steps is None and kind not in WITHOUT_STEPS and name.step is None:
            raise Refused(f"An incident of the kind {kind} needs its steps.", remedy="Give them with --steps A:B.")
        if steps is not None and (name.step is not None or name.path is not None):
            raise Refused(f"{name} has no steps of its own.", remedy=f"Name the run, such as {name.stage}.")
        if steps is not None:
            self._check_reached(name.stage, steps)
        incident = Incident(
            about=str(name),
            digest=None if steps is not None else self._digest(name, kind),
            incident=kind,
            first_step=None if steps is None else steps.start,
            last_step=None if steps is None else steps.stop - 1,
            text=text.strip(),
            time=self.host.now(),
        )
        return Noted(digest=self.records.put(incident.kind, record_bytes(incident)), incident=incident)

    def _check_known(self, name: Name) -> None:
        stages = {*self.stages, *self.ledger.stages()}
        if not any(stage.startswith(f"{name.stage}/") for stage in stages):
            known(name.stage, stages)

    def _check_reached(self, stage: str, steps: range) -> None:
        """Some attempt of the run must have come that far; of a run without any attempt nothing is known."""
        mine = [
            one for one in self.ledger.executions.values() if one.stage == stage or one.stage.startswith(f"{stage}/")
        ]
        told = [one.steps.get("reached") for one in mine if one.steps is not None]
        reached = [step for step in told if isinstance(step, int)]
        if mine and not reached:
            raise Refused(f"{stage} is not trained in steps.", remedy="Leave --steps out.")
        if reached and steps.stop - 1 > max(reached):
            raise Refused(f"No attempt of {stage} came further than step {max(reached)}.", remedy="Correct --steps.")

    def _digest(self, name: Name, kind: Kind) -> Digest | None:
        """The digest of the artifact or file as it is on record, None where nothing is. A taint needs one."""
        bare = name.step is None and name.path is None and kind is not Kind.DATA_TAINT
        if bare and self.ledger.head(name.stage) is None:
            return None
        output = artifact(self.ledger, name).output
        if name.path is None:
            return output.digest
        found = digest_inside(self.tables.get_files(output.digest), name.path)
        if found is None:
            raise UnknownName(
                f"{name.artifact} holds no file {name.path}.", remedy=f"See 'reckon show {name.artifact}'."
            )
        return found

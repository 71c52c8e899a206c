"""Clean-up by reachability: what nothing reaches may go, and everything else stays for a reason that is told.

A plan looks at the cache, the remote, scratch and attempts, and hashes what could be the last copy of something needed.
Carrying it out writes first which outputs are let go, then deletes; it can be interrupted at any moment and run again.
Refuses to delete while a stage runs, and while records are damaged or missing, since they may reach what would go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

from registry.core.codec import record_bytes
from registry.core.deletion import Fate, Going, Needed, Place, Plan, Staying, Unit, spare
from registry.core.digests import Digest, FileEntry
from registry.core.names import Name
from registry.core.reaching import Ground, Known, Reached, Reason, own_outputs, reach
from registry.core.records import Execution, Output, Product
from registry.core.retention import Class, Retention, Subject
from registry.errors import ReckonError, Refused
from registry.ports import Attempts, Host, Places, RecordStore, Shelves

_LIST: Final = ".dir"
_STORES: Final = (Place.CACHE, Place.REMOTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a clean-up took away, and what it could not."""

    removed: tuple[Unit, ...]
    failed: tuple[str, ...]
    record: Digest | None


@dataclass(kw_only=True)
class _Books:
    """What recorded files are: needed ones by digest, with where their copies lie, and objects by md5."""

    needed: dict[Digest, Needed] = field(default_factory=dict)
    homes: dict[Digest, list[tuple[Output, FileEntry]]] = field(default_factory=dict)
    owners: dict[str, Needed] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    gone: dict[str, list[Subject]] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Cleaner:
    """Plans and carries out a clean-up of one archive. ``doubts`` are reasons not to delete anything now."""

    known: Known
    records: RecordStore
    shelves: Shelves
    places: Places
    attempts: Attempts
    host: Host
    stages: Sequence[str]
    doubts: Sequence[str] = ()

    def plan(self, *, thin: bool = False) -> Plan:
        """What goes and what stays. With ``thin``, second copies in the cache go too, where another one stays."""
        books = self._books
        fates = [self._fate(unit, thin=thin) for unit in self.places.units(self.stages)]
        sizes = frozenset(entry.size_bytes for homes in books.homes.values() for _, entry in homes)
        decided = spare(fates, books.needed, sizes, (self.shelves.digest, self._has_copy))
        return Plan(
            going=tuple(one for one in decided if isinstance(one, Going)),
            staying=tuple(one for one in decided if isinstance(one, Staying)),
            notes=(*self.places.notes, *self._doubts),
        )

    def carry_out(self, plan: Plan, advance: Callable[[int], None]) -> Done:
        """Delete what a plan lets go. ``advance`` is told of bytes. Raises ``Refused`` where nothing may be deleted."""
        if self._doubts:
            raise Refused(f"Nothing was deleted. {self._doubts[0]}", remedy="Run it again once that is mended.")
        record = self._told(plan)
        removed, failed = [], []
        for one in sorted(plan.going, key=_order):
            try:
                self.places.remove(one.unit)
                removed.append(one.unit)
                advance(one.unit.size_bytes)
            except (ReckonError, OSError) as error:
                failed.append(f"{one.unit.path}: {error}")
        return Done(removed=tuple(removed), failed=tuple(failed), record=record)

    @property
    def _doubts(self) -> tuple[str, ...]:
        """Why nothing may be deleted now."""
        return (*self.doubts, *self._books.doubts, *self._running.values())

    @cached_property
    def _running(self) -> Mapping[str, str]:
        """Stages of which an attempt lives, or of which that cannot be told, each with a sentence."""
        found = {}
        for stage in self.attempts.stages():
            try:
                if any(self.attempts.alive(log) for log in self.attempts.of_stage(stage)):
                    found[stage] = f"The stage {stage} is running."
            except ReckonError as error:
                found[stage] = f"The run logs of {stage} cannot be read: {error.message}"
        return found

    @cached_property
    def _reached(self) -> Reached:
        return reach(self.known)

    @cached_property
    def _books(self) -> _Books:
        books = _Books()
        for digest, product in self.known.ledger.products.items():
            for own in own_outputs(product):
                self._enter(books, digest, product, own)
        for locator, who in self.known.tracked.items():
            told = Needed(what=f"what {who} tracks", reason=Reason(ground=Ground.CURRENT, why=f"{who} tracks it"))
            members = self.shelves.members(locator) if locator.endswith(_LIST) else None
            for md5 in (locator, *(members or {}).values()):
                books.owners.setdefault(md5, told)
        return books

    def _enter(self, books: _Books, digest: Digest, product: Product, own: Output) -> None:
        """Write down every file of an output: needed or not, and by which md5 DVC has it."""
        listing = dict(self.shelves.listing(own) or {})
        entries = self.known.table(own)
        if entries is None:
            reason = Reason(ground=Ground.WITNESS, why="its file table cannot be read")
            books.owners.update((md5, Needed(what=own.name, reason=reason)) for md5 in listing.values())
            books.doubts.append(f"The file table of {own.name} ({digest.short}) cannot be read.")
            return
        strongest: Needed | None = None
        for entry in entries:
            reached = self._reached.reason(digest, own, entry.path)
            what = self._label(digest, product, own, entry.path)
            md5 = listing.get(entry.path)
            if reached is not None:
                needed = Needed(what=what, reason=reached)
                strongest = _stronger(strongest, needed)
                books.needed[entry.digest] = _stronger(books.needed.get(entry.digest), needed)
                books.homes.setdefault(entry.digest, []).append((own, entry))
                if md5 is not None:
                    books.owners[md5] = _stronger(books.owners.get(md5), needed)
            elif md5 is not None:
                books.dropped.setdefault(md5, what)
                books.gone.setdefault(md5, []).extend(self._subject(digest, product, own, entry.path))
        locator = (own.locator or "").removeprefix("md5:")
        if strongest is not None:
            books.owners[locator] = _stronger(books.owners.get(locator), strongest)
        else:
            books.dropped.setdefault(locator, self._label(digest, product, own, ""))

    def _label(self, digest: Digest, product: Product, own: Output, path: str) -> str:
        """What a file is part of: a checkpoint or a stage, with the product when it is not the newest."""
        name = _inner(product, own, path).name
        head = self.known.ledger.head(product.stage)
        return name if head is not None and head[1].product == digest else f"{name} ({digest.short})"

    def _subject(self, digest: Digest, product: Product, own: Output, path: str) -> Iterator[Subject]:
        """The output that loses a file, unless it was told before that it is gone."""
        output = _inner(product, own, path)
        mark = self.known.marks.of(digest, output.name)
        if mark is None or mark.holds is not Class.GONE:
            yield Subject(name=output.name, product=digest, digest=output.digest)

    def _fate(self, unit: Unit, *, thin: bool) -> Fate:
        if unit.place in _STORES:
            return self._object(unit, thin=thin)
        if unit.place is Place.SCRATCH:
            return self._scratch(unit)
        if unit.place is Place.RUNS:
            return self._attempt(unit)
        return Going(unit=unit, what="left over", why="an interrupted clean-up left it")

    def _object(self, unit: Unit, *, thin: bool) -> Fate:
        owner, dropped = self._books.owners.get(unit.name), self._books.dropped.get(unit.name)
        if owner is not None:
            spared = owner.reason.ground is Ground.CURRENT or unit.name.endswith(_LIST)
            if thin and unit.place is Place.CACHE and not spared:
                return Going(unit=unit, what=owner.what, why="another copy stays")
            return Staying(unit=unit, what=owner.what, ground=owner.reason.ground.value, why=owner.reason.why)
        if dropped is not None:
            return Going(unit=unit, what=dropped, why="nothing that stays reaches it")
        return self._aged(unit, "an object", "no record speaks of it", self.known.policy.superseded_days)

    def _scratch(self, unit: Unit) -> Fate:
        stage = self._stage_of(unit)
        what = f"scratch of {stage}" if stage else "scratch"
        if stage in self._running:
            return Staying(unit=unit, what=what, ground=Ground.CURRENT.value, why="an attempt is running")
        return self._aged(unit, what, "a killed stage may resume from it", self.known.policy.scratch_days)

    def _attempt(self, unit: Unit) -> Fate:
        stage, _, attempt = unit.name.rpartition("/")
        execution = self._executions.get((stage, attempt))
        what = f"an attempt of {stage}"
        if execution is None:
            return Staying(unit=unit, what=what, ground="unrecorded", why="no execution tells of it yet")
        made = execution.product if execution.witnesses else None
        if made is not None and made in self._reached.parts:
            why = "run log and tracker files of an execution that made what stays"
            return Staying(unit=unit, what=what, ground=Ground.WITNESS.value, why=why)
        return self._aged(unit, what, "it gave nothing that stays", self.known.policy.attempt_days)

    def _aged(self, unit: Unit, what: str, why: str, days: int) -> Fate:
        """A thing that goes once it is so many days old."""
        if unit.modified_ns > (self._now - timedelta(days=days)).timestamp() * 10**9:
            return Staying(unit=unit, what=what, ground=Ground.YOUNG.value, why=f"younger than {days} days; {why}")
        return Going(unit=unit, what=what, why=f"older than {days} days; {why}")

    def _has_copy(self, digest: Digest, away: Set[str]) -> bool:
        return any(self.shelves.holds(own, entry, away) for own, entry in self._books.homes.get(digest, ()))

    def _stage_of(self, unit: Unit) -> str | None:
        path = PurePosixPath(unit.name)
        mine = [stage for stage in self.stages if path.is_relative_to(stage)]
        return max(mine, key=len, default=None)

    @cached_property
    def _executions(self) -> Mapping[tuple[str, str], Execution]:
        return {(one.stage, one.attempt): one for one in self.known.ledger.executions.values()}

    @cached_property
    def _now(self) -> datetime:
        return datetime.fromisoformat(self.host.now())

    def _told(self, plan: Plan) -> Digest | None:
        """Write down which outputs are let go, before any byte is."""
        names = [one.unit.name for one in plan.going if one.unit.place in _STORES]
        subjects = {one for name in names for one in self._books.gone.get(name, ())}
        if not subjects:
            return None
        record = Retention(
            holds=Class.GONE,
            subjects=tuple(sorted(subjects, key=lambda one: (one.name, one.product))),
            text="let go by a clean-up: nothing that stays reached it",
            time=self.host.now(),
        )
        return self.records.put(record.kind, record_bytes(record))


def _inner(product: Product, own: Output, path: str) -> Output:
    """The checkpoint that a file of an output lies in, else the output."""
    whole = f"{own.path}/{path}"
    inside = [
        one for one in product.outputs if whole.startswith(f"{one.path}/") and Name.parse(one.name).step is not None
    ]
    return inside[0] if inside else own


def _stronger(one: Needed | None, other: Needed) -> Needed:
    ranks = list(Ground)
    if one is None or ranks.index(other.reason.ground) < ranks.index(one.reason.ground):
        return other
    return one


def _order(one: Going) -> tuple[bool, bool, str]:
    """Leftovers first, lists of folders last: as long as a list is there, what it lists is known."""
    return one.unit.place is not Place.LEFTOVER, one.unit.name.endswith(_LIST), one.unit.path

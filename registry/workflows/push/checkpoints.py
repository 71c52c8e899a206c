"""Publishing kept checkpoints, one branch each: the whole trajectory, in an order that can be cut anywhere.

A branch appears only when every byte of its checkpoint was pulled back, and never moves afterwards: pushing again skips
what is there and goes on. Refuses a checkpoint whose bytes here are not the recorded ones, and a branch that holds
other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from registry.core import canonical
from registry.core.branches import CheckpointBranch, staging
from registry.core.codec import Reader, record_bytes
from registry.core.digests import Digest, tree_digest
from registry.core.names import Name
from registry.core.publications import Publication, Publications, Subject
from registry.core.pushing import Overtaken, Parcel, check_limits
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed
from registry.ports import Host, RecordStore
from registry.workflows.push.staging import Site, allowed, check_bytes, check_list, made, stage

_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A checkpoint as ``checkpoints.json`` lists it: its branch, name, and the tree digest of its files."""

    branch: CheckpointBranch
    name: Name
    files: Digest

    @classmethod
    def read(cls, reader: Reader) -> Kept:
        """Read one entry. Raises ``MalformedRecord`` or ``Refused``; a branch of other counts is refused too."""
        fields = dict(reader.rest())
        again = Reader(fields, "an entry of checkpoints.json")
        name, step, tokens = Name.parse(again.text("name")), again.integer("step"), again.integer("tokens")
        branch, files = CheckpointBranch.parse(again.text("branch")), again.digest("files")
        if name.step != step or branch != CheckpointBranch.of(name, tokens):
            raise MalformedRecord(f"checkpoints.json gives {name} the branch {branch}, which has other counts.")
        return cls(branch=branch, name=name, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A checkpoint that is on the hub. ``fresh`` is False when it was there already."""

    name: str
    branch: str
    commit: str
    size_bytes: int
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Publishes checkpoints at one site. ``parcel`` gives the files of one, hashed now."""

    site: Site
    records: RecordStore
    publications: Publications
    host: Host
    parcel: Callable[[Kept], Parcel]

    def publish(self, kept: Sequence[Kept], *, private: bool) -> Iterator[Published]:
        """Publish each, by step. Raises as soon as one cannot be: those before it stay."""
        allowed(self.site)
        self.site.patiently(lambda: made(self.site, private=private))
        for one in sorted(kept, key=lambda each: (each.branch.step, each.branch.segment)):
            yield self._publish(one)

    def _publish(self, kept: Kept) -> Published:
        parcel = self.parcel(kept)
        if tree_digest(parcel.files.values()) != kept.files:
            raise DoesNotHold(
                f"The files of {kept.name} here are not the recorded ones ({kept.files.short}).",
                remedy=f"See 'reckon verify {kept.name.stage}'; 'dvc checkout' brings the recorded bytes back.",
            )
        check_limits(parcel)
        commit, fresh = self.site.patiently(lambda: self._persist(kept, parcel))
        self._record(kept, commit)
        return Published(
            name=str(kept.name), branch=str(kept.branch), commit=commit, size_bytes=parcel.size_bytes, fresh=fresh
        )

    def _persist(self, kept: Kept, parcel: Parcel) -> tuple[str, bool]:
        """Go on from what the hub holds, again when somebody else pushed meanwhile."""
        for _ in range(_TRIES):
            with suppress(Overtaken):
                return self._advance(kept, parcel)
        raise OutsideFailed("Somebody else keeps pushing.", remedy="Find out who, then run the same command again.")

    def _advance(self, kept: Kept, parcel: Parcel) -> tuple[str, bool]:
        """From whatever the hub holds to the branch: its commit, and whether anything was done."""
        name = str(kept.branch)
        there = self.site.commit_of(name)
        if there is not None:
            self._check_branch(name, parcel, there)
            return there, False
        prepared = staging(name, kept.files.hex)
        commit = stage(self.site, parcel, prepared, f"Checkpoint {kept.name}")
        check_bytes(self.site, parcel, commit)
        try:
            self.site.outlet.branch(name, commit)
        except Overtaken:
            commit = self.site.need(name)
            self._check_branch(name, parcel, commit)
        with suppress(OutsideFailed):  # a branch left behind is in nobody's way
            self.site.outlet.drop(prepared)
        return commit, True

    def _check_branch(self, name: str, parcel: Parcel, commit: str) -> None:
        try:
            check_list(parcel, self.site.listing(commit))
        except DoesNotHold as error:
            raise DoesNotHold(
                f"The branch {name} of {self.site.repository} holds another checkpoint: {error.message}",
                remedy="A published checkpoint never changes. Which of both is the recorded one?",
            ) from error

    def _record(self, kept: Kept, commit: str) -> None:
        place = self.site.outlet.place
        if any(one.commit == commit for one in self.publications.of(kept.files, place)):
            return
        publication = Publication(
            subject=Subject.CHECKPOINT,
            name=str(kept.name),
            digest=kept.files,
            place=place,
            commit=commit,
            tag=None,
            branch=str(kept.branch),
            head=commit,
            time=self.host.now(),
        )
        self.records.put(publication.kind, record_bytes(publication))


def read_list(data: bytes) -> tuple[Kept, ...]:
    """The checkpoints that ``checkpoints.json`` lists. Raises ``MalformedRecord``, also when a branch stands twice."""
    found = Reader({"checkpoints": canonical.decode(data.removesuffix(b"\n"))}, "checkpoints.json").objects(
        "checkpoints", Kept.read
    )
    if len({one.branch for one in found}) != len(found):
        raise MalformedRecord("checkpoints.json lists a branch twice.")
    return found

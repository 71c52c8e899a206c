"""All foreign records together: of each thing what every origin tells, the newest record of an origin counting.

Pure: it is built from bytes that somebody else read. A record that cannot be read becomes a damage, never an exception.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from registry.core.adopted.absence import Absence
from registry.core.adopted.claims import Claim, Said
from registry.core.adopted.record import Adopted, Bond, Ended, Link, Origin, Role
from registry.core.digests import Digest
from registry.core.names import Name, known
from registry.core.reading import RawRecords, read_each
from registry.errors import UnknownName

ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One foreign thing, from all origins that tell of it."""

    name: str
    role: Role
    ended: Ended
    records: tuple[tuple[Digest, Adopted], ...]
    said: Mapping[str, tuple[Said, ...]]
    links: tuple[Link, ...]
    absence: Absence | None

    def text(self, quantity: str) -> str:
        """The first value that is told of a quantity, or nothing."""
        told = self.said.get(quantity, ())
        return told[0].text if told else ""

    def whole(self, quantity: str) -> int | None:
        """The first value of a quantity that is a whole number from zero."""
        return next((int(one.value) for one in self.said.get(quantity, ()) if _is_whole(one.value)), None)

    def bound(self, *bonds: Bond) -> Iterator[Link]:
        """The links of these bonds."""
        return (link for link in self.links if link.bond in bonds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Things by name, sorted, and what is wrong with records that cannot be read."""

    things: Mapping[str, Thing] = field(default_factory=dict)
    damages: tuple[str, ...] = ()

    @classmethod
    def build(cls, raw: RawRecords) -> Self:
        """Index raw records. One bad record hides no other."""
        found, damages = read_each(raw, Adopted.from_json)
        newest: dict[tuple[str, str, str], tuple[Digest, Adopted]] = {}
        for digest, record in found:
            held = newest.get(record.place)
            if held is None or (held[1].time, held[0]) < (record.time, digest):
                newest[record.place] = (digest, record)
        by_name: dict[str, list[tuple[Digest, Adopted]]] = {}
        for place in sorted(newest):
            by_name.setdefault(newest[place][1].name, []).append(newest[place])
        return cls(things={name: _thing(name, by_name[name]) for name in sorted(by_name)}, damages=damages)

    def holds(self, name: str) -> bool:
        """Whether something foreign is told under ``name`` or below it."""
        return name in self.things or any(one.startswith(f"{name}/") for one in self.things)

    def names(self) -> Iterator[str]:
        """Every name, and every name that has some below it."""
        seen: dict[str, None] = {}
        for name in self.things:
            parts = name.split("/")
            seen.update(dict.fromkeys("/".join(parts[:end]) for end in range(1, len(parts) + 1)))
        return iter(seen)

    def thing(self, name: Name) -> Thing:
        """The thing of that name. Raises ``UnknownName``, also for a checkpoint or file: none of theirs lies here."""
        if name.step is not None or name.path is not None:
            raise UnknownName(
                f"No checkpoint and no file of {name.stage} is here: all that is on record of it are claims.",
                remedy=f"See 'reckon show {name.stage}' and 'reckon tree {name.stage}'.",
            )
        return self.things[known(name.stage, self.things)]

    def below(self, name: str) -> tuple[Thing, ...]:
        """The thing of that name and those below it, by name."""
        return tuple(one for key, one in self.things.items() if key == name or key.startswith(f"{name}/"))

    def members(self, family: Thing) -> tuple[Thing, ...]:
        """The things that say they are of a family."""
        if family.role is not Role.FAMILY:
            return ()
        return tuple(
            one for one in self.things.values() if any(link.name == family.name for link in one.bound(Bond.FAMILY))
        )

    def reach(self, start: Thing) -> tuple[Thing, ...]:
        """The thing and all that its links lead to, nearest first; of a family its members too.

        What is told of nowhere is left out.
        """
        queue = deque((start, *self.members(start)))
        found = {one.name: one for one in queue}
        while queue:
            for link in queue.popleft().links:
                other = self.things.get(link.name)
                if other is not None and other.name not in found:
                    found[other.name] = other
                    queue.append(other)
        return tuple(found.values())


def _thing(name: str, records: list[tuple[Digest, Adopted]]) -> Thing:
    said: dict[str, list[Said]] = {}
    for _, record in records:
        for claim in record.claims:
            said.setdefault(claim.quantity, []).append(_said(claim, record))
    endings = {record.ended: record.origin for _, record in records if record.ended is not Ended.UNKNOWN}
    if len(endings) > 1:
        said.setdefault(ENDED, []).extend(_ended(end, at) for end, at in endings.items())
    return Thing(
        name=name,
        role=records[0][1].role,
        ended=next(iter(endings), Ended.UNKNOWN),
        records=tuple(records),
        said={quantity: tuple(told) for quantity, told in said.items()},
        links=tuple(dict.fromkeys(link for _, record in records for link in record.links)),
        absence=next((record.absence for _, record in records if record.absence is not None), None),
    )


def _said(claim: Claim, record: Adopted) -> Said:
    return Said(
        quantity=claim.quantity,
        value=claim.value,
        source=record.sources[claim.source],
        label=claim.source,
        about=claim.about,
        note=claim.note,
    )


def _ended(end: Ended, at: Origin) -> Said:
    label = f"{at.system} {at.id}"
    return Said(quantity=ENDED, value=end.value, source=label, label=label)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15

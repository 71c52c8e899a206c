"""Where mirroring meets its adapters. Like ``wiring``, inside functions only. No rule lives here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from registry.cli import pulling

if TYPE_CHECKING:
    from registry.core.pulling import Listing, Reference
    from registry.workflows.pull import Mirrored, Mirrorer, Plan


def plan(asked: pulling.Asked, reference: Reference) -> Plan:
    """What there is to mirror."""
    return _mirrorer(asked, lambda _: None).plan(reference)


def mirror(
    asked: pulling.Asked, planned: Plan, reference: Reference, folder: Path, advance: Callable[[int], None]
) -> Mirrored:
    """Make or refresh the mirror below ``folder``."""
    from registry.adapters.hub_cache import MirrorFolder

    made = MirrorFolder(folder, reference)
    with pulling.landing(made.folder) as landing:
        return _mirrorer(asked, advance).mirror(planned, landing, made)


def copy(reference: Reference, folder: Path, to: tuple[str, bool], advance: Callable[[int], None]) -> int:
    """Copy the mirror in ``folder`` to the hub at an address (and whether new repositories there are public)."""
    from registry.adapters.hub_cache import CacheReader, folder_name
    from registry.adapters.hub_push import HubRepository
    from registry.adapters.hub_read import HubReader
    from registry.core.publications import Place
    from registry.workflows.pull import Copier

    address, public = to[0].rstrip("/"), to[1]
    source = CacheReader.at(folder)
    branches, tags = source.refs(reference)
    blobs = folder / folder_name(reference) / "blobs"
    copier = Copier(
        outlet=HubRepository(Place(endpoint=address, repository=reference.repository)),
        target=HubReader.at(address),
        blob=lambda file: blobs / file.claimed.hex,
        public=public,
        advance=advance,
    )

    def listed(names: dict[str, str]) -> dict[str, Listing]:
        return {name: source.listing(reference, commit) for name, commit in names.items()}

    return copier.copy(reference, listed(dict(branches)), listed(dict(tags)))


def _mirrorer(asked: pulling.Asked, advance: Callable[[int], None]) -> Mirrorer:
    from registry.workflows.pull import Mirrorer

    return Mirrorer(puller=asked.puller(advance), looker=asked.looker)

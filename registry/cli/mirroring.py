"""Where mirroring meets its adapters. Like ``wiring``, inside functions only. No rule lives here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from registry.cli import pulling
from registry.errors import Refused

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
    token = tokens(address)[1]
    blobs = folder / folder_name(reference) / "blobs"
    copier = Copier(
        outlet=HubRepository(Place(endpoint=address, repository=reference.repository), token),
        target=HubReader.at(address, token),
        blob=lambda file: blobs / file.claimed.hex,
        public=public,
        advance=advance,
    )

    def listed(names: dict[str, str]) -> dict[str, Listing]:
        return {name: source.listing(reference, commit) for name, commit in names.items()}

    return copier.copy(reference, listed(dict(branches)), listed(dict(tags)))


def tokens(address: str) -> tuple[str | None, str | None]:
    """What the source and the hub at ``address`` are asked with; None is the client's own token, "" is none.

    A stored login is for the hub of HF_ENDPOINT. Raises ``Refused`` for another hub where HF_TOKEN is not set.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils._auth import _get_token_from_file

    from registry.adapters.hub_read import HubReader, same_origin

    HubReader.at(address)  # refuses what is no address, and an environment that is offline
    if same_origin(address, constants.ENDPOINT):
        return None, None
    given = os.environ.get("HF_TOKEN", "").strip()
    if not given:
        raise Refused(
            "The hub to write to is not that of HF_ENDPOINT, so a stored login is not sent to it.",
            remedy="Set HF_TOKEN to a token of the hub to write to; the source is read with the stored login.",
        )
    stored = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else _get_token_from_file()
    return stored or "", given


def _mirrorer(asked: pulling.Asked, advance: Callable[[int], None]) -> Mirrorer:
    from registry.workflows.pull import Mirrorer

    return Mirrorer(puller=asked.puller(advance), looker=asked.looker)

"""Copying a mirror to another hub: every branch and tag with the same files under the same names.

Commits there are new ones, since a hub makes its own; files, digests and names are the same, and a signed release holds
wherever it lies. What the other hub lists afterwards is held against the mirror. A name that has these files already is
left alone, so a rerun finishes the job. Refuses to move a tag that is there with other files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.core.publications import MAIN
from registry.core.pulling import Listing, Reference, RemoteFile
from registry.core.pushing import Change
from registry.errors import DoesNotHold, UnknownName
from registry.ports import Origin, Outlet

_ATTRIBUTES: Final = ".gitattributes"  # every hub writes its own
_SCRATCH: Final = "mirroring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """Copies to ``outlet``; what it then holds is read through ``target``. ``blob`` tells where a file lies here.

    A repository that has to be made is private unless ``public``.
    """

    outlet: Outlet
    target: Origin
    blob: Callable[[RemoteFile], Path]
    public: bool
    advance: Callable[[int], None] = lambda _: None

    def copy(self, reference: Reference, branches: Mapping[str, Listing], tags: Mapping[str, Listing]) -> int:
        """Make the other hub hold these; returns how many names were written. Raises ``DoesNotHold``, ``Refused``."""
        self.outlet.create(private=not self.public)
        there, tagged = self.target.refs(reference)
        written = 0
        for name, listing in sorted(tags.items()):
            if name in tagged:
                if not self._same(reference, tagged[name], listing):
                    raise DoesNotHold(f"The tag {name} is at {self.target.where} with other files; tags do not move.")
                continue
            self.outlet.tag(name, self._commit(reference, _SCRATCH, listing, there), f"Mirror of {listing.commit}")
            written += 1
        for name, listing in sorted(branches.items()):
            if name not in there or not self._same(reference, there[name], listing):
                self._commit(reference, name, listing, there)
                written += 1
        self.outlet.drop(_SCRATCH)
        return written

    def _commit(self, reference: Reference, branch: str, listing: Listing, there: Mapping[str, str]) -> str:
        """The commit on a branch that holds the files of ``listing`` and no others."""
        parent = self._tip(reference, branch)
        if parent is None:
            self.outlet.branch(branch, self.target.resolve(reference.at(MAIN)).commit)
            parent = self.target.resolve(reference.at(branch)).commit
        present = _files(self.target.listing(reference, parent))
        wanted = _files(listing)
        added = {path: self.blob(file) for path, file in wanted.items() if present.get(path) != file}
        removed = tuple(sorted(present.keys() - wanted.keys()))
        if not added and not removed:
            return parent
        title = f"Mirror of {listing.reference.repository} at {listing.commit}"
        change = Change(branch=branch, parent=parent, title=title, added=added, removed=removed)
        commit = self.outlet.commit(change, self.advance)
        if not self._same(reference, commit, listing):
            raise DoesNotHold(f"{self.target.where} lists other files at {commit} than were sent to it.")
        return commit

    def _tip(self, reference: Reference, branch: str) -> str | None:
        try:
            return self.target.resolve(reference.at(branch)).commit
        except UnknownName:
            return None

    def _same(self, reference: Reference, commit: str, listing: Listing) -> bool:
        return _files(self.target.listing(reference, commit)) == _files(listing)


def _files(listing: Listing) -> Mapping[str, RemoteFile]:
    return {file.path: file for file in listing.files if file.path != _ATTRIBUTES}

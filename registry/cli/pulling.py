"""Where pulling and mirroring meet their adapters. Like ``wiring``, inside functions only. No rule lives here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click

from registry.cli import trusting, wiring
from registry.core.names import Name
from registry.core.pulling import Signed
from registry.errors import DoesNotHold

if TYPE_CHECKING:
    from registry.core.digests import Digest
    from registry.core.findings import Finding
    from registry.core.tensors import Leaf
    from registry.ports import Landing, Origin
    from registry.workflows.pull import Judge, Kept, Looked, Looker, Puller, TensorPuller

Command = TypeVar("Command", bound=Callable[..., Any])
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def origin_options(command: Command) -> Command:
    """The options that say where from, and who has to answer for it."""
    options = (
        click.option("--offline", is_flag=True, help="Ask no network: read a mirror, else the client's cache."),
        click.option("--mirror", type=_FOLDER, help="A folder that 'reckon mirror' made; with --offline."),
        click.option(
            "--mirror-of", metavar="ORG/NAME", help="The repository that the release was signed for, if other."
        ),
        trusting.trust_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where to pull from, and how to look at it."""

    origin: Origin
    looker: Looker

    def checkpoint(self, release: Looked, word: str) -> Kept:
        """A kept checkpoint of a release."""
        from registry.workflows.pull import Shelf

        return Shelf(origin=self.origin).find(release, word)

    def puller(self, advance: Callable[[int], None]) -> Puller:
        """What brings files."""
        from registry.workflows.pull import Puller

        return Puller(origin=self.origin, advance=advance)

    def tensors(self, advance: Callable[[int], None]) -> TensorPuller:
        """What brings tensors."""
        from registry.workflows.pull import TensorPuller

        return TensorPuller(puller=self.puller(advance), read_leaves=read_leaves)


def asked(how: Mapping[str, Any], token: str | None = None) -> Asked:
    """The origin and the looker that :func:`origin_options` ask for; ``token`` as in :func:`hub`."""
    from registry.workflows.pull import Looker

    if how["mirror"] is not None and not how["offline"]:
        raise click.UsageError("--mirror is read with --offline; without, the hub of HF_ENDPOINT is asked.")
    origin = cached(how["mirror"]) if how["offline"] else hub(token)
    policy = trusting.policy(how["trust_file"])
    looker = Looker(
        origin=origin,
        judge=judge(how["trust_file"]),
        unsigned=policy is None or bool(how.get("unsigned")),
        mirror_of=how["mirror_of"],
        vouched=trusting.checker(how["trust_file"]).noticed,
    )
    return Asked(origin=origin, looker=looker)


def hub(token: str | None = None) -> Origin:
    """The hub of HF_ENDPOINT, asked with the client's own token unless one is given; "" is none."""
    from registry.adapters.hub_read import HubReader

    return HubReader.at(token=token)


def cached(mirror: Path | None) -> Origin:
    """A mirror, or the client's cache."""
    from registry.adapters.hub_cache import CacheReader

    return CacheReader.at(mirror)


@contextmanager
def landing(folder: Path) -> Iterator[Landing]:
    """A folder that files land in."""
    from registry.adapters.landing import LandingFolder

    with LandingFolder(folder) as opened:
        yield opened


def judge(trust_file: Path | None) -> Judge:
    """The check of a release's signatures against the trust policy that counts here."""
    from registry.core.trust import Trust
    from registry.workflows.trusted import Expected

    checker = trusting.checker(trust_file)

    def judged(read: Callable[[str], bytes], repository: str, version: str | None) -> Signed:
        signed, findings = checker.seals(read, Expected(repository=repository, version=version))
        if signed is None or findings:
            raise DoesNotHold(
                " ".join(finding.text for finding in findings[:3]),
                remedy="Do not use it, unless you know why. A mirror under another name: --mirror-of ORG/NAME.",
            )
        return Signed(
            statement=signed.statement,
            files=signed.files,
            by=signed.judgement.text,
            trusted=signed.judgement.trust is Trust.TRUSTED,
        )

    return judged


def inside(looked: Looked, folder: Path, trust_file: Path | None) -> Sequence[Finding]:
    """What is wrong with the statements inside a release whose small files were pulled to ``folder``."""
    from registry.adapters.hashing import ReleaseFolder
    from registry.core.digests import FileEntry

    signed = {} if looked.signed is None else looked.signed.files
    files = (file for file in looked.listing.files if file.path in signed)
    entries = [FileEntry(path=one.path, size_bytes=one.size_bytes, digest=signed[one.path]) for one in files]
    return trusting.checker(trust_file).check(entries, ReleaseFolder(root=folder).read).verdict.findings


def from_dvc(name: Name) -> None:
    """Bring a recorded artifact from DVC's remote into the working tree. Nothing is verified here."""
    from registry.adapters.dvc_remote import pull
    from registry.core.resolving import artifact

    archive = wiring.root()
    output = artifact(wiring.ledger(archive), name).output
    pull(archive, output.path if name.path is None else f"{output.path}/{name.path}")


def read_leaves(data: bytes, root: Digest) -> Sequence[Leaf]:
    """The leaves in the bytes of a table. Raises ``DoesNotHold`` when they do not add up to ``root``."""
    from registry.adapters.columns import TableColumns
    from registry.adapters.tables import TableFolder
    from registry.errors import ReckonError

    counted = TableColumns(lambda _: data).count_leaves([root])[root]
    if isinstance(counted, ReckonError):
        raise counted
    with TemporaryDirectory(prefix="leaves-") as scratch:
        place = Path(scratch) / "tensors" / f"{root.hex}.parquet"
        place.parent.mkdir()
        place.write_bytes(data)
        return TableFolder(Path(scratch)).get_leaves(root)

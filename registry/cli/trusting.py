"""Where signing, trust policies and attestations meet their adapters. Like ``wiring``, inside functions only.

A passphrase or PIN comes from a file or from the terminal, never from the command line or the environment, which others
can read. No rule of the archive lives here.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from registry.errors import MalformedRecord, Refused

if TYPE_CHECKING:
    from registry.adapters.signing import Key
    from registry.core.dsse import Envelope
    from registry.core.publickeys import PublicKey
    from registry.core.statement import Statement
    from registry.core.trust import TrustPolicy
    from registry.workflows.attest import Attestor
    from registry.workflows.trusted import TrustChecker

POLICY: Final = "trust.toml"
LARGEST_SECRET: Final = 4096

key_option = click.option(
    "--key", "key_place", required=True, metavar="FILE|URI", help="The private key: a file, or a pkcs11: URI."
)
passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the key's passphrase or PIN; else it is asked for.",
)
trust_option = click.option(
    "--trust",
    "trust_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The trust policy; else trust.toml of this archive, else the user's own.",
)


def policy_file(named: Path | None) -> Path | None:
    """The policy that counts: the one that is named, else the archive's, else the user's; None where there is none.

    One that came with a release never counts: whoever makes a release could write it.
    """
    if named is not None:
        return named
    here = Path.cwd()
    archive = next((folder for folder in (here, *here.parents) if (folder / "dvc.yaml").is_file()), None)
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "reckon"
    folders = [folder for folder in (archive, settings) if folder is not None]
    return next((folder / POLICY for folder in folders if (folder / POLICY).is_file()), None)


def policy(named: Path | None = None) -> TrustPolicy | None:
    """The trust policy that counts here, None where there is none. Raises ``MalformedRecord`` for a bad one."""
    from registry.core.trust import TrustPolicy

    file = policy_file(named)
    return None if file is None else TrustPolicy.parse(read_policy(file))


def read_policy(file: Path) -> bytes:
    """The bytes of a policy. Raises ``Refused`` when it is too large."""
    from registry.core.trust import LARGEST_POLICY

    if file.stat().st_size > LARGEST_POLICY:
        raise Refused(f"{file} is too large for a trust policy.")
    return file.read_bytes()


def write_policy(file: Path, data: bytes) -> None:
    """Put a changed policy in the place of the old one, whole or not at all."""
    from registry.keeping import keep_whole

    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        keep_whole(fresh, data)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def signing_key(place: str, passphrase_file: Path | None = None) -> Key:
    """The private key at ``place``, a PEM file or a pkcs11: URI. Raises ``Refused`` and ``OutsideFailed``."""
    from registry.adapters.signing import open_key

    return open_key(place, secret(passphrase_file, f"Passphrase or PIN of {_shown(place)}"))


def checker(trust_file: Path | None = None) -> TrustChecker:
    """The check of releases and attestations under the trust policy that counts here."""
    from registry.adapters.signing import verify
    from registry.workflows.trusted import TrustChecker

    return TrustChecker(verify=verify, policy=policy(trust_file))


def attestor(archive: Path, trust_file: Path | None = None) -> Attestor:
    """The workflow that drafts and keeps attestations."""
    from registry.cli import wiring
    from registry.workflows.attest import Attestor

    return Attestor(
        records=wiring.record_store(archive),
        ledger=wiring.ledger(archive),
        host=wiring.host(),
        check=checker(trust_file).attested,
    )


def signed(statement: Statement, key: Key) -> Envelope:
    """The envelope of a statement, signed."""
    from registry.adapters.signing import sign
    from registry.core.dsse import IN_TOTO

    return sign(IN_TOTO, statement.encode(), key)


def envelope(file: Path) -> Envelope:
    """The envelope in a file. Raises ``MalformedRecord``."""
    from registry.core.dsse import LARGEST_ENVELOPE, Envelope

    if file.stat().st_size > LARGEST_ENVELOPE:
        raise Refused(f"{file} is too large for an envelope.")
    try:
        return Envelope.parse(file.read_bytes())
    except MalformedRecord as error:
        told = f"{file} is no envelope: {error.message}"
        raise MalformedRecord(told, remedy="'reckon attest --out' and 'reckon release build' write some.") from error


def write_envelope(file: Path, one: Envelope) -> None:
    """Write an envelope to a new file."""
    from registry.keeping import keep_whole

    keep_whole(file, one.encode())


def make_key(file: Path, passphrase: str | None) -> PublicKey:
    """Make a key; its public half lies beside it."""
    from registry.adapters.signing import new_key

    return new_key(file, passphrase)


def read_public(file: Path) -> PublicKey:
    """The public key in a file."""
    from registry.adapters.signing import read_public as read

    return read(file)


def known_key(key: str, trust_file: Path | None) -> PublicKey:
    """The public key in the file ``key``, else the one of the policy whose id begins so. Raises ``UnknownName``."""
    from registry.core.trust import TrustPolicy
    from registry.core.trustedit import find

    if Path(key).exists():
        return read_public(Path(key))
    found = policy(trust_file) or TrustPolicy(keys={})
    return found.keys[find(found, key)].public_key


def policy_entry(public: PublicKey, settings: Mapping[str, Any]) -> str:
    """The entry for a policy that the options ``who``, ``releases``, ``attests``, ``valid_from`` and ``end`` give."""
    from registry.core.trust import TrustedKey
    from registry.core.trustedit import entry

    if not settings["who"] or not (settings["releases"] or settings["attests"]):
        raise click.UsageError("An entry for trust.toml needs --who, and --releases or --attests.")
    return entry(
        TrustedKey(
            who=settings["who"],
            public_key=public,
            releases=settings["releases"],
            attests=settings["attests"],
            valid_from=_day(settings["valid_from"]),
            end=_day(settings["end"]),
            revoked=None,
            keeps=frozenset(),
        )
    )


def secret(file: Path | None, prompt: str) -> Callable[[], str]:
    """How a passphrase is got when one is needed: from the file, else from the terminal. Raises ``Refused``."""

    def ask() -> str:
        if file is not None:
            return read_secret(file)
        if not sys.stdin.isatty():
            raise Refused("The key needs its passphrase or PIN.", remedy="Give a file with --passphrase-file.")
        return str(click.prompt(prompt, hide_input=True, err=True))

    return ask


def read_secret(file: Path) -> str:
    """The first line of a file, without its end. Raises ``Refused`` when there is none."""
    if file.stat().st_size > LARGEST_SECRET:
        raise Refused(f"{file} is too large for a passphrase.")
    text = file.read_bytes().decode("utf-8", "surrogateescape").partition("\n")[0].removesuffix("\r")
    if not text:
        raise Refused(f"{file} holds no passphrase.", remedy="Write it on the first line.")
    return text


def _shown(place: str) -> str:
    return place.partition("?")[0]


def _day(moment: dt.datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%d}T00:00:00.000000Z"

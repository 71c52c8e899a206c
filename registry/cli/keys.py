"""``reckon keys``: make signing keys, and say whom to trust with which names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli import trusting, wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Fields, Mark, Table, Tone, emit, talk
from registry.core.digests import Digest
from registry.errors import Refused

if TYPE_CHECKING:
    from registry.core.trust import TrustedKey

_TONES = {"valid": Tone.GOOD, "revoked": Tone.BAD, "ended": Tone.DOUBT, "not yet valid": Tone.DOUBT}


@click.group(
    epilog=example(
        "reckon keys new ~/keys/release-2026.pem",
        "reckon keys show ~/keys/release-2026.pem.pub --who 'Open Lab' --releases 'pocket-*' >> trust.toml",
        "reckon keys list",
        "reckon keys revoke 5faf5b3fc9b9 --reason 'the laptop was stolen'",
    )
)
def command() -> None:
    """Make signing keys, and say which keys may sign what.

    A key is one on the curve P-256. Whom to trust stands in trust.toml: of this archive, else the user's own in
    ~/.config/reckon/. Without one, a good signature is 'attested by unknown key'.
    """


@command.command(epilog=example("reckon keys new ~/keys/release-2026.pem"))
@click.argument("file", type=click.Path(path_type=Path))
@trusting.passphrase_option
@click.option("--no-passphrase", is_flag=True, help="Leave the key unencrypted; its mode is 0600 all the same.")
@json_option
def new(file: Path, passphrase_file: Path | None, no_passphrase: bool, as_json: bool) -> None:
    """Make a key in FILE, and its public half in FILE.pub. Nothing is ever overwritten."""
    public = trusting.make_key(file, _passphrase(passphrase_file, no_passphrase))
    facts = {"key": file, "public_key": f"{file}.pub", "id": public.id, "encrypted": not no_passphrase}
    emit(facts, Fields(values={"key": str(file), "public key": f"{file}.pub", "id": public.id}), as_json=as_json)
    if any((folder / "dvc.yaml").is_file() for folder in file.resolve().parents):
        talk(f"{file} lies in an archive, which is published: never commit it. A place outside is safer.")


@command.command(name="list", epilog=example("reckon keys list"))
@trusting.trust_option
@json_option
def list_(trust_file: Path | None, as_json: bool) -> None:
    """List the keys of the trust policy: whose they are, what they may sign, from when until when."""
    policy = trusting.policy(trust_file)
    now = wiring.host().now()
    keys = [] if policy is None else [_facts(key, now) for key in policy.keys.values()]
    rows: list[list[Cell]] = [
        [Mark(str(one["state"]), _TONES[str(one["state"])]), str(one["id"])[:12], str(one["who"]), *_limits(one)]
        for one in keys
    ]
    columns = ("state", "key", "who", "releases", "attests", "valid from", "end", "revoked")
    none = "No trust policy is here: every good signature is 'attested by unknown key'. See 'reckon keys show --help'."
    emit(
        {"policy": trusting.policy_file(trust_file), "keys": keys},
        none if policy is None else Table(columns=columns, rows=rows),
        as_json=as_json,
    )


@command.command(epilog=example("reckon keys show release-2026.pem.pub --who 'Open Lab' --releases 'pocket-*'"))
@click.argument("key")
@click.option("--who", help="Print an entry for trust.toml: whose key it is.")
@click.option("--releases", multiple=True, metavar="GLOB", help="Releases that it may sign; may be given again.")
@click.option("--attests", multiple=True, metavar="GLOB", help="Names that it may attest; may be given again.")
@click.option("--valid-from", metavar="DAY", type=click.DateTime(["%Y-%m-%d"]), help="What it signs counts from then.")
@click.option("--end", metavar="DAY", type=click.DateTime(["%Y-%m-%d"]), help="What it signs from then on does not.")
@trusting.passphrase_option
@trusting.trust_option
@json_option
def show(key: str, passphrase_file: Path | None, trust_file: Path | None, as_json: bool, **settings: Any) -> None:
    """Show a public key: of a file, of a token (a pkcs11: URI), or of the trust policy by the first digits of its id.

    With --who, print the entry that says in trust.toml what the key may sign.
    """
    in_token = key.startswith("pkcs11:")
    public = trusting.signing_key(key, passphrase_file).public_key if in_token else trusting.known_key(key, trust_file)
    text = trusting.policy_entry(public, settings) if any(settings.values()) else public.pem
    facts = {"id": public.id, "hint": public.hint, "pem": public.pem, "entry": text if settings["who"] else None}
    emit(facts, *text.splitlines(), as_json=as_json)


@command.command(epilog=example("reckon keys revoke 5faf5b3fc9b9 --reason 'the laptop was stolen'"))
@click.argument("key")
@click.option("--reason", required=True, help="Why.")
@click.option("--keep", multiple=True, metavar="DIGEST", help="A release that stays good; may be given again.")
@trusting.trust_option
@json_option
def revoke(key: str, reason: str, keep: tuple[str, ...], trust_file: Path | None, as_json: bool) -> None:
    """Write into trust.toml that KEY counts no more: nothing that it signed, whenever it says that it did.

    Whoever holds a lost key can write any time into what it signs. Releases that were known before are kept by their
    digest with --keep. A key that was only replaced needs an 'end' instead.
    """
    from registry.core.trust import TrustPolicy
    from registry.core.trustedit import find, revoked

    file = trusting.policy_file(trust_file)
    if file is None:
        raise Refused("There is no trust policy here.", remedy="Name it with --trust, or begin a trust.toml.")
    data = trusting.read_policy(file)
    key_id = find(TrustPolicy.parse(data), key)
    trusting.write_policy(file, revoked(data, key_id, reason, [Digest.parse(one) for one in keep]))
    emit({"policy": file, "id": key_id, "revoked": reason}, f"Revoked in {file}: {key_id}", as_json=as_json)


def _passphrase(file: Path | None, without: bool) -> str | None:
    if without and file is not None:
        raise click.UsageError("--no-passphrase and --passphrase-file exclude each other.")
    if without:
        return None
    if file is not None:
        return trusting.read_secret(file)
    if not sys.stdin.isatty():
        raise Refused("The new key needs a passphrase.", remedy="Give --passphrase-file, or --no-passphrase.")
    return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))


def _facts(key: TrustedKey, now: str) -> dict[str, object]:
    facts = {"id": key.public_key.id, "state": key.state(now), "who": key.who, "releases": key.releases}
    return {**facts, "attests": key.attests, "valid_from": key.valid_from, "end": key.end, "revoked": key.revoked}


def _limits(one: dict[str, object]) -> Iterator[Cell]:
    for name in ("releases", "attests"):
        patterns = one[name]
        yield " ".join(patterns) if isinstance(patterns, tuple) else ""
    yield from (str(one[name] or "") for name in ("valid_from", "end", "revoked"))
